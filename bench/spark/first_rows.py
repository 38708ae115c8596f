"""Seconds that a query on a long queue takes to its first rows, by where it begins."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from bench.spark.streams import bids

ROUNDS = 5


class LongBids:
    """The same bids again and again, each time later."""

    def __init__(self, turns: int, rows: int) -> None:
        self._turns = turns
        self._table = bids(rows, seed=8)
        self._times = self._table["at"].cast(pa.int64())
        self._first_us: int = self._times[0].as_py()
        self._span_us: int = self._times[-1].as_py() - self._first_us + 1

    def tables(self) -> Iterator[pa.Table]:
        names, field = self._table.schema.names, self._table.schema.field("at")
        for turn in range(self._turns):
            later = pc.add(self._times, turn * self._span_us).cast(field.type)
            yield self._table.set_column(names.index("at"), field, later)

    def time_us(self, percent: int) -> int:
        """Return the time of the row behind so many percent of all."""
        return self._first_us + self._turns * self._span_us * percent // 100


def start_at_99pct(
    spark: SparkSession, path: Path, source: LongBids, rows: int, name: str
) -> float:
    """Time to the first ``rows`` of the last percent over that to the first of all; medians.

    ``name`` is the source's, for ``format()``.
    """
    size = sum(file.stat().st_size for file in path.rglob("*.seg"))
    starts: dict[str, dict[str, object]] = {
        "beginning": {"startingOffsets": "earliest"},
        # A partition may end before: each has its own half of a batch.
        "last percent": {
            "startingTimestamp": source.time_us(99) // 1000,
            "startingOffsetsByTimestampStrategy": "latest",
        },
    }
    taken: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(ROUNDS + 1):
        for where, start in starts.items():
            taken[where].append(_first_batch_s(spark, path, rows, start, name))
    medians = {where: statistics.median(seconds[1:]) for where, seconds in taken.items()}
    for where, seconds in medians.items():
        print(f"first rows of {size / 1e9:.2f} GB, from the {where}: {seconds * 1e3:,.0f} ms")
    return medians["last percent"] / medians["beginning"]


def _first_batch_s(
    spark: SparkSession, path: Path, rows: int, start: dict[str, object], name: str
) -> float:
    checkpoint = path.with_name("checkpoint")
    shutil.rmtree(checkpoint, ignore_errors=True)
    stream = spark.readStream.format(name).option("maxOffsetsPerTrigger", rows)
    for key, value in start.items():
        stream = stream.option(key, str(value))
    began = time.perf_counter()
    writer = stream.load(str(path)).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    while not any(one["numInputRows"] for one in query.recentProgress) and query.isActive:
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    query.stop()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    return seconds
