"""An application on a cluster of its own, measured while executors are lost, moved to and added.

Started by `replicas.py` as a process, once for each kind of run. The task stands in a JSON file,
and so does the outcome.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.spark.archive import variables
from support.spark.standalone import StandaloneCluster, wait_for

START_MS = 1_700_000_000_000
TIMEOUT_S = 3_000
BATCH_S_MAX = 300.0
_STATE = "org.apache.spark.sql.execution.streaming.state"
HDFS = f"{_STATE}.HDFSBackedStateStoreProvider"


@dataclass(frozen=True)
class Task:
    """What one application does; each part only where it is asked for."""

    folder: Path
    provider: str
    """"cec", or "hdfs": Spark's own."""
    replicas: int
    keys: int
    rows: int
    """Of one batch; every batch after the keys are there renews so many of them at random."""
    executors: int
    partitions: int
    executor_mb: int
    steady: int
    """Batches that are measured with nothing happening, and after each kill."""
    kills: int
    moves: int
    """By each protocol."""
    joins: int
    """Batches to wait, at most, until a new executor owns its share; 0: none joins."""


@dataclass
class Outcome:
    batch_ms: list[float] = field(default_factory=list)
    """Of batches with nothing happening."""
    after_kill_ms: list[float] = field(default_factory=list)
    """The slowest batch after each kill, less what it took Spark to notice."""
    load_ms: list[float] = field(default_factory=list)
    """What the stores that moved took to load, after each kill: their sum."""
    moves_ms: dict[str, list[float]] = field(default_factory=dict)
    """By protocol: how much longer the batch was than its neighbours."""
    owned_after: list[int] = field(default_factory=list)
    """Partitions that the new executor owned, batch by batch."""


def run(task: Task) -> Outcome:
    """Run the task in a process group of its own, which is gone at the end."""
    task.folder.mkdir(parents=True)
    file = task.folder / "task.json"
    file.write_text(json.dumps(asdict(task), default=str))
    log = task.folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, __file__, str(file)],
            stdout=out, stderr=out, env=variables(), start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        raise SystemExit(f"{task} failed, status {status}:\n{log.read_text()[-8000:]}")
    return Outcome(**json.loads(file.read_text()))


class Application:
    """A count and a sum by key, in update mode, into the void."""

    def __init__(self, task: Task) -> None:
        from pyspark.sql import functions as f

        self.task = task
        self.cluster = StandaloneCluster(
            task.folder / "cluster", task.executors, executor_mb=task.executor_mb
        )
        self.spark = self._session()
        self.context = self.spark.sparkContext._jsc.sc()
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", task.rows)
        rows = source.option("startTimestamp", START_MS).option("advanceMillisPerBatch", 1000)
        value = f.col("value")
        random = f.pmod(f.xxhash64(value), f.lit(task.keys))
        keyed = rows.load().withColumn("key", f.when(value < task.keys, value).otherwise(random))
        counted = keyed.groupBy("key").agg(f.count("*").alias("count"), f.sum("value").alias("sum"))
        writer = counted.writeStream.format("noop").outputMode("update")
        self.checkpoint = task.folder / "checkpoint"
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()

    def _session(self) -> Any:
        from pyspark.sql import SparkSession

        task = self.task
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": f"{task.executor_mb - 64}m",
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": str(task.partitions),
            "spark.default.parallelism": str(task.executors),
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
        }
        builder = SparkSession.builder.master(self.cluster.url).appName("bench-replicas")
        for name, value in settings.items():
            builder = builder.config(name, value)
        if task.provider == "hdfs":
            builder.config("spark.sql.streaming.stateStore.providerClass", HDFS)
        else:
            from cec_store.connectors import spark

            more: dict[str, Any] = {"replicas": task.replicas} if task.replicas else {}
            builder = spark.configure(builder, **more)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("WARN")
        return session

    def batches(self) -> list[dict[str, Any]]:
        return [json.loads(each.json) for each in self.query.recentProgress]

    def last(self) -> int:
        progress = self.query.lastProgress
        return -1 if progress is None else int(progress.batchId)

    def await_batches(self, count: int) -> list[dict[str, Any]]:
        """So many more, as they were reported."""
        first = self.last() + 1
        self._await(lambda: self.last() >= first + count - 1, count)
        return [each for each in self.batches() if first <= each["batchId"] < first + count]

    def _await(self, is_so: Any, count: int) -> None:
        def holds() -> bool:
            if not self.query.isActive:
                raise RuntimeError(f"the query died: {self.query.exception()}")
            return bool(is_so())

        wait_for(holds, lambda: f"at batch {self.last()}", BATCH_S_MAX * max(1, count))

    def registered(self) -> int:
        return int(self.context.getExecutorMemoryStatus().size()) - 1

    def owners(self) -> list[str]:
        """The executor that Spark's coordinator names for each partition, "" for none."""
        state = self.spark._jvm.org.apache.spark.sql.execution.streaming.state
        conf = self.spark._jsparkSession.sessionState().conf()
        coordinator = state.StateStoreCoordinatorRef.forDriver(self.context.env(), conf)
        run_id = self.spark._jvm.java.util.UUID.fromString(str(self.query.runId))
        found = []
        for partition in range(self.task.partitions):
            store = state.StateStoreId(f"file:{self.checkpoint}/state", 0, partition, "default")
            place = coordinator.getLocation(state.StateStoreProviderId(store, run_id))
            # As Spark names it: executor_<host>_<id>.
            found.append(place.get().rpartition("_")[2] if place.isDefined() else "")
        return found

    def stop(self) -> None:
        self.query.stop()
        self.spark.stop()
        self.cluster.stop()


