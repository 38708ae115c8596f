"""The source in the JVM against Spark's own Parquet reader, with zstd as well.

Ten columns of bids in 2 partitions on 2 cores, written by Spark both times: twelve million rows in
each, so that reading counts for more than Spark's planning does. All ten are read and aggregated,
and two of the ten. Speeds are of the medians of the rounds.

Then the time from a query's start to the end of its first batch, of one frame, on a queue of 2 GB:
beginning with its last percent, by a timestamp, and with its first row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.harness.rounds import Options, options, race, report
from bench.spark.first_rows import LongBids, start_at_99pct
from bench.spark.streams import PARTITIONS, as_bids, session
from cec_store.opening import open_queue

TARGETS = {
    "source_vs_parquet": "at least 1.4",
    "source_two_columns_vs_parquet": "at least 1.2",
    "start_at_99pct": "at most 1.2",
}
FRAME_ROWS = 62_500
SOURCE = "cec"
WARM_TURNS = 5
TEN = (
    "sum(octet_length(item))", "sum(bidder)", "sum(price)", "max(at)", "sum(octet_length(channel))",
    "sum(fee)", "sum(quantity)", "count_if(is_final)", "sum(auction)", "sum(score)",
)  # fmt: skip
TWO = ("sum(octet_length(item))", "sum(price)")


def write_queue(path: Path, tables: Iterable[pa.Table]) -> None:
    """Each table in one append, in turn to the partitions."""
    tables = iter(tables)
    first = next(tables)
    with open_queue(
        path, "x", schema=first.schema, timestamp_column="at", partitions=PARTITIONS
    ) as queue:
        for table in (first, *tables):
            queue.append(table)


def turn(rows: DataFrame, sums: tuple[str, ...], answers: set[str]) -> float:
    """Seconds to aggregate; the answer goes to the others."""
    began = time.perf_counter()
    (answer,) = rows.selectExpr(*sums).collect()
    seconds = time.perf_counter() - began
    # The order of a sum decides its last digits.
    answers.add(" ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in answer))
    return seconds


def batch_figures(spark: SparkSession, asked: Options) -> dict[str, float]:
    rows = asked.size(24_000_000, 1_000_000)
    queue, parquet = asked.folder / "queue", asked.folder / "parquet"
    made = as_bids(spark.range(0, rows, 1, PARTITIONS).toDF("value"))
    made.write.option("compression", "zstd").parquet(str(parquet))
    written = made.write.format(SOURCE).option("timestampColumn", "at").mode("append")
    written.save(str(queue))
    both = {
        "cec": spark.read.format(SOURCE).load(str(queue)),
        "parquet": spark.read.parquet(str(parquet)),
    }
    figures: dict[str, float] = {}
    for name, sums in (("source", TEN), ("source_two_columns", TWO)):
        answers: set[str] = set()
        turns: dict[str, Callable[[], float]] = {
            kind: partial(turn, frame, sums, answers) for kind, frame in both.items()
        }
        race(turns, WARM_TURNS)
        timings = race(turns, asked.rounds)
        assert len(answers) == 1, answers
        for kind, timing in timings.items():
            print(f"{name:<20} {kind:<8} {rows / timing.median:>12,.0f} rows/s")
        figures[f"{name}_vs_parquet"] = timings["parquet"].median / timings["cec"].median
        figures[f"{name}_rows_per_s"] = rows / timings["cec"].median
    sizes = {
        "queue": sum(file.stat().st_size for file in queue.rglob("*.seg")),
        "parquet": sum(file.stat().st_size for file in parquet.rglob("*.parquet")),
    }
    for name, size in sizes.items():
        print(f"bytes a row, {name}: {size / rows:.1f}")
    return figures


def main(asked: Options) -> None:
    with session() as spark:
        figures = batch_figures(spark, asked)
        rows = asked.size(16, 8) * FRAME_ROWS
        source, path = LongBids(asked.size(72, 4), rows), asked.folder / "long" / "queue"
        write_queue(path, source.tables())
        figures["start_at_99pct"] = start_at_99pct(spark, path, source, FRAME_ROWS, SOURCE)
    report(figures)


if __name__ == "__main__":
    with options(__doc__, turns=(11, 7), takes="under five minutes") as asked:
        main(asked)
