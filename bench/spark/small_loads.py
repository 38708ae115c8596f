"""Small state stores: how long each takes to load in a JVM that has just started.

small_load_ms    wall time of a load, by store, of 200 stores of a few keys on two cores; half a
                 millisecond is added, since Spark's figure is cut to whole ones
small_load_watermark_ms   the same of a count by window and key in append mode, in which the windows
                          of each batch but the last few expire

`LoadRates.fixed_s`, by which `extent` and `report` charge for each store, is 5 ms by default: the
first figure was 2 to 7 ms on two cores that did other work too.
"""

from __future__ import annotations

import json
import statistics
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.rounds import Options, options, report

TARGETS = {
    "small_load_ms": "report",
    "small_load_watermark_ms": "report",
}
PARTITIONS = 200
KEYS = 1_000
BATCHES = 3
"""Batches of each process, so that the stores that the next one loads have had some commits."""
STEP_S = 10
"""Seconds from the rows of one batch to those of the next; also the span of a window."""
START_US = 1_767_225_600_000_000


def batches(folder: Path, first: int, is_timed: bool) -> float:
    """Run the query over some new batches; return what a load took its first one, in ms."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from cec_store.connectors import spark

    builder = SparkSession.builder.master("local[2]").appName("bench-small-loads")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(PARTITIONS))
    session = spark.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    show(folder, first)
    rows = session.readStream.schema("key long, at timestamp").parquet(str(folder / "input"))
    if is_timed:
        timed = rows.withWatermark("at", f"{STEP_S} seconds")
        counted = timed.groupBy(f.window("at", f"{STEP_S} seconds"), "key").count()
    else:
        counted = rows.groupBy("key").count()
    writer = counted.writeStream.format("noop").outputMode("append" if is_timed else "update")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    for number in range(first, first + BATCHES):
        show(folder, number)
        query.processAllAvailable()
    progress = [json.loads(progress_of_one.json) for progress_of_one in query.recentProgress]
    query.stop()
    session.stop()
    operators = next(batch["stateOperators"] for batch in progress if batch["stateOperators"])
    metrics = operators[0]["customMetrics"]
    return float(metrics["cecLoadLatencyMs"]) / PARTITIONS + 0.5


def show(folder: Path, number: int) -> None:
    (folder / "input").mkdir(exist_ok=True)
    keys = pa.array(range(KEYS), pa.int64())
    at = pa.array([START_US + number * STEP_S * 1_000_000] * KEYS, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"key": keys, "at": at}), folder / "input" / f"{number}.parquet")


def loads_ms(folder: Path, rounds: int, is_timed: bool) -> list[float]:
    """Return what a load takes, in ms, in so many processes of which each is the first to load."""
    folder.mkdir()
    # Each in a process of its own, so that the JVM knows nothing of loads yet. The first has no
    # state to load.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        turns = [(folder, number * BATCHES, is_timed) for number in range(rounds + 1)]
        _, *took_ms = pool.starmap(batches, turns, chunksize=1)
    print(f"{PARTITIONS} stores: {', '.join(f'{time_ms:.2f}' for time_ms in took_ms)} ms each")
    return took_ms


def main(asked: Options) -> None:
    plain, timed = (
        statistics.median(loads_ms(asked.folder / name, asked.rounds, name == "timed"))
        for name in ("plain", "timed")
    )
    report({"small_load_ms": plain, "small_load_watermark_ms": timed})


if __name__ == "__main__":
    with options(__doc__, turns=(3, 1), takes="four minutes") as asked:
        main(asked)