def batch_ms(progress: dict[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"])


def loaded_ms(progress: dict[str, Any]) -> float:
    return float(
        sum(e["customMetrics"].get("cecLoadLatencyMs", 0) for e in progress["stateOperators"])
    )


def kill(application: Application, outcome: Outcome) -> None:
    count = application.registered()
    victim = application.cluster.executors()[0]
    began_s = time.monotonic()
    application.cluster.kill_executor(victim)
    wait_for(lambda: application.registered() < count, lambda: f"{victim} is not missed")
    noticed_ms = (time.monotonic() - began_s) * 1000
    after = application.await_batches(application.task.steady)
    outcome.after_kill_ms.append(max(map(batch_ms, after)) - noticed_ms)
    outcome.load_ms.append(sum(map(loaded_ms, after)))
    wait_for(lambda: application.registered() == count, lambda: "its worker starts no other")
    application.await_batches(application.task.steady)


def move(application: Application, cluster: Any, number: int, protocol: str) -> float:
    """How much longer the batch of a migration was than the median of its neighbours, in ms."""
    snapshot = cluster.snapshot()
    partition = snapshot.partitions[number % len(snapshot.partitions)]
    others = [each for each in snapshot.usable if each != partition.owner]
    # To where no replica is: then the direct protocol loads all, and CPAL makes one first.
    bare = [each for each in others if partition.replica_on(each) is None]
    target = (bare or others)[0]
    application.await_batches(3)
    first = application.last() + 1
    done = cluster.migrate(
        application.query, 0, partition.id.partition, to=target, protocol=protocol, wait_s=300
    )
    application.await_batches(4)
    near = [each for each in application.batches() if first - 3 <= each["batchId"]]
    # The state that the new owner loaded is that of this batch, which makes the next version.
    moved = next(each for each in near if each["batchId"] == done.version)
    rest = [batch_ms(each) for each in near if each is not moved]
    return batch_ms(moved) - statistics.median(rest)


def join(application: Application, outcome: Outcome) -> None:
    """One more executor; how many partitions it owns, batch by batch."""
    task = application.task
    before = {each.executor_id for each in application.cluster.executors()}
    application.cluster.add_workers(1)
    wait_for(lambda: application.registered() == task.executors + 1, lambda: "it does not join")
    [new] = {each.executor_id for each in application.cluster.executors()} - before
    fair = task.partitions // (task.executors + 1)
    for _ in range(task.joins):
        application.await_batches(1)
        outcome.owned_after.append(application.owners().count(new))
        if outcome.owned_after[-1] >= fair:
            break


def measure(task: Task) -> Outcome:
    outcome = Outcome()
    application = Application(task)
    try:
        filled = -(-task.keys // task.rows)
        application._await(lambda: application.last() >= filled + 3, filled)
        steady = application.await_batches(task.steady)
        outcome.batch_ms = list(map(batch_ms, steady))
        for _ in range(task.kills):
            kill(application, outcome)
        if task.moves or (task.joins and task.replicas):
            from cec_store.connectors import spark

            cluster = spark.cluster(application.spark)
            for number in range(task.moves):
                # In turn, so that whatever disturbs the machine disturbs both.
                for protocol in ("direct", "cpal"):
                    longer_ms = move(application, cluster, number, protocol)
                    outcome.moves_ms.setdefault(protocol, []).append(longer_ms)
        if task.joins and task.replicas:
            with cluster.adapt(every_s=0.5):
                join(application, outcome)
        elif task.joins:
            join(application, outcome)
    finally:
        application.stop()
    return outcome


def main(path: str) -> None:
    file = Path(path)
    told = json.loads(file.read_text())
    outcome = measure(Task(**{**told, "folder": Path(told["folder"])}))
    file.write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
