"""Any scan of any queue, beside a model: a table in memory that pyarrow itself filters."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store import QueueScan, open_queue, scan_queue

MOMENTS = st.integers(-6, 6)
UNITS = {"s": 1, "ms": 1, "us": 1, "ns": 700}
"""Nanoseconds between moments are no whole microseconds."""
ROWS = st.tuples(MOMENTS, st.none() | st.integers(-2, 2), st.none() | st.sampled_from("ab"))
HISTORIES = st.lists(st.lists(ROWS, max_size=4), max_size=5)
COLUMNS = st.none() | st.lists(st.sampled_from(["at", "x", "y"]), unique=True)
STAMP = pa.timestamp("us", "UTC")
_US = {"s": 1_000_000, "ms": 1000, "us": 1}


def comparisons(kind: pa.DataType, step: int) -> st.SearchStrategy[pc.Expression]:
    moments = MOMENTS.map(lambda n: pa.scalar(n * step, kind))
    signs = st.sampled_from(["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"])
    by_time = st.builds(lambda sign, to: getattr(pc.field("at"), sign)(to), signs, moments)
    by_number = st.builds(
        lambda sign, to: getattr(pc.field("x"), sign)(pa.scalar(to)), signs, st.integers(-2, 2)
    )
    among = st.lists(moments, max_size=3).map(
        lambda few: pc.field("at").isin(pa.array([part.value for part in few], kind))
    )
    others = st.sampled_from([pc.field("y").is_null(), pc.field("y") == "a", pc.scalar(True)])
    return by_time | by_time | by_number | among | others


def filters(kind: pa.DataType, step: int) -> st.SearchStrategy[pc.Expression]:
    def combined(parts: st.SearchStrategy[pc.Expression]) -> st.SearchStrategy[pc.Expression]:
        several = st.lists(parts, min_size=2, max_size=3)
        return (
            several.map(lambda few: reduce(and_, few))
            | several.map(lambda few: reduce(or_, few))
            | parts.map(lambda part: ~part)
        )

    return st.recursive(comparisons(kind, step), combined, max_leaves=4)


def moment_us(unit: str, value: int) -> int:
    return int(value / 1000) if unit == "ns" else value * _US[unit]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("partitions", [None, 3])
@settings(max_examples=25)
@given(data=st.data())
def test_a_scan_is_the_table_filtered(
    partitions: int | None, unit: str, data: st.DataObject, tmp_path_factory: Any
) -> None:
    kind, step = pa.timestamp(unit), UNITS[unit]
    schema = pa.schema([("at", kind), ("x", pa.int64()), ("y", pa.string())])
    tables = [table_of(rows, schema, step) for rows in data.draw(HISTORIES)]
    path = tmp_path_factory.mktemp("scan") / "queue"
    scan, everything = queue_of(path, tables, schema, partitions)
    low, high = data.draw(st.none() | MOMENTS), data.draw(st.none() | MOMENTS)
    bounds = [None if end is None else moment_us(unit, end * step) for end in (low, high)]
    expression = data.draw(st.none() | filters(kind, step))
    columns = data.draw(COLUMNS)
    within = [pc.scalar(True)]
    since, until = bounds
    within += [] if since is None else [pc.field("_timestamp") >= pa.scalar(since, STAMP)]
    within += [] if until is None else [pc.field("_timestamp") < pa.scalar(until, STAMP)]
    within += [] if expression is None else [expression]
    expected = everything.filter(reduce(and_, within))
    expected = expected.select(schema.names if columns is None else columns)
    scan = scan_queue(path, since, until)
    scanned = scan.to_table(columns=columns, filter=expression)
    if partitions is None:
        assert scanned.equals(expected)
    assert in_order(scanned) == in_order(expected)
    assert scan.count_rows(expression) == expected.num_rows


def table_of(rows: list[tuple[int, int | None, str | None]], schema: pa.Schema, step: int) -> Any:
    moments = pa.array([row[0] * step for row in rows], schema.field("at").type)
    others = [pa.array([row[n] for row in rows], schema.types[n]) for n in (1, 2)]
    return pa.table([moments, *others], schema)


def in_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def queue_of(
    path: Path, tables: list[pa.Table], schema: pa.Schema, partitions: int | None
) -> tuple[QueueScan, pa.Table]:
    """Return a queue of these tables, and its rows as they are read without a filter."""
    queue: Any = open_queue(
        path, "a", schema=schema, timestamp_column="at",
        **({} if partitions is None else {"partitions": partitions}),
    )  # fmt: skip
    with queue:
        for table in tables:
            queue.append(table)
    scan = scan_queue(path, include_metadata=True)
    everything = scan.to_table()
    stored = pa.concat_tables([schema.empty_table(), *tables])
    assert in_order(everything.select(schema.names)) == in_order(stored)
    return scan, everything
