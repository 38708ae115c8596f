"""The source and the sink in Python without a JVM: which columns are read, what a batch leaves."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from cec_store.connectors.spark.queues.sink import StreamSink, Written
from cec_store.connectors.spark.queues.spark_types import (
    check_asked,
    check_nulls,
    fit,
    spark_schema,
)
from cec_store.errors import SchemaMismatch

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
TEXT = pa.string()
STRUCT = pa.struct([("a", TEXT), ("b", INT)])


def check(asked: dict[str, pa.DataType], stored: dict[str, pa.DataType]) -> None:
    check_asked(*(spark_schema(pa.schema([*each.items()])) for each in (asked, stored)))


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        (LONG, INT),
        (DOUBLE, FLOAT),
        (pa.struct([("b", LONG)]), STRUCT),
        (pa.list_(LONG), pa.list_(INT)),
        (pa.map_(TEXT, DOUBLE), pa.map_(TEXT, FLOAT)),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
    ],
    ids=str,
)
def test_columns_that_are_there_are_read(asked: pa.DataType, stored: pa.DataType) -> None:
    check({"v": asked, "s": TEXT}, {"s": TEXT, "more": INT, "v": stored})
    check({"v": stored}, {"v": stored})


@pytest.mark.parametrize(
    ("asked", "stored", "text"),
    [
        (INT, LONG, "v: bigint in the queue, int asked for"),
        (TEXT, LONG, "v: bigint in the queue, string asked for"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "v: timestamp_ntz in the queue"),
        (pa.decimal128(9, 2), pa.decimal128(10, 2), r"v: decimal\(10,2\) in the queue"),
        (pa.struct([("c", INT)]), STRUCT, r"v\.c: not in the queue; it has \['a', 'b'\]"),
        (pa.list_(INT), pa.list_(LONG), r"v\.element: bigint in the queue"),
        (pa.map_(INT, INT), pa.map_(TEXT, INT), r"v\.key: string in the queue"),
        (pa.list_(INT), INT, "v: int in the queue, array<int> asked for"),
    ],
    ids=str,
)
def test_others_are_refused_by_name(asked: pa.DataType, stored: pa.DataType, text: str) -> None:
    with pytest.raises(SchemaMismatch, match=text):
        check({"v": asked}, {"v": stored})


def test_a_column_that_is_not_there_is_refused_by_name() -> None:
    for name in ("m", "V"):
        with pytest.raises(SchemaMismatch, match=rf"{name}: not in the queue; it has \['v'\]"):
            check({name: INT}, {"v": INT})


# -- sink ----

SCHEMA = StructType([StructField("n", LongType())])


ROWS = pa.array([{"a": 1, "b": [2, None], "c": {"k": 1}}, None, {"a": 3, "b": [], "c": {}}],
    pa.struct({"a": pa.int64(), "b": pa.list_(pa.int64()), "c": pa.map_(pa.string(), pa.int64())}),
)  # fmt: skip


def asked(a: bool, b: bool, c: bool, row: bool = True) -> pa.Schema:
    """A column of these rows of which parts may be null."""
    parts = [
        pa.field("c", pa.map_(pa.string(), pa.field("value", pa.int64(), c))),
        pa.field("b", pa.list_(pa.field("element", pa.int64(), b))),
        pa.field("a", pa.int64(), a),
    ]
    return pa.schema([pa.field("r", pa.struct(parts), row)])


def test_a_null_where_none_may_be_is_refused_by_name() -> None:
    """Spark goes by the schema that was asked for, and takes a null for a zero there."""
    stored = pa.record_batch({"r": ROWS})
    for schema in (asked(True, True, True), asked(False, True, False)):
        rows = fit(stored, schema)
        check_nulls(rows, 0)
        assert rows.column("r").field("a").to_pylist()[::2] == [1, 3]
    with pytest.raises(SchemaMismatch, match=r"r.b.element: NOT NULL.*partition 7 has a null"):
        check_nulls(fit(stored, asked(True, False, True)), 7)
    with pytest.raises(SchemaMismatch, match="r: NOT NULL"):
        check_nulls(fit(stored, asked(True, True, True, row=False)), 7)
    numbers = pa.record_batch({"n": pa.array([1, None, 3])})
    with pytest.raises(SchemaMismatch, match="n: NOT NULL"):
        check_nulls(fit(numbers, pa.schema([pa.field("n", pa.int64(), False)])), 7)
    # Of a part of what is there, the rest has no say.
    check_nulls(fit(numbers.slice(2), pa.schema([pa.field("n", pa.int64(), False)])), 7)
    check_nulls(fit(stored.slice(2), asked(False, False, False, row=False)), 7)


def written(sink: StreamSink, batch: int) -> Written:
    """As a task does it."""
    rows = pa.record_batch({"n": [1, 2, 3]})
    return Written("query", batch, sink._target.write("query", batch, 0, [rows]), False)


def objects(path: Path) -> int:
    return len(list((path / "data").rglob("*.seg")))


def test_a_batch_whose_tasks_failed_is_forgotten(tmp_path: Path) -> None:
    sink = StreamSink({"path": str(tmp_path)}, SCHEMA)
    sink.abort([written(sink, 0), None], 0)
    assert objects(tmp_path) == 0


def test_a_batch_that_a_commit_may_have_named_stays(tmp_path: Path) -> None:
    sink = StreamSink({"path": str(tmp_path)}, SCHEMA)
    message = written(sink, 0)
    # All tasks got to their end, so the commit was tried, and nobody here knows what it came to.
    sink.abort([message], 0)
    assert objects(tmp_path) == 1
    sink.commit([message], 0)
    sink.abort([message], 0)
    assert objects(tmp_path) == 1


def test_a_queue_that_was_made_anew_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    for _ in range(2):
        sink = StreamSink({"path": str(tmp_path / "q")}, SCHEMA)
        for batch in range(3):
            sink.commit([written(sink, batch)], batch)
        assert len(list((tmp_path / "q" / "log").rglob("*.commit"))) == 4
        (tmp_path / "q").rename(tmp_path / f"before-{sink._target._id}")
