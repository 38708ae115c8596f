"""Queries to be killed: what Spark runs, and beside it the same rows computed without Spark.

Batch b brings the values [b × rows, (b + 1) × rows), all of event time START + b seconds, however
often it is begun: Spark's source `rate-micro-batch` promises that. So it is known of each output
row which batch brings it, or, where a watermark decides, from which to which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from support.drivers import killed_transform

START_MS = 1_700_000_000_000
"""A whole number of windows since 1970."""
HOT, COLD = 10_000, 400_000
"""Keys that come in every batch, and keys that hardly ever come again."""
GROUPS = 997
REACH_S = 3


@dataclass(frozen=True)
class KilledQuery:
    rows: int
    """Of one batch of one source."""
    mode: str
    columns: tuple[str, ...]
    make: Callable[[Any, int], Any]
    """A streaming DataFrame of these columns, all of them int64."""
    compute: Callable[[int, int], pa.Table]
    """The rows of so many batches: `columns`, and `first` and `last`, the batches that may bring
    them."""


def source(spark: Any, rows: int) -> Any:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("startTimestamp", START_MS)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )


def _table(batches: tuple[np.ndarray, np.ndarray], **columns: np.ndarray) -> pa.Table:
    return pa.table({**columns, "first": batches[0], "last": batches[1]})


# -- running totals: one operator, update mode -----------------------------------------------------


def _running(spark: Any, rows: int) -> Any:
    from pyspark.sql import functions as f

    key = f.expr(f"IF(value % 4 = 0, {HOT} + value * 7919 % {COLD}, value * 7919 % {HOT})")
    keyed = source(spark, rows).withColumn("k", key)
    return keyed.groupBy("k").agg(f.count("*").alias("n"), f.sum("value").alias("total"))


def _compute_running(rows: int, batches: int) -> pa.Table:
    n = np.zeros(HOT + COLD, np.int64)
    total = np.zeros(HOT + COLD, np.int64)
    tables = []
    for batch in range(batches):
        values = np.arange(batch * rows, (batch + 1) * rows)
        keys = np.where(values % 4 == 0, HOT + values * 7919 % COLD, values * 7919 % HOT)
        np.add.at(n, keys, 1)
        np.add.at(total, keys, values)
        k = np.unique(keys)
        when = np.full(len(k), batch)
        tables.append(_table((when, when), k=k, n=n[k], total=total[k]))
    return pa.concat_tables(tables)


# -- distinct rows, then windows: two operators in a chain, append mode ----------------------------


def _windows(spark: Any, rows: int) -> Any:
    from pyspark.sql import functions as f

    # An odd value says again what the even value before it said, one batch later.
    once = f.col("value") - f.col("value") % 2 * (rows + 1)
    distinct = (
        source(spark, rows)
        .withColumn("once", once)
        .withWatermark("timestamp", "2 seconds")
        .dropDuplicatesWithinWatermark(["once"])
    )
    window = f.window("timestamp", "2 seconds").alias("w")
    groups = distinct.groupBy(window, (f.col("value") % GROUPS).alias("g"))
    return groups.agg(f.count("*").alias("n"), f.sum("value").alias("total")).select(
        f.unix_millis("w.start").alias("start"), "g", "n", "total"
    )


def _compute_windows(rows: int, batches: int) -> pa.Table:
    values = np.arange(batches * rows)
    # What the odd values of the first batch repeat was never there.
    values = values[(values % 2 == 0) | (values < rows)]
    window, group = values // rows // 2, values % GROUPS
    ids, inverse = np.unique(window * GROUPS + group, return_inverse=True)
    n = np.bincount(inverse)
    total = np.bincount(inverse, weights=values).astype(np.int64)  # exact: far below 2^53
    window = ids // GROUPS
    # Closed by the batch that finds the watermark, two seconds behind the batch before, at its end.
    when = 2 * window + 5
    start = START_MS + 2000 * window
    return _table((when, when), start=start, g=ids % GROUPS, n=n, total=total)


# -- a left outer join in time, with eviction ------------------------------------------------------


def _join(spark: Any, rows: int) -> Any:
    from pyspark.sql import functions as f

    def side(name: str, factor: int) -> Any:
        keyed = source(spark, rows).withWatermark("timestamp", "1 second")
        return keyed.select(
            (f.col("value") * factor % rows).alias(name + "k"),
            f.col("value").alias(name),
            f.col("timestamp").alias(name + "at"),
        )

    right = side("r", 11).where("r % 10 <> 0")
    near = f.expr(
        f"lk = rk AND rat BETWEEN lat - INTERVAL {REACH_S} SECONDS AND "
        f"lat + INTERVAL {REACH_S} SECONDS"
    )
    joined = side("l", 7).join(right, near, "leftOuter")
    return joined.select("l", f.coalesce("r", f.lit(-1)).cast("bigint").alias("r"))


def _compute_join(rows: int, batches: int) -> pa.Table:
    # Of each key one row a batch on either side: `rows` has no factor 7 or 11.
    slots = np.arange(rows)
    right_of = np.empty(rows, np.int64)
    right_of[slots * 11 % rows] = slots
    partner = right_of[slots * 7 % rows]
    tables = []
    for left in range(batches):
        met = np.zeros(rows, bool)
        for right in range(max(0, left - REACH_S), left + REACH_S + 1):
            r = right * rows + partner
            hit = r % 10 != 0
            met |= hit
            when = np.full(hit.sum(), max(left, right))
            tables.append(_table((when, when), l=(left * rows + slots)[hit], r=r[hit]))
        alone = (left * rows + slots)[~met]
        none = np.full(len(alone), -1)
        # Spark may take a batch or two longer to see that no partner can come any more.
        first = np.full(len(alone), left + REACH_S + 1)
        tables.append(_table((first, first + 4), l=alone, r=none))
    return pa.concat_tables(tables)


# -- sessions of keys that are busy for some seconds and then rest -------------------------------

BUSY_S, CYCLE_S, GAP_S = 4, 7, 2


def _sessions(spark: Any, rows: int) -> Any:
    from pyspark.sql import functions as f

    keyed = source(spark, rows).withColumn("g", f.col("value") % GROUPS)
    busy = keyed.where(f"(value div {rows} + g) % {CYCLE_S} < {BUSY_S}")
    session = f.session_window("timestamp", f"{GAP_S} seconds").alias("w")
    groups = busy.withWatermark("timestamp", "1 second").groupBy(session, "g")
    return groups.agg(f.count("*").alias("n"), f.sum("value").alias("total")).select(
        f.unix_millis("w.start").alias("start"), "g", "n", "total"
    )


def _compute_sessions(rows: int, batches: int) -> pa.Table:
    values = np.arange(batches * rows)
    second, group = values // rows, values % GROUPS
    phase = (second + group) % CYCLE_S
    busy = phase < BUSY_S
    # By its last second, which each of its rows tells.
    last = (second - phase + BUSY_S - 1)[busy]
    ids, inverse = np.unique(last * GROUPS + group[busy], return_inverse=True)
    n = np.bincount(inverse)
    total = np.bincount(inverse, weights=values[busy]).astype(np.int64)
    last = ids // GROUPS
    # The first ones may have begun before there was a batch.
    start = START_MS + 1000 * np.maximum(last - BUSY_S + 1, 0)
    # Closed by the batch that finds the watermark, a second behind the batch before, at its end.
    when = last + GAP_S + 2
    return _table((when, when), start=start, g=ids % GROUPS, n=n, total=total)


QUERIES = {
    "running": KilledQuery(20_000, "update", ("k", "n", "total"), _running, _compute_running),
    "windows": KilledQuery(
        8_000, "append", ("start", "g", "n", "total"), _windows, _compute_windows
    ),
    "join": KilledQuery(3_000, "append", ("l", "r"), _join, _compute_join),
    "sessions": KilledQuery(
        6_000, "append", ("start", "g", "n", "total"), _sessions, _compute_sessions
    ),
    "transform": KilledQuery(
        200,
        "update",
        killed_transform.COLUMNS,
        lambda spark, rows: killed_transform.transformed(source(spark, rows)),
        killed_transform.compute,
    ),
}


def faults_of(query: KilledQuery, came: pa.Table, batches: int) -> list[str]:
    """What is wrong with `came`: `query.columns`, and `batch`, that brought the row."""
    columns = list(query.columns)
    times = came.group_by(columns).aggregate([("batch", "count")])["batch_count"].to_numpy()
    faults = [f"{(times > 1).sum()} rows came twice"] if (times > 1).any() else []
    due = query.compute(query.rows, batches + 1)
    both = came.join(due, keys=columns, join_type="full outer").to_pandas()
    strange = both[both["first"].isna()]
    lost = both[both["batch"].isna() & (both["last"] < batches)]
    known = both.dropna(subset=["batch", "first"])
    late = known[(known["batch"] < known["first"]) | (known["batch"] > known["last"])]
    for name, rows in (("wrong", strange), ("lost", lost), ("at the wrong time", late)):
        if len(rows):
            faults.append(f"{len(rows)} rows {name}, such as\n{rows.head().to_string()}")
    return faults
