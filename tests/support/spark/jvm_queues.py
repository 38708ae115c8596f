"""Partitioned queues, made by Python and read by the source in the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store.opening import open_queue
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, SessionWindow
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.runner import Runner, record_schema

FORMAT = "cec"


def append(path: Path, schema: pa.Schema, tables: Iterable[pa.Table], **options: Any) -> None:
    """Make a queue, or go on with it: an append for each table."""
    with open_queue(path, "a", schema=schema, **{"partitions": 1, **options}) as queue:
        for table in tables:
            queue.append(table)


def write_sums(path: Path, timeout_us: int | None = None) -> None:
    """The queue of an operator, with its control records; by the clock determinants as well."""
    table = pa.table(
        {
            "at": pa.array(np.arange(1000) * 1_000_000 + 1).cast(pa.timestamp("us", "UTC")),
            "item": pa.array([f"i{n % 7}" for n in range(1000)]),
            "price": pa.array(np.arange(1000)),
        }
    )
    operator = Aggregate(
        group_by=["item"],
        aggregates={"n": ("sum", "price")},
        window=CountWindow(4),
        input_schema=table.schema,
        timeout_us=timeout_us,
    )
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(table, "at")], queue).run()


def write_visits(path: Path) -> None:
    """The queue of an operator over sessions, some of which have gone into others."""
    seconds = [0, 40, 3, 20, 100, 300, 340, 320, 600]
    table = pa.table(
        {
            "at": pa.array([at * 1_000_000 for at in seconds]).cast(pa.timestamp("us", "UTC")),
            "user": ["ann"] * len(seconds),
            "price": pa.array(np.arange(len(seconds))),
            "ms": pa.array(np.arange(len(seconds)) / 3),
        }
    )
    operator = Aggregate(
        group_by=["user"],
        aggregates={"n": ("sum", "price"), "mean": ("avg", "ms")},
        window=SessionWindow(25_000_000, watermark_delay_us=100_000_000),
        event_time="at",
        input_schema=table.schema,
    )
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(table, "at")], queue, step_rows_max=1).run()


def read(session: Any, path: Path, **options: str) -> Any:
    return session.read.format(FORMAT).options(**options).load(str(path))


def drain(session: Any, path: Path, checkpoint: Path, **options: str) -> list[list[int]]:
    """The numbers `n` of each batch, sorted, until the stream has all."""
    batches: list[list[int]] = []
    query = (
        session.readStream.format(FORMAT)
        .options(**options)
        .load(str(path))
        .writeStream.foreachBatch(
            lambda rows, _: batches.append(sorted(row.n for row in rows.select("n").collect()))
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in batches if batch]


def counted_reads(rows: Any) -> int:
    """How many segments the tasks of a batch read; one in several tasks counts for each."""
    leaf = rows._jdf.queryExecution().sparkPlan().collectLeaves().head()
    groups = [group.slices() for group in each_of(leaf.inputPartitions())]
    return sum(part.segments().size() for slices in groups for part in each_of(slices))


def each_of(scala: Any) -> list[Any]:
    return [scala.apply(n) for n in range(scala.size())]


def refused(act: Callable[[], Any]) -> str:
    """What the error says."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return str(caught.value)
