"""Small state stores: how long each takes to load in a JVM that has just started.

small_load_ms    wall time of a load, by store, of 200 stores of a few keys on two cores; half a
                 millisecond is added, since Spark's figure is cut to whole ones

It is the default of `LoadRates.fixed_s`, by which `extent` and `report` charge for each store.
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
}
PARTITIONS = 200
KEYS = 1_000
BATCHES = 3
"""Batches of each process, so that the stores that the next one loads have had some commits."""


def batches(folder: Path, first: int) -> float:
    """Run the query over some new batches; return what a load took its first one, in ms."""
    from pyspark.sql import SparkSession

    from cec_store.connectors import spark

    builder = SparkSession.builder.master("local[2]").appName("bench-small-loads")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(PARTITIONS))
    session = spark.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    show(folder, first)
    rows = session.readStream.schema("key long").parquet(str(folder / "input"))
    writer = rows.groupBy("key").count().writeStream.format("noop").outputMode("update")
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
    pq.write_table(pa.table({"key": keys}), folder / "input" / f"{number}.parquet")


def main(asked: Options) -> None:
    # Each in a process of its own, so that the JVM knows nothing of loads yet. The first has no
    # state to load.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        turns = [(asked.folder, number * BATCHES) for number in range(asked.rounds + 1)]
        _, *took_ms = pool.starmap(batches, turns, chunksize=1)
    print(f"{PARTITIONS} stores: {', '.join(f'{time_ms:.2f}' for time_ms in took_ms)} ms each")
    report({"small_load_ms": statistics.median(took_ms)})


if __name__ == "__main__":
    with options(__doc__, turns=(3, 1), takes="two minutes") as asked:
        main(asked)
