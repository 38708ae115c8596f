"""An application on a cluster of its own, measured while executors are lost, moved to and added.

Started by `replicas.py` as a process, once for each kind of run. The task stands in a JSON file,
and so does the outcome.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.harness.apart import run_apart
from bench.spark.replicas_application import Application, Task, batch_ms, task_of
from support.spark.standalone import wait_for

BEGIN, MIDDLE = "begin", "middle"
TRIES_MAX = 8


@dataclass
class Outcome:
    """Times of batches and loads of one run, in milliseconds."""

    batch_ms: list[float] = field(default_factory=list)
    """Milliseconds of batches with nothing happening."""
    after_kill_ms: list[float] = field(default_factory=list)
    """The slowest batch after each kill, less what of it Spark took to notice."""
    load_ms: dict[str, list[float]] = field(default_factory=dict)
    """Load times of the stores that moved, summed up for each kill, by its moment."""
    moves_ms: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds that the batch was longer than its neighbours, by protocol."""
    move_load_ms: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds that the new owner read before the batch, by protocol."""
    owned_after: list[int] = field(default_factory=list)
    """Partitions that the new executor owned, batch by batch."""


def run(task: Task) -> Outcome:
    """Run the task in a process group of its own, which is gone at the end."""
    return Outcome(**run_apart(__file__, task.folder, asdict(task)))


def loaded_ms(progress: dict[str, Any]) -> float:
    return float(
        sum(e["customMetrics"].get("cecLoadLatencyMs", 0) for e in progress["stateOperators"])
    )


def overlap_ms(progress: dict[str, Any], from_s: float, to_s: float) -> float:
    """Return the milliseconds of a batch that lie between two moments, in seconds since 1970."""
    began_s = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    ended_s = began_s + batch_ms(progress) / 1e3
    return max(0.0, min(ended_s, to_s) - max(began_s, from_s)) * 1e3


def kill(application: Application, outcome: Outcome, moment: str, dice: random.Random) -> None:
    """Kill an executor: as a batch begins, before it is fixed where its tasks run; or within one.

    Tasks of a batch that begins are sent to where the replicas are.
    """
    last = application.last()
    wait_for(lambda: application.last() > last, lambda: f"no batch after {last}")
    wait_for(application.is_in_batch, lambda: f"no batch begins after {last + 1}")
    if moment == MIDDLE:
        time.sleep(dice.random() * statistics.median(outcome.batch_ms) / 1e3)
    first = application.last() + 1
    count = application.registered()
    victim = application.cluster.executors()[0]
    killed_s = time.time()
    application.cluster.kill_executor(victim)
    wait_for(lambda: application.registered() < count, lambda: f"{victim} is not missed")
    noticed_s = time.time()
    application.await_batches(application.task.after)
    after = [batch for batch in application.batches() if batch["batchId"] >= first]
    outcome.after_kill_ms.append(
        max(batch_ms(batch) - overlap_ms(batch, killed_s, noticed_s) for batch in after)
    )
    outcome.load_ms.setdefault(moment, []).append(sum(map(loaded_ms, after)))
    wait_for(lambda: application.registered() == count, lambda: "its worker starts no other")
    application.await_batches(application.task.after)


def move(application: Application, cluster: Any, number: int, protocol: str) -> Any:
    """A partition to the executor with the fewest, of those without a replica of it: there the
    direct protocol loads all, and CPAL makes a replica first. The move, and how much longer its
    batch was than the median of those that followed, which ran on the same executors; in ms."""
    snapshot = cluster.snapshot()
    partition = snapshot.partitions[number % len(snapshot.partitions)]
    owners = [partition_status.owner for partition_status in snapshot.partitions]
    others = [executor for executor in snapshot.usable if executor != partition.owner]
    bare = [executor for executor in others if partition.replica_on(executor) is None]
    target = min(bare or others, key=owners.count)
    application.await_batches(2)
    done = cluster.migrate(
        application.query, 0, partition.id.partition, to=target, protocol=protocol, wait_s=300
    )
    # The state that the new owner loaded is that of this batch, which makes the next version.
    application.await_batches(max(1, done.version + 6 - application.last()))
    near = {batch["batchId"]: batch_ms(batch) for batch in application.batches()}
    rest = [near[done.version + after] for after in range(1, 6)]
    return done, near[done.version] - statistics.median(rest)


def move_all(application: Application, cluster: Any, outcome: Outcome) -> None:
    """Move by each protocol in turn, so that whatever disturbs the machine disturbs both."""
    task, number = application.task, 0
    protocols = [("direct", False), ("cpal", True)] * task.moves
    for protocol, is_from_replica in protocols:
        for _ in range(TRIES_MAX):
            done, longer_ms = move(application, cluster, number, protocol)
            number += 1
            # An executor that had the partition a moment ago may still have its state.
            if done.is_from_replica is is_from_replica:
                break
        else:
            raise RuntimeError(f"{TRIES_MAX} times {protocol}, the last: {done}")
        outcome.moves_ms.setdefault(protocol, []).append(longer_ms)
        outcome.move_load_ms.setdefault(protocol, []).append(done.load_ms)


def join(application: Application, outcome: Outcome) -> None:
    """One more executor; how many partitions it owns, batch by batch."""
    task = application.task
    before = {executor.executor_id for executor in application.cluster.executors()}
    application.cluster.add_workers(1)
    wait_for(lambda: application.registered() == task.executors + 1, lambda: "it does not join")
    [new] = {executor.executor_id for executor in application.cluster.executors()} - before
    for _ in range(task.joins):
        application.await_batches(1)
        outcome.owned_after.append(application.owners().count(new))
        if outcome.owned_after[-1] >= task.fair_share:
            break


def measure(task: Task) -> Outcome:
    outcome = Outcome()
    application = Application(task)
    try:
        filled = -(-task.keys // task.rows)
        application._await(lambda: application.last() >= filled + 3, filled)
        if task.every_s:
            application.pace()
        steady = application.await_batches(task.steady)
        outcome.batch_ms = list(map(batch_ms, steady))
        dice = random.Random(1)
        for moment in [BEGIN, MIDDLE] * task.kills:
            kill(application, outcome, moment, dice)
        if task.moves or (task.joins and task.replicas):
            from cec_store.connectors import spark

            cluster = spark.cluster(application.spark)
            move_all(application, cluster, outcome)
        if task.joins and task.replicas:
            with cluster.adapt(every_s=0.5):
                join(application, outcome)
        elif task.joins:
            join(application, outcome)
    finally:
        application.stop()
    return outcome


def main(path: str) -> None:
    outcome = measure(task_of(path))
    Path(path).write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
