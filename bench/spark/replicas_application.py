"""A count and a sum by key on a standalone cluster of this machine, watched batch by batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.spark.standalone import StandaloneCluster, wait_for

START_MS = 1_700_000_000_000
BATCH_S_MAX = 300.0
_STATE = "org.apache.spark.sql.execution.streaming.state"
HDFS = f"{_STATE}.HDFSBackedStateStoreProvider"


@dataclass(frozen=True)
class Task:
    """Work of one application; each part only where it is asked for."""

    folder: Path
    provider: str
    """"cec", or "hdfs": Spark's own."""
    replicas: int
    keys: int
    rows: int
    """Rows of one batch; every batch after the keys are there renews so many of them at random."""
    executors: int
    partitions: int
    executor_mb: int
    steady: int
    """Batches that are measured with nothing happening."""
    after: int
    """Batches that are looked at after each kill."""
    kills: int
    """Kills at each of the two moments."""
    moves: int
    """Moves by each protocol."""
    every_s: float = 0.0
    """Between the starts of two batches once the keys are there; 0: one after the other."""
    is_timed: bool = False
    """Count by window as well, behind a watermark; no window of the run expires."""
    joins: int = 0
    """Batches to wait, at most, until a new executor owns its share; 0: none joins."""

    @property
    def fair_share(self) -> int:
        """Partitions that an executor owns at least where they are even and one more has joined."""
        return self.partitions // (self.executors + 1)


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
        keys: list[Any] = ["key"]
        if task.is_timed:
            keyed = keyed.withWatermark("timestamp", "10 seconds")
            keys.append(f.window("timestamp", "1 day"))
        counted = keyed.groupBy(*keys).agg(f.count("*").alias("count"), f.sum("value").alias("sum"))
        writer = counted.writeStream.format("noop").outputMode("update")
        self.checkpoint = task.folder / "checkpoint"
        self._writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query = self._writer.start()

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

    def pace(self) -> None:
        """Start no batch from here on sooner than asked for."""
        self.query.stop()
        self.query = self._writer.trigger(processingTime=f"{self.task.every_s} seconds").start()
        self.await_batches(5)

    def batches(self) -> list[dict[str, Any]]:
        return [json.loads(progress.json) for progress in self.query.recentProgress]

    def last(self) -> int:
        """Return the last batch of this run; -1 before its first one is done."""
        progress = self.query.lastProgress
        return -1 if progress is None else int(progress.batchId)

    def is_in_batch(self) -> bool:
        """Return True from the start of a batch to its end."""
        return bool(self.query.status["isTriggerActive"])

    def await_batches(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many more batches; return them as they were reported."""
        first = self.last() + 1
        self._await(lambda: self.last() >= first + count - 1, count)
        return [batch for batch in self.batches() if first <= batch["batchId"] < first + count]

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
        named = []
        for partition in range(self.task.partitions):
            store = state.StateStoreId(f"file:{self.checkpoint}/state", 0, partition, "default")
            place = coordinator.getLocation(state.StateStoreProviderId(store, run_id))
            # As Spark names it: executor_<host>_<id>.
            named.append(place.get().rpartition("_")[2] if place.isDefined() else "")
        return named

    def stop(self) -> None:
        self.query.stop()
        self.spark.stop()
        self.cluster.stop()


def batch_ms(progress: dict[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"])


def task_of(path: str) -> Task:
    told = json.loads(Path(path).read_text())
    return Task(**{**told, "folder": Path(told["folder"])})
