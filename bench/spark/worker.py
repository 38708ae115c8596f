"""One provider in one JVM: a session, a streaming aggregate, what its progress says.

Started by the Spark benchmarks as a process of its own, so that heap and compiled code of one
provider are never another's. The task stands in a JSON file, and so does the outcome.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, expr, window
from pyspark.sql.functions import sum as total
from pyspark.sql.streaming.query import StreamingQuery

from bench.spark.input import FILES_PER_BATCH, show

PARTITIONS = 2
MAINTENANCE = "5s"
TIMEOUT_S = 1500
JIT_BATCHES = 5
"""Batches that may be slow, since the JVM still compiles."""
Batch = TypeVar("Batch")

_STATE_STORE = "spark.sql.streaming.stateStore"
_SPARK = "org.apache.spark.sql.execution.streaming.state"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
BUILT_IN = {
    "hdfs": {f"{_STATE_STORE}.providerClass": f"{_SPARK}.HDFSBackedStateStoreProvider"},
    "rocksdb": {f"{_STATE_STORE}.providerClass": f"{_SPARK}.RocksDBStateStoreProvider"},
    "changelog": {
        f"{_STATE_STORE}.providerClass": f"{_SPARK}.RocksDBStateStoreProvider",
        CHANGELOG: "true",
    },
}
OURS = "cec"


@dataclass(frozen=True)
class Task:
    """Work of one process: it shows the phases one after the other and runs each to its end."""

    provider: str
    checkpoint: Path
    stream: Path
    phases: tuple[Path, ...]
    heap: str = "2g"
    recovery_time_s: float | None = None
    until_steady: bool = False
    """Leave out the phases after the one in which the extent neither grew nor shrank."""
    check: tuple[int, int] | None = None
    """Rows and amounts that the state must sum up to at the end; reading it takes seconds."""
    transform_jar: str = ""
    """Jar with the processor of a `transformWithState` that runs in place of the aggregate."""
    key_directories: bool = True
    """Our store keeps hashes of the keys of large states beside their logs."""
    is_timed: bool = False
    """The aggregate is by window as well, under a watermark: all keys are in a window that stays
    open, so that each batch looks for what has expired and finds nothing."""


@dataclass(frozen=True)
class Outcome:
    """Figures that a process measured."""

    first_batch_s: float
    """Seconds from the start of the query to the end of its first batch."""
    batches: dict[str, list[dict[str, Any]]]
    """Progress of each batch, by phase."""
    heap_mb: dict[str, float]
    """Heap in use after a collection, at the end of each phase."""
    state_bytes: dict[str, int]
    """Bytes in the state directory, at the end of each phase."""
    state_files: dict[str, int]
    cpu_s: dict[str, float]
    """Processor seconds that each phase took, of all of the process."""


def run(task: Task) -> Outcome:
    """Run the task in a new process."""
    file = task.checkpoint.with_suffix(".json")
    return Outcome(**run_apart(__file__, file, task.provider, asdict(task)))


def run_apart(script: str, file: Path, provider: str, task: dict[str, Any]) -> Any:
    """Run the script in a new process; return what it writes over the task in the JSON ``file``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(task, default=str))
    command = [sys.executable, script, str(file)]
    log = file.with_suffix(".log")
    with log.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=out, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{provider} failed, status {done.returncode}:\n{log.read_text()[-8000:]}")
    return json.loads(file.read_text())


