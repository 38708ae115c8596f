"""Session, ten columns and streams that the benchmarks of the source and of the sink share."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cec_store.connectors import spark as cec_spark

PARTITIONS = 2
WARM_BATCHES = 3
"""Batches that are not counted, since the JVM still compiles and workers start."""
ITEMS = 1000


@contextmanager
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("bench-streams")
    for name, value in {
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-Xms4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        # Of the order of what a queue's frame holds.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }.items():
        builder = builder.config(name, value)
    made = cec_spark.configure(builder).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    cec_spark.register(made)
    yield made
    made.stop()


def bids(rows: int, seed: int) -> pa.Table:
    """Bids as of an auction, ten columns: what the source is measured with."""
    random = np.random.default_rng(seed)
    items = pa.array([f"item-{n:04}" for n in range(ITEMS)])
    times = 1_700_000_000_000_000 + np.cumsum(random.integers(0, 2000, rows))
    return pa.table(
        {
            "item": items.take(pa.array(random.integers(0, ITEMS, rows))),
            "bidder": pa.array(random.integers(0, 10**6, rows)),
            "price": pa.array(random.integers(100, 10**6, rows)),
            "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "channel": items.take(pa.array(random.integers(0, 8, rows))),
            "fee": pa.array(random.random(rows).round(2)),
            "quantity": pa.array(random.integers(1, 9, rows).astype(np.int32)),
            "is_final": pa.array(random.random(rows) < 0.01),
            "auction": pa.array(random.integers(0, 10**5, rows)),
            "score": pa.array(random.random(rows)),
        }
    )


def generated_bids(spark: SparkSession, rows_per_batch: int) -> DataFrame:
    """Ten columns that the JVM makes up: what the sink is measured with."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    return as_bids(rows.option("numPartitions", PARTITIONS).load())


def as_bids(numbers: DataFrame) -> DataFrame:
    """Ten columns for each ``value``."""
    return numbers.selectExpr(
        f"concat('item-', cast(hash(value) & {ITEMS - 1} as string)) as item",
        "xxhash64(value) & 1048575 as bidder",
        "100 + (xxhash64(value, 1) & 1048575) as price",
        "timestamp_micros(1700000000000000 + value * 1000) as at",
        "concat('item-', cast(hash(value, 2) & 7 as string)) as channel",
        "(hash(value, 3) & 65535) / 100.0D as fee",
        "1 + (hash(value, 4) & 7) as quantity",
        "(hash(value, 5) & 127) = 0 as is_final",
        "xxhash64(value, 6) & 131071 as auction",
        "(xxhash64(value, 7) & 1048575) / 1048576.0D as score",
    )


def batch_s(start: Callable[[], Any], batches: int, rows: int) -> float:
    """Median time of a query's batches of ``rows`` each, once it is warm."""
    query = start()
    until = time.monotonic() + 600
    while len(full(query, rows)) < WARM_BATCHES + batches and query.isActive:
        if time.monotonic() > until:
            raise SystemExit("the stream is stuck")
        time.sleep(0.02)
    batches_done = full(query, rows)
    query.stop()
    if query.exception() is not None and len(batches_done) < WARM_BATCHES + batches:
        raise SystemExit(str(query.exception()))
    seconds = [
        float(one["durationMs"]["triggerExecution"]) / 1e3 for one in batches_done[WARM_BATCHES:]
    ]
    return statistics.median(seconds)


def full(query: Any, rows: int) -> list[Any]:
    return [one for one in query.recentProgress if one["numInputRows"] == rows]
