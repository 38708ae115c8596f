"""A driver with a standalone cluster of its own, to which things happen: `cluster_events ORDER`.

ORDER is JSON: `folder`; `queries`, names of `killed_queries`, which run at the same time, each in a
folder of its own below; `workers`, how many there are at first; `conf`, `configure` and
`provider`, as `killed_job` has them; `seed`; and `events`, names of functions in EVENTS, "scale N"
among them. Says what it did on stdout, one JSON object a line.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cec_store.connectors import spark
from cec_store.connectors.spark.executors.loads import LoadMeter
from support.drivers.killed_job import ROUND_S_MAX, Job, say
from support.spark import archive
from support.spark.standalone import DEADLINE_S, DECOMMISSIONING, StandaloneCluster, wait_for

CONF = {
    **DECOMMISSIONING,
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": archive.submit_options(),
    # Whoever waits for a busy executor waits in vain where all are busy with several queries.
    "spark.locality.wait": "1s",
    # What a killed executor takes with it is no fault of the tasks.
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.excludeOnFailure.enabled": "false",
}
BACK_BATCHES = 2


class Run:
    """The queries and their cluster."""

    def __init__(self, order: dict[str, Any]) -> None:
        folder = Path(order["folder"])
        self.cluster = StandaloneCluster(folder / "cluster", order["workers"])
        conf = {**CONF, **order["conf"]}
        common = {**order, "master": self.cluster.url, "conf": conf}
        self.jobs = []
        for name in order["queries"]:
            told = {**common, "query": name, "folder": str(folder / name)}
            self.jobs.append(Job(told))
        self.spark = self.jobs[0].spark
        self.meter = LoadMeter(self.spark)

    def registered(self) -> int:
        """Executors that the driver knows; it has a block manager as well."""
        return int(self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1

    def await_executors(self, count: int) -> None:
        wait_for(
            lambda: self.registered() == count and len(self.cluster.executors()) == count,
            lambda: f"{self.registered()} executors, of {self.cluster.executors()}, not {count}",
        )

    def await_batches(self, count: int) -> None:
        for job in self.jobs:
            job.await_batches(count)

    def stop(self) -> None:
        for job in self.jobs:
            job.query.stop()
        self.spark.stop()
        self.cluster.stop()


# -- events: each does one thing, and leaves queries and cluster running ---------------------------


def kill(run: Run, dice: random.Random) -> dict[str, object]:
    """An executor, at a random moment of a batch."""
    time.sleep(ROUND_S_MAX * dice.random())
    running = run.cluster.executors()
    victim = dice.choice(running)
    run.cluster.kill_executor(victim)
    return {"executor": victim.executor_id, "of": len(running)}


def lose(run: Run, dice: random.Random) -> dict[str, object]:
    """A machine: worker and executor at once, for good; another one comes."""
    time.sleep(ROUND_S_MAX * dice.random())
    number = dice.choice(run.cluster.workers)
    run.cluster.kill_worker(number)
    run.cluster.add_workers(1)
    run.await_executors(len(run.cluster.workers))
    return {"worker": number}


def drain(run: Run, dice: random.Random) -> dict[str, object]:
    """A machine, gracefully; another one comes."""
    count = len(run.cluster.workers)
    number = dice.choice(run.cluster.workers)
    run.cluster.add_workers(1)
    run.await_executors(count + 1)
    run.cluster.decommission(number)
    run.cluster.await_left(number)
    run.await_executors(count)
    return {"worker": number}


def scale(run: Run, count: int, dice: random.Random) -> dict[str, object]:
    """To so many machines; those that go are decommissioned."""
    workers = run.cluster.workers
    going = dice.sample(workers, max(len(workers) - count, 0))
    for number in going:
        run.cluster.decommission(number)
    for number in going:
        run.cluster.await_left(number)
    if count > len(workers):
        run.cluster.add_workers(count - len(workers))
    run.await_executors(count)
    return {"from": len(workers), "to": count}


def go_back(run: Run, dice: random.Random) -> dict[str, object]:
    """One query begins again some batches ago, as if the later ones had never been."""
    job = dice.choice(run.jobs)
    job.query.stop()
    checkpoint = job.folder / "checkpoint"
    committed = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    target = max(committed) - BACK_BATCHES
    for name in ("offsets", "commits"):
        for path in (checkpoint / name).glob("[0-9]*"):
            if int(path.name) > target:
                path.unlink()
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    job.written = target
    job.start()
    return {"query": job.folder.name, "after": target}


def migrate(run: Run, dice: random.Random) -> dict[str, object]:
    """A partition to another executor, by any protocol that can be followed."""
    cluster = spark.cluster(run.spark)
    # Of two executors one may have been killed just now, and the next one is not up yet.
    wait_for(lambda: len(cluster.snapshot().usable) > 1, lambda: f"nowhere to go: {cluster}")
    snapshot = cluster.snapshot()
    partition = dice.choice(snapshot.partitions)
    others = [each for each in snapshot.usable if each != partition.owner]
    warm = [each.executor_id for each in partition.replicas if each.state == "warm"]
    found = {"direct": others, "cpal": others, "cpa": [each for each in others if each in warm]}
    protocol = dice.choice([name for name, places in found.items() if places])
    key, to = partition.id, dice.choice(found[protocol])
    move = cluster.migrate(
        key.query, key.operator, key.partition, to=to, protocol=protocol, wait_s=DEADLINE_S
    )
    return {"protocol": protocol, "to": to, "warm": move.is_from_replica, "read": move.records_read}


def rebalance(run: Run, dice: random.Random) -> dict[str, object]:
    """Until no executor owns too few."""
    cluster = spark.cluster(run.spark)
    moves = 0
    while plan := cluster.rebalance(wait_s=DEADLINE_S).moves:
        moves += len(plan)
    return {"moves": moves}


def adapt(run: Run, dice: random.Random) -> dict[str, object]:
    """A machine joins, and gets its fair share by itself."""
    cluster = spark.cluster(run.spark)
    [number] = run.cluster.add_workers(1)
    run.await_executors(len(run.cluster.workers))
    [new] = [each.executor_id for each in run.cluster.executors() if each.worker == number]
    began = [job.written for job in run.jobs]

    def owned() -> int:
        return [each.owner for each in cluster.snapshot().partitions].count(new)

    fair = len(cluster.snapshot().partitions) // len(run.cluster.workers)
    with cluster.adapt(every_s=0.5, say=lambda _: None):
        wait_for(lambda: owned() >= fair, lambda: f"it owns {owned()} of {cluster}")
    batches = [job.written - before for job, before in zip(run.jobs, began, strict=True)]
    return {"executor": new, "owns": owned(), "after_batches": batches}


EVENTS: dict[str, Callable[[Run, random.Random], dict[str, object]]] = {
    event.__name__: event for event in (kill, lose, drain, go_back, migrate, rebalance, adapt)
}


def happen(run: Run, name: str, dice: random.Random) -> dict[str, object]:
    word, _, count = name.partition(" ")
    if word == "scale":
        return scale(run, int(count), dice)
    return EVENTS[word](run, dice)


def metrics_of(run: Run) -> dict[str, int]:
    """Sums of our metrics, of the batches that Spark still has the progress of."""
    found: dict[str, int] = {}
    for job in run.jobs:
        for progress in job.query.recentProgress:
            for operator in progress.stateOperators:
                for name, value in operator.customMetrics.items():
                    if name.startswith("cec") and "." not in name:
                        found[name] = found.get(name, 0) + value
    return found


def partitions_with_costs(run: Run) -> int:
    """Of which Spark's task metrics have told some processor time."""
    found, _ = run.meter.read()
    return sum(cost.tasks > 0 and cost.cpu_s > 0 for cost in found.values())


def main(order: dict[str, Any]) -> None:
    run = Run(order)
    try:
        run.await_batches(2)
        dice = random.Random(order["seed"])
        for name in order["events"]:
            began_s = time.monotonic()
            found = happen(run, name, dice)
            # Migrations happen at every batch.
            run.await_batches(0 if name == "migrate" else 2)
            took_s = round(time.monotonic() - began_s, 1)
            say(event=name, batches=[job.written for job in run.jobs], took_s=took_s, **found)
        say(
            done=[job.written for job in run.jobs],
            again=sum(job.again for job in run.jobs),
            metrics=metrics_of(run),
            history=Counter(spark.cluster(run.spark).events()["kind"].to_pylist()),
            partitions_with_costs=partitions_with_costs(run),
        )
    finally:
        run.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