def session(task: Task) -> SparkSession:
    settings = {
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        f"{_STATE_STORE}.maintenanceInterval": MAINTENANCE,
    }
    if task.transform_jar:
        settings["spark.jars"] = task.transform_jar
        # What a batch's timers do is done by the next one with input, and not by one of their own.
        settings["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
    if not task.key_directories:
        settings[f"{_STATE_STORE}.cec.keyDirectories"] = "false"
    made = session_on(task.provider, task.heap, settings, task.recovery_time_s)
    made.sparkContext.setLogLevel("WARN")
    return made


def session_on(
    provider: str,
    heap: str,
    more: dict[str, str],
    recovery_time_s: float | None = None,
    is_extended: bool = True,
) -> SparkSession:
    """Begin a session on two cores whose queries keep their state with the provider.

    Ours goes without its extension if it is not ``is_extended``.
    """
    builder = SparkSession.builder.master("local[2]").appName(f"bench-{provider}")
    settings = {
        "spark.driver.memory": heap,
        # All of it from the start: growing it is noise in the first batches.
        "spark.driver.extraJavaOptions": f"-Xms{heap}",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        **BUILT_IN.get(provider, {}),
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    if provider == OURS:
        from cec_store.connectors import spark

        builder = spark.configure(builder, recovery_time_s=recovery_time_s)
        if not is_extended:
            builder = builder.config("spark.sql.extensions", "")
    return builder.getOrCreate()


def stateful(spark: SparkSession, task: Task) -> DataFrame:
    source = spark.readStream.schema("key long, amount long").format("parquet")
    rows = source.option("maxFilesPerTrigger", FILES_PER_BATCH).load(f"{task.stream}/*")
    if task.transform_jar:
        jvm: Any = spark.sparkContext._jvm
        return DataFrame(jvm.cecstore.bench.Transform.of(rows._jdf), spark)
    groups = (
        timed(rows).groupBy(window("ts", "1 day"), "key") if task.is_timed else rows.groupBy("key")
    )
    return groups.agg(count("*").alias("count"), total("amount").alias("sum"))


def timed(rows: DataFrame) -> DataFrame:
    """Rows of one second, with a watermark."""
    ts = expr("timestamp_micros(1700000000000000 + amount * 1000)")
    return rows.withColumn("ts", ts).withWatermark("ts", "1 hour")


def make_state(spark: SparkSession, task: Task) -> None:
    """Run the query over its phases, one after the other, and stop it."""
    writer = stateful(spark, task).writeStream.format("noop").outputMode("update")
    show(task.phases[0], task.stream)
    query = writer.option("checkpointLocation", str(task.checkpoint)).start()
    for phase in task.phases:
        show(phase, task.stream)
        query.processAllAvailable()
    query.stop()


def measure(task: Task) -> Outcome:
    outcome = Outcome(0.0, {}, {}, {}, {}, {})
    spark = session(task)
    rows = stateful(spark, task)
    writer = rows.writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(task.checkpoint))
    show(task.phases[0], task.stream)
    began_s = time.time()
    query = writer.start()
    for phase in task.phases:
        cpu_s = processor_s(spark)
        show(phase, task.stream)
        query.processAllAvailable()
        note(outcome, task, phase.name, query)
        outcome.cpu_s[phase.name] = processor_s(spark) - cpu_s
        outcome.heap_mb[phase.name] = heap_after_gc_mb(spark)
        if task.until_steady and is_steady(list(outcome.batches.values())):
            break
    query.stop()
    if task.check is not None:
        check(spark, task, task.check)
    spark.stop()
    first = next(iter(outcome.batches.values()))[0]
    return replace(outcome, first_batch_s=ended_s(first) - began_s)


def note(outcome: Outcome, task: Task, phase: str, query: StreamingQuery) -> None:
    """Note what the phase that has just ended left behind."""
    seen = sum(map(len, outcome.batches.values()))
    every = [json.loads(one.json) for one in query.recentProgress]
    outcome.batches[phase] = [one for one in every if one["numInputRows"]][seen:]
    # The checksum files are the file system's own.
    every_file = (file for file in (task.checkpoint / "state").rglob("*") if file.is_file())
    files = [file for file in every_file if file.suffix != ".crc"]
    outcome.state_files[phase] = len(files)
    outcome.state_bytes[phase] = sum(file.stat().st_size for file in files)


def warm(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return the batches after those that may be slow; of few at least half, and one of one."""
    return batches[min(JIT_BATCHES, len(batches) // 2) :]


def is_steady(phases: list[list[dict[str, Any]]]) -> bool:
    extents = [metric(phase[-1], "cecExtentRecords") for phase in phases]
    return len(extents) > 2 and abs(extents[-1] - extents[-2]) < 0.02 * extents[-2]


def metric(batch: dict[str, Any], name: str) -> float:
    """A figure of the state store, summed over the partitions."""
    of = batch["stateOperators"][0]
    return float(of["customMetrics"][name] if name.startswith("cec") else of[name])


def ended_s(batch: dict[str, Any]) -> float:
    began = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00"))
    return began.timestamp() + float(batch["durationMs"]["triggerExecution"]) / 1e3


def heap_after_gc_mb(spark: SparkSession) -> float:
    jvm: Any = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()

    def collect() -> float:
        jvm.java.lang.System.gc()
        return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6

    # What finalisers and cleaners held falls only to a later collection.
    return min(collect() for _ in range(3))


def processor_s(spark: SparkSession) -> float:
    jvm: Any = spark.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(spark: SparkSession, task: Task, expected: tuple[int, int]) -> None:
    reader = spark.read.format("statestore")
    reader = reader.option("stateVarName", "sums") if task.transform_jar else reader
    state = reader.load(str(task.checkpoint))
    sums = state.select(total("value.count"), total("value.sum")).first()
    if sums is None or tuple(sums) != expected:
        raise SystemExit(f"the state sums up to {sums}, not to {expected}")


def main() -> None:
    file = Path(sys.argv[1])
    asked = json.loads(file.read_text())
    places = {name: Path(asked[name]) for name in ("checkpoint", "stream")}
    asked["phases"] = tuple(Path(phase) for phase in asked["phases"])
    asked["check"] = asked["check"] and tuple(asked["check"])
    file.write_text(json.dumps(asdict(measure(Task(**asked | places)))))


if __name__ == "__main__":
    main()
