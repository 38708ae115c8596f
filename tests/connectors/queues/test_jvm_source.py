"""The source in the JVM: all types, any part of a queue, and nothing but what is there."""

import inspect
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from cec_store.connectors.spark.queues.spark_types import fit, spark_schema
from cec_store.opening import open_queue, read_queue
from support.runs.minors import HAS_PYTHON_SOURCES, HAS_TIMES
from support.spark.jvm_queues import append, counted_reads, read, refused

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = 6000
# Before Spark 4.2 UTC is what it takes unasked.
TAKES_ZONE = "timezone" in inspect.signature(to_arrow_schema).parameters
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if TAKES_ZONE else {}


def values(rng: np.random.Generator, rows: int, kind: pa.DataType) -> pa.Array:
    """Random ones, about a third of them null; strings of few values and of many."""
    is_null = rng.random(rows) < 0.3
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(rows) < 0.5, mask=is_null)
    if pa.types.is_floating(kind):
        return pa.array(rng.random(rows).astype(np.float16).astype(np.float64), mask=is_null).cast(
            kind
        )
    if pa.types.is_decimal(kind):
        numbers = pa.array(rng.integers(-9999, 9999, rows), mask=is_null)
        return numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(30, 2)).cast(kind)
    if pa.types.is_fixed_size_binary(kind):
        data = [None if null else rng.bytes(kind.byte_width) for null in is_null]
        return pa.array(data, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = rng.integers(0, 4, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        below = values(rng, int(offsets[-1]), kind.value_type)
        plain = pa.LargeListArray.from_arrays(offsets, below)
        return pa.array(
            [None if n else v for n, v in zip(is_null, plain.to_pylist(), strict=True)], kind
        )
    if pa.types.is_fixed_size_list(kind):
        below = values(rng, rows * kind.list_size, kind.value_type)
        return pa.FixedSizeListArray.from_arrays(below, type=kind, mask=pa.array(is_null))
    if pa.types.is_map(kind):
        some = [
            None if n else [(f"k{i}", i) for i in range(n_keys)]
            for n, n_keys in zip(is_null, rng.integers(0, 3, rows), strict=True)
        ]
        return pa.array(some, kind)
    if pa.types.is_struct(kind):
        parts = [values(rng, rows, field.type) for field in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(is_null))
    if pa.types.is_date64(kind):
        days = pa.array(rng.integers(-9999, 9999, rows), mask=is_null).cast(pa.int32())
        return days.cast(pa.date32()).cast(kind)
    if pa.types.is_time(kind):
        seconds = pa.array(rng.integers(0, 86400, rows).astype(np.int32), mask=is_null)
        return seconds.cast(pa.time32("s")).cast(kind)
    if pa.types.is_temporal(kind) and not pa.types.is_date32(kind):
        return pa.array(rng.integers(0, 4_000_000_000, rows), mask=is_null).cast(kind)
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        top = 100 if pa.types.is_date32(kind) else min(np.iinfo(kind.to_pandas_dtype()).max, 2**62)
        low = 0 if pa.types.is_date32(kind) or pa.types.is_unsigned_integer(kind) else -top
        plain = pa.int32() if pa.types.is_date32(kind) else kind
        return pa.array(rng.integers(low, top, rows), mask=is_null).cast(plain).cast(kind)
    words = [
        f"wörd {n} {'x' * (n % 20)}"
        for n in rng.integers(0, 30 if rng.random() < 0.5 else 10**6, rows)
    ]
    return pa.array(words, pa.string(), mask=is_null).cast(pa.binary()).cast(kind)


def all_types() -> pa.Schema:
    plain = [
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
        pa.decimal128(9, 2), pa.decimal128(30, 2), pa.string(), pa.large_string(),
        pa.binary(), pa.large_binary(), pa.binary(5),
        pa.date32(), pa.date64(), pa.timestamp("s", "UTC"), pa.timestamp("ms"),
        pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns"), pa.duration("s"),
        pa.duration("us"), pa.duration("ns"),
    ]  # fmt: skip
    times = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    nested = [
        pa.list_(pa.int64()),
        pa.large_list(pa.string()),
        pa.list_(pa.uint8(), 3),
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("d", pa.string())]))]),
        pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])),
    ]
    return pa.schema(
        [(f"c{n}", kind) for n, kind in enumerate([*plain, *(times if HAS_TIMES else []), *nested])]
    )


