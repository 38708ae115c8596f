"""One store in one JVM: queries with watermarks, one after the other, and their progress.

Started by bench/spark/watermarks.py as a process of its own. The task stands in a JSON file, and
so do the outcomes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.spark.nexmark_input import SCHEMAS
from bench.spark.worker import ended_s, run_apart, session_on

STREAMING = "spark.sql.streaming"
FORMAT_4 = {
    f"{STREAMING}.join.stateFormatVersion": "4",
    f"{STREAMING}.stateStore.rocksdb.mergeOperatorVersion": "2",
}


@dataclass(frozen=True)
class Case:
    """One query over one workload."""

    query: str
    input: Path
    checkpoint: Path
    span_s: int = 0
    """The watermark's delay, as long as the span of the state's times."""
    settings: tuple[tuple[str, str], ...] = ()
    """Spark's, for this query alone."""


@dataclass(frozen=True)
class Task:
    """The cases that one process runs."""

    provider: str
    cases: tuple[Case, ...]
    jar: str
    heap: str = "5g"
    is_told: bool = True
    """Our store learns which rows an operator looks for."""
    java_options: str = ""


@dataclass(frozen=True)
class Outcome:
    """The figures of one case."""

    query: str
    first_batch_s: float
    """Seconds from the start of the query to the end of its first batch."""
    batches: list[dict[str, Any]]
    """Progress of each batch with input."""


def run(task: Task, folder: Path) -> list[Outcome]:
    """Run the task in a new process."""
    told = run_apart(__file__, folder / "task.json", task.provider, asdict(task))
    return [Outcome(**one) for one in told]


def session(task: Task) -> SparkSession:
    settings = {
        "spark.jars": task.jar,
        "spark.sql.session.timeZone": "UTC",
        f"{STREAMING}.numRecentProgressUpdates": "2000",
    }
    if task.java_options:
        options = f"-Xms{task.heap} {task.java_options}"
        settings["spark.driver.extraJavaOptions"] = options
    made = session_on(task.provider, task.heap, settings, is_extended=task.is_told)
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows(
    spark: SparkSession, case: Case, side: str = "", schema: str = "id long, ts timestamp"
) -> DataFrame:
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return source.parquet(str(case.input / side))


def timed(spark: SparkSession, case: Case) -> DataFrame:
    return rows(spark, case).withWatermark("ts", f"{case.span_s} seconds")


def windowed(spark: SparkSession, case: Case) -> DataFrame:
    return timed(spark, case).groupBy(f.window("ts", "5 seconds"), "id").count()


def counted(spark: SparkSession, case: Case) -> DataFrame:
    """The form without a watermark."""
    return rows(spark, case).groupBy("id").count()


def deduplicated(spark: SparkSession, case: Case) -> DataFrame:
    return timed(spark, case).dropDuplicates(["id", "ts"])


def deduplicated_within(spark: SparkSession, case: Case) -> DataFrame:
    return timed(spark, case).dropDuplicatesWithinWatermark(["id"])


def sessions(spark: SparkSession, case: Case) -> DataFrame:
    return timed(spark, case).groupBy(f.session_window("ts", "5 seconds"), "id").count()


def timing_out(spark: SparkSession, case: Case) -> DataFrame:
    jvm: Any = spark.sparkContext._jvm
    frame = timed(spark, case)._jdf
    return DataFrame(jvm.cecstore.bench.Timeouts.of(frame, case.span_s * 1000), spark)


def joined(spark: SparkSession, case: Case) -> DataFrame:
    """Rows of either side wait for the other's nine tenths of the span, and the rest is delay."""
    delay_s = case.span_s // 10
    near = f"INTERVAL {case.span_s - delay_s} SECONDS"
    left, right = (
        rows(spark, case, side)
        .selectExpr(f"id AS {side}_id", f"ts AS {side}_ts")
        .withWatermark(f"{side}_ts", f"{delay_s} seconds")
        for side in ("left", "right")
    )
    condition = f"left_id = right_id AND right_ts BETWEEN left_ts - {near} AND left_ts + {near}"
    return left.join(right, f.expr(condition))


def events(spark: SparkSession, case: Case, kind: str) -> DataFrame:
    return rows(spark, case, kind, SCHEMAS[kind]).withWatermark("time", "4 seconds")


def q5(spark: SparkSession, case: Case) -> DataFrame:
    """The auctions with most bids in ten seconds, every two seconds."""

    def counts(name: str) -> DataFrame:
        window = f.window("time", "10 seconds", "2 seconds")
        return events(spark, case, "bids").groupBy(window, "auction").agg(f.count("*").alias(name))

    most = counts("bids").groupBy("window").agg(f.max("bids").alias("most"))
    return counts("bids").join(most, "window").where("bids = most")


def q7(spark: SparkSession, case: Case) -> DataFrame:
    """The bids with the highest price of each ten seconds."""
    window = f.window("time", "10 seconds").alias("window")
    highest = events(spark, case, "bids").groupBy(window).agg(f.max("price").alias("price"))
    bids = events(spark, case, "bids").select(window, "price", "auction", "bidder")
    return bids.join(highest, ["window", "price"])


def q8(spark: SparkSession, case: Case) -> DataFrame:
    """Persons who are new and have opened an auction in the same ten seconds."""
    window = f.window("time", "10 seconds").alias("window")
    persons = events(spark, case, "persons").select(window, "id", "name")
    sellers = events(spark, case, "auctions").select(window, f.col("seller").alias("id"))
    return persons.dropDuplicates(["window", "id"]).join(
        sellers.dropDuplicates(["window", "id"]), ["window", "id"]
    )


QUERIES: dict[str, tuple[str, Callable[[SparkSession, Case], DataFrame]]] = {
    "windowed_append": ("append", windowed),
    "windowed_update": ("update", windowed),
    "counted": ("update", counted),
    "dedup": ("append", deduplicated),
    "dedup_within": ("append", deduplicated_within),
    "session": ("append", sessions),
    "timeouts": ("update", timing_out),
    "join": ("append", joined),
    "q5": ("append", q5),
    "q7": ("append", q7),
    "q8": ("append", q8),
}  # fmt: skip


def measure(spark: SparkSession, case: Case) -> Outcome:
    mode, build = QUERIES[case.query]
    writer = build(spark, case).writeStream.format("noop").outputMode(mode)
    writer = writer.option("checkpointLocation", str(case.checkpoint))
    for name, value in case.settings:
        spark.conf.set(name, value)
    began_s = time.time()
    query = writer.trigger(availableNow=True).start()
    for name, _ in case.settings:
        spark.conf.unset(name)  # a query has the settings of its start
    query.awaitTermination()
    every = [json.loads(one.json) for one in query.recentProgress]
    batches = [one for one in every if one["numInputRows"]]
    return Outcome(case.query, ended_s(batches[0]) - began_s, batches)


def main() -> None:
    file = Path(sys.argv[1])
    asked = json.loads(file.read_text())
    cases = [
        Case(
            input=Path(one.pop("input")),
            checkpoint=Path(one.pop("checkpoint")),
            settings=tuple(map(tuple, one.pop("settings"))),
            **one,
        )
        for one in asked.pop("cases")
    ]
    task = Task(cases=tuple(cases), **asked)
    spark = session(task)
    outcomes = [asdict(measure(spark, case)) for case in task.cases]
    spark.stop()
    file.write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
