"""DuckDB, polars and pyarrow leave out what they do not need: counted where frames are decoded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import QueueScan, open_queue, scan_queue
from support.contract.decoding import Decoded, count_decoding
from support.contract.layouts import MANY, MANY_IN_MEMORY, PLAIN, PLAIN_IN_STORE, Layout

APPENDS, ROWS = 10, 100
"""Each append is a frame, or a segment of one partition; row n is of second n."""
STARTS = 3
"""In each partition the timestamps of one more frame are read, to find where the rows begin."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [("moment", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("text", pa.string())]
)
LAYOUTS = pytest.mark.parametrize(
    "layout", [PLAIN, PLAIN_IN_STORE, MANY, MANY_IN_MEMORY], indirect=True
)


def moment(n: int) -> datetime:
    return START + timedelta(seconds=n)


def rows(first: int, end: int) -> pa.Table:
    numbers = range(first, end)
    columns = {"moment": [*map(moment, numbers)], "n": numbers, "text": [*map(str, numbers)]}
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def scan(layout: Layout) -> QueueScan:
    with layout.open(schema=SCHEMA, timestamp_column="moment") as queue:
        for number in range(APPENDS):
            table = rows(number * ROWS, (number + 1) * ROWS)
            queue.queue.append(table)
            queue.cut()
    return scan_queue(layout.url, include_metadata=True, storage_options=layout.options)


@pytest.fixture
def decoded(scan: QueueScan, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return count_decoding(monkeypatch)


def by_duckdb(scan: QueueScan, first: int, end: int) -> int:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("queue", scan)
    (total,) = connection.execute(
        "SELECT sum(n) FROM queue WHERE moment >= ? AND moment < ?", [moment(first), moment(end)]
    ).fetchone()
    return int(total or 0)


def by_polars(scan: QueueScan, first: int, end: int) -> int:
    polars = pytest.importorskip("polars")
    column = polars.col("moment")
    some = polars.scan_pyarrow_dataset(scan).filter(column >= moment(first), column < moment(end))
    return int(some.select(polars.col("n").sum()).collect().item())


def by_pyarrow(scan: QueueScan, first: int, end: int) -> int:
    column = pc.field("moment")
    within = (column >= moment(first)) & (column < moment(end))
    return int(pc.sum(scan.to_table(columns=["n"], filter=within)["n"]).as_py() or 0)


ENGINES = pytest.mark.parametrize("total", [by_duckdb, by_polars, by_pyarrow])


@LAYOUTS
@ENGINES
def test_frames_outside_of_the_moments_are_not_decoded(
    total: Callable[[QueueScan, int, int], int], scan: QueueScan, decoded: Decoded
) -> None:
    first, end = 3 * ROWS + 10, 5 * ROWS - 10
    assert total(scan, first, end) == sum(range(first, end))
    assert 2 * ROWS <= decoded.rows <= (2 + STARTS) * ROWS
    assert decoded.columns == {"moment", "n"}


@LAYOUTS
@ENGINES
def test_nothing_is_decoded_where_no_row_can_be(
    total: Callable[[QueueScan, int, int], int], scan: QueueScan, decoded: Decoded
) -> None:
    assert total(scan, APPENDS * ROWS, APPENDS * ROWS + 9) == 0
    assert decoded.rows == 0


@LAYOUTS
def test_columns_that_are_not_asked_for_are_not_decoded(scan: QueueScan, decoded: Decoded) -> None:
    assert scan.to_table(columns=["n"]).num_rows == APPENDS * ROWS
    assert decoded.columns == {"n"}
    decoded.reset()
    computed = scan.to_table(columns={"twice": pc.field("n") * 2}, filter=pc.field("n") < 7)
    assert computed["twice"].to_pylist() == [0, 2, 4, 6, 8, 10, 12]
    assert decoded.columns == {"n"}
    decoded.reset()
    assert len(scan.to_table(columns=["_offset"], filter=pc.field("text") == "7")) == 1
    assert decoded.columns == {"text"}


@LAYOUTS
def test_rows_are_counted_by_one_column(scan: QueueScan, decoded: Decoded) -> None:
    assert scan.count_rows() == APPENDS * ROWS
    assert len(decoded.columns) == 1


@pytest.mark.parametrize("layout", [MANY, MANY_IN_MEMORY], indirect=True)
def test_other_partitions_are_not_read(scan: QueueScan, decoded: Decoded) -> None:
    expected = scan.to_table(columns=["_partition"])["_partition"].to_pylist().count(1)
    decoded.reset()
    assert scan.count_rows(pc.field("_partition") == 1) == expected
    assert decoded.rows == expected < APPENDS * ROWS


@LAYOUTS
def test_moments_of_the_log_exclude_frames_as_well(scan: QueueScan, decoded: Decoded) -> None:
    late = pc.field("_timestamp") >= moment(9 * ROWS)
    assert scan.count_rows(late) == ROWS
    assert ROWS <= decoded.rows <= (1 + STARTS) * ROWS


@pytest.mark.parametrize("layout", [PLAIN, MANY], indirect=True)
@pytest.mark.parametrize(
    ("text", "rows_max"),
    [
        ("moment = TIMESTAMPTZ '2026-01-01 00:01:00+00'", ROWS),
        ("moment BETWEEN '2026-01-01 00:00:05+00' AND '2026-01-01 00:00:09+00'", ROWS),
        ("moment IN ('2026-01-01 00:00:05+00', '2026-01-01 00:00:09+00')", ROWS),
        ("n > 5 AND moment < '2026-01-01 00:00:09+00'", ROWS),
        ("_timestamp < '2026-01-01 00:00:09+00'", ROWS),
        ("n > 990", APPENDS * ROWS),
    ],
)
def test_filters_of_duckdb_reach_the_queue(
    text: str, rows_max: int, scan: QueueScan, decoded: Decoded
) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("queue", scan)
    connection.register("copy", scan.to_table())
    decoded.reset()
    (count,) = connection.execute(f"SELECT count(*) FROM queue WHERE {text}").fetchone()
    assert decoded.rows <= rows_max + STARTS * ROWS
    expected = connection.execute(f"SELECT count(*) FROM copy WHERE {text}").fetchone()
    assert (count,) == expected
    assert count > 0


def test_nanoseconds_before_1970_are_not_lost(tmp_path: Any) -> None:
    kind = pa.timestamp("ns")
    stamps = pa.array([-1500, -1000, -999, -1, 0, 1, 999, 1000], kind)
    table = pa.table({"moment": stamps})
    with open_queue(tmp_path / "q", "a", schema=table.schema, timestamp_column="moment") as queue:
        for number in range(len(stamps)):
            queue.append(table.slice(number, 1), sync=True)
    scan = scan_queue(tmp_path / "q")
    for nanoseconds in (-1500, -1000, -999, -1, 0, 1, 999):
        for rows_of in (
            pc.field("moment") <= pa.scalar(nanoseconds, kind),
            pc.field("moment") >= pa.scalar(nanoseconds, kind),
            pc.field("moment") == pa.scalar(nanoseconds, kind),
        ):
            expected = table.filter(rows_of)
            assert scan.to_table(filter=rows_of).equals(expected)