@pytest.mark.parametrize("rows", [0, 1, 9, 700, 5000])
def test_every_type_is_read_as_spark_has_it(spark: Any, tmp_path: Path, rows: int) -> None:
    schema, rng = all_types(), np.random.default_rng(rows)
    table = pa.table([values(rng, rows, field.type) for field in schema], schema=schema)
    append(tmp_path / "q", schema, [table, table.slice(rows // 2)])
    both = pa.concat_tables([table, table.slice(rows // 2)]).combine_chunks()
    found = read(spark, tmp_path / "q")
    if HAS_PYTHON_SOURCES:
        assert found.schema == spark_schema(schema)
    wanted = to_arrow_schema(found.schema, **IN_UTC)
    expected = [fit(batch, wanted) for batch in both.to_batches()]
    got = found.toArrow().cast(wanted)
    assert got.num_rows == rows + rows - rows // 2
    for name in schema.names:
        column = pa.chunked_array([b.column(name) for b in expected], wanted.field(name).type)
        assert got.column(name).to_pylist() == column.to_pylist(), (name, schema.field(name).type)


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions, six appends of a thousand rows, a row a second."""
    path = tmp_path_factory.mktemp("trades") / "q"
    schema = pa.schema(
        [("n", pa.int64()), ("item", pa.string()), ("at", pa.timestamp("us", "UTC"))]
    )
    tables = []
    for first in range(0, ROWS, 1000):
        numbers = np.arange(first, first + 1000)
        at = [START + timedelta(seconds=int(n)) for n in numbers]
        tables.append(pa.table([numbers, [f"i{n % 7}" for n in numbers], at], schema=schema))
    append(path, schema, tables, partitions=3, key_columns=["item"], timestamp_column="at")
    return path


def numbers_of(rows: Any) -> list[int]:
    return sorted(row.n for row in rows.select("n").collect())


def test_columns_that_are_not_wanted_are_not_in_the_plan(spark: Any, trades: Path) -> None:
    rows = read(spark, trades).select("n")
    assert numbers_of(rows) == list(range(ROWS))
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "item" not in plan
    assert read(spark, trades).count() == ROWS


def test_metadata_says_where_a_row_stands(spark: Any, trades: Path) -> None:
    expected = read_queue(trades, include_metadata=True).read_all().to_pylist()
    rows = read(spark, trades, includeMetadata="true")
    assert rows.columns == ["n", "item", "at", "_partition", "_offset", "_timestamp", "_kind"]
    place = lambda row: (row["_partition"], row["_offset"])  # noqa: E731
    found = sorted((row.asDict() for row in rows.collect()), key=place)
    assert [(*place(r), r["n"], r["_kind"]) for r in found] == [
        (*place(r), r["n"], "data") for r in sorted(expected, key=place)
    ]
    assert all(row["_timestamp"] == row["at"] for row in found)


@pytest.mark.parametrize("tasks", [1, 7])
def test_any_range_of_moments_is_a_filter(spark: Any, trades: Path, tasks: int) -> None:
    rng = np.random.default_rng(tasks)
    for low, high in np.sort(rng.integers(-50, ROWS + 50, (6, 2)), axis=1).tolist():
        since, until = START + timedelta(seconds=low), START + timedelta(seconds=high)
        rows = read(spark, trades, minPartitions=str(tasks), includeMetadata="true")
        for column in ("at", "_timestamp"):
            some = rows.where((f.col(column) >= f.lit(since)) & (f.lit(until) > f.col(column)))
            assert numbers_of(some) == list(range(max(0, low), min(ROWS, high)))
        begin = {"startingOffsetsByTimestampStrategy": "latest"}
        some = read(
            spark,
            trades,
            startingTimestamp=milliseconds(max(0, low)),
            endingTimestamp=milliseconds(max(0, high)),
            **begin,
        )
        assert numbers_of(some) == list(range(max(0, low), min(ROWS, max(0, high))))


def milliseconds(second: int) -> str:
    return str(int((START + timedelta(seconds=second)).timestamp() * 1000))


def test_filters_on_time_plan_no_task_for_other_segments(spark: Any, trades: Path) -> None:
    rows = read(spark, trades)
    late = rows.where(rows["at"] >= START + timedelta(seconds=ROWS - 500))
    assert late.rdd.getNumPartitions() <= rows.rdd.getNumPartitions()
    assert counted_reads(late) == 3
    assert counted_reads(rows) == 18
    none = rows.where(rows["at"] < START - timedelta(seconds=1))
    assert numbers_of(none) == []
    assert counted_reads(none) == 0


def test_small_partitions_share_tasks(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    tables = [pa.table([np.arange(first, first + 25)], schema=schema) for first in (0, 25, 50, 75)]
    append(tmp_path / "q", schema, tables * 5, partitions=20)
    rows = read(spark, tmp_path / "q")
    assert rows.rdd.getNumPartitions() <= 4
    assert numbers_of(rows) == sorted([*range(100)] * 5)
    # What is asked for goes before what is cheap.
    assert read(spark, tmp_path / "q", minPartitions="20").rdd.getNumPartitions() == 20
    few = read(spark, tmp_path / "q", maxRecordsPerPartition="50")
    assert few.rdd.getNumPartitions() == 10


def test_a_queue_that_was_made_anew_is_read_anew(spark: Any, tmp_path: Path) -> None:
    schema, path = pa.schema([("n", pa.int64())]), tmp_path / "q"
    write = lambda first: append(path, schema, [pa.table([[first, first + 1]], schema=schema)])  # noqa: E731
    write(0)
    rows = read(spark, path)
    assert numbers_of(rows) == [0, 1]
    write(2)
    assert numbers_of(rows) == [0, 1, 2, 3]
    shutil.rmtree(path)
    write(7)
    assert numbers_of(rows) == [7, 8]
    shutil.rmtree(path)
    assert "[PATH_NOT_FOUND]" in refused(rows.count)


def test_kinds_and_offsets_choose_rows(spark: Any, trades: Path) -> None:
    all_rows = read(spark, trades, includeMetadata="true")
    last = all_rows.groupBy("_partition").agg(f.max("_offset").alias("last")).collect()
    ends = {row._partition: row["last"] for row in last}
    text = '{"0":5,"1":-2,"2":' + str(ends[2]) + "}"
    rows = read(spark, trades, startingOffsets=text, includeMetadata="true").collect()
    found = {n: sorted(row._offset for row in rows if row._partition == n) for n in range(3)}
    assert found == {0: list(range(5, ends[0] + 1)), 1: list(range(ends[1] + 1)), 2: [ends[2]]}
    assert read(spark, trades, kinds="open").count() == 0
    assert numbers_of(read(spark, trades, kinds="data,open")) == list(range(ROWS))


def test_whole_stage_code_reads_the_same(spark: Any, trades: Path) -> None:
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    try:
        rows = (
            read(spark, trades)
            .groupBy("item")
            .agg(f.count("*").alias("count"), f.sum("n").alias("sum"))
        )
        found = {row.item: (row["count"], row["sum"]) for row in rows.collect()}
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
    all_n = np.arange(ROWS)
    assert found == {
        f"i{k}": (int((all_n % 7 == k).sum()), int(all_n[all_n % 7 == k].sum())) for k in range(7)
    }


def test_what_is_not_there_is_refused(spark: Any, trades: Path, tmp_path: Path) -> None:
    assert "[PATH_NOT_FOUND]" in refused(lambda: read(spark, tmp_path / "none"))
    said = refused(lambda: read(spark, trades, startingOffset="earliest"))
    assert "no option 'startingoffset'; there are path" in said
    start = '{"0":99999,"1":0,"2":0}'
    assert "beyond the end" in refused(lambda: read(spark, trades, startingOffsets=start).count())
    assert read(spark, trades, startingOffsets=start, failOnDataLoss="false").count() > 0
    said = refused(lambda: read(spark, trades, startingTimestamp=milliseconds(ROWS + 1)).count())
    assert "partition 0 has no record at or after 2026-01-01T01:40:01Z" in said
    said = refused(lambda: read(spark, trades, startingOffsets='{"0":1}').count())
    assert "startingOffsets names partitions [0], the queue has [0, 1, 2]" in said
    odd = pa.schema([("u", pa.month_day_nano_interval())])
    append(tmp_path / "odd", odd, [])
    assert "column 'u' is" in refused(lambda: read(spark, tmp_path / "odd"))


def test_a_start_that_was_trimmed_is_lost_data(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    with open_queue(tmp_path / "q", "x", schema=schema, partitions=1) as queue:
        for first in range(0, 100, 10):
            queue.append(pa.table([np.arange(first, first + 10)], schema=schema))
        queue.trim(before={0: 55})
        first = queue.starts()[0]
    assert first > 0
    start = {"startingOffsets": '{"0":7}'}
    said = refused(lambda: read(spark, tmp_path / "q", **start).count())
    assert f"offset 7 is not in {first} … 100: it is trimmed" in said
    kept = {**start, "failOnDataLoss": "false"}
    assert numbers_of(read(spark, tmp_path / "q", **kept)) == list(range(first, 100))
