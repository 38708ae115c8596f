"""`read_state` and `read_changes` say what Spark's own reader says of the same checkpoint."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from cec_store import read_changes, read_state
from support.runs.counts import CRASH_FULL
from support.runs.minors import FAIL_IN_V2, HAS_TIMES
from support.spark.inputs import Inputs
from support.spark.queries import QUERIES, StreamQuery
from support.spark.runs import FEW_RECORDS, Job, Kept, Run, format_of, run, settings_of

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

# Of each type, a value made from a row's number `n`, its `key`, its time `ts` or its text.
TYPES = {
    "boolean": "n % 2 = 0",
    "byte": "CAST(n % 100 AS TINYINT)",
    "short": "CAST(n AS SMALLINT)",
    "int": "CAST(n * 1000 AS INT)",
    "long": "n * 1000000000000",
    "float": "CAST(n / 7 AS FLOAT)",
    "double": "n / 7",
    "string": "concat(key, '→', text)",
    "binary": "CAST(concat(key, text) AS BINARY)",
    "date": "date_add(DATE'1969-06-01', CAST(n AS INT))",
    "timestamp": "ts + n * INTERVAL '1.000001' SECOND",
    "timestamp_ntz": "CAST(ts AS TIMESTAMP_NTZ) - n * INTERVAL '100' DAY",
    "time": "make_time(CAST(abs(n) % 24 AS INT), part, 12.345678)",
    "duration": "n * INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "small_decimal": "CAST(n / 8 AS DECIMAL(10, 3))",
    "compact_decimal": "CAST(n * 1000 AS DECIMAL(18, 2))",
    "decimal": "CAST(n AS DECIMAL(38, 10)) * -1234567890123456",
    "big_decimal": "CAST(n AS DECIMAL(30, 0)) * 10000000000000000000",
    "void": "NULL",
    "struct": "struct(nullif(n % 3, 0) AS n, struct(nullif(text, '') AS text, part) AS of)",
    "longs": "array(n, NULL, -n, part)",
    "none": "slice(array(n), 1, CAST(abs(n) % 2 AS INT))",
    "booleans": "array(true, NULL, n > 0)",
    "bytes": "array(CAST(1 AS TINYINT), NULL, CAST(n % 9 AS TINYINT))",
    "shorts": "array(CAST(n AS SMALLINT), NULL)",
    "floats": "array(CAST(n AS FLOAT), NULL, CAST(0.5 AS FLOAT))",
    "dates": "array(NULL, date_add(DATE'2026-01-01', CAST(n AS INT)))",
    "strings": "array(text, NULL, key, '', 'ß' || text)",
    "decimals": "array(CAST(n AS DECIMAL(5, 1)), NULL)",
    "big_decimals": "array(CAST(n AS DECIMAL(38, 6)), NULL, CAST(-1 AS DECIMAL(38, 6)))",
    "structs": "array(struct(n, text), NULL, struct(nullif(n, n) AS n, key AS text))",
    "arrays": "array(array(text, key), NULL, array(), array('a', NULL))",
    "many": "transform(sequence(1, 70 + part), x -> IF(x % 3 = 0, NULL, x * n))",
}
MAPS = {
    "map": "map(text || 'a', n, text || 'b', NULL)",
    "map_of_arrays": "map(part, array(text, NULL), part + 1, NULL)",
    "map_of_structs": "map(CAST(n AS DECIMAL(30, 2)), struct(ts AS at, map('k', n) AS m))",
    "empty_map": "map_filter(map('x', n), (k, v) -> v > 300)",
}
NUMBERS = ("double", "small_decimal", "compact_decimal", "decimal", "big_decimal", "duration")
# `toArrow` refuses the first, and fails at the second.
NOT_IN_ARROW = {
    "months": "make_ym_interval(part, CAST(n % 12 AS INT))",
    "voids": "IF(n % 2 = 0, array(NULL, NULL), array())",
}
if not HAS_TIMES:
    del TYPES["time"]


def all_types(spark: Any, inputs: Inputs) -> Any:
    """Rows with a column of each type; every fifth of a column is null."""
    columns = [
        f"IF(pmod(n + {at}, 5) = 0, NULL, {expression}) AS `{name}`"
        for at, (name, expression) in enumerate({**TYPES, **MAPS, **NOT_IN_ARROW}.items())
    ]
    return inputs.read(spark).selectExpr("key AS k", "part AS p", "n", *columns)


def values_of_all_types(spark: Any, inputs: Inputs) -> Any:
    """A join keeps whole rows, matched or not; here the other side has none."""
    others = inputs.read(spark, "right").where("part > 99").selectExpr("key AS k")
    return used(all_types(spark, inputs).join(others, "k"))


def keys_of_all_types(spark: Any, inputs: Inputs) -> Any:
    """Maps can be no keys."""
    return used(all_types(spark, inputs).dropDuplicates(["n", *TYPES, *NOT_IN_ARROW]))


def buffers_of_all_types(spark: Any, inputs: Inputs) -> Any:
    """Aggregates, which Spark may update where they lie."""
    from pyspark.sql import functions as f

    firsts = [f.first(f.col(name)).alias(name) for name in (*TYPES, *MAPS)]
    sums = [f.expr(f"{what}({name})") for what in ("sum", "avg", "max") for name in NUMBERS]
    return used(all_types(spark, inputs).groupBy("p").agg(*firsts, *sums))


def used(frame: Any) -> Any:
    """Else Spark would leave columns out of the state; rows of Python cannot have all types."""
    return frame.selectExpr("CAST(struct(*) AS STRING) AS every")


# Others do what these do; they run at full size only.
EXTRA = {"aggregate_update", "aggregate_without_keys", "map_groups", "join_left_semi"}
WITH_TYPES = {
    build.__name__: StreamQuery(build.__name__, build, mode, evicts=False)
    for build, mode in (
        (values_of_all_types, "append"),
        (keys_of_all_types, "append"),
        (buffers_of_all_types, "update"),
    )
}
JOIN = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues")
# The query, the operator, and its stores; joins' sides are Spark's option `joinSide`.
STORES: dict[str, list[tuple[int, str]]] = {
    "aggregate_update": [(0, "default")],
    "aggregate_windows_append": [(0, "default")],
    "aggregate_without_keys": [(0, "default")],
    "drop_duplicates": [(0, "default")],
    "drop_duplicates_within_watermark": [(0, "default")],
    "limit": [(0, "default")],
    "session_windows_append": [(0, "default")],
    "pandas_state_event_time": [(0, "default")],
    "flat_map_groups_event_time": [(0, "default")],
    "map_groups": [(0, "default")],
    "join_full_outer": [(0, "left"), (0, "right"), *((0, store) for store in JOIN)],
    "join_left_semi": [(0, "left"), (0, "right")],
    "aggregate_then_aggregate": [(0, "default"), (1, "default")],
    "values_of_all_types": [(0, "left"), (0, "left-keyWithIndexToValue")],
    "keys_of_all_types": [(0, "default")],
    "buffers_of_all_types": [(0, "default")],
}
NAMES = [each for each in STORES if (CRASH_FULL or each not in EXTRA) and each not in FAIL_IN_V2]
CHANGES = {
    "aggregate_windows_append": (0, "default"),
    "session_windows_append": (0, "default"),
    "join_full_outer": (0, "left-keyWithIndexToValue"),
    "keys_of_all_types": (0, "default"),
}
FORMATS = (1, 2)


@pytest.fixture(scope="module")
def runs(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, int], Run]]:
    """All queries, side by side; in the quick tier each with one of the checkpoint formats."""
    chosen = [
        (name, format)
        for at, name in enumerate(NAMES)
        for format in (FORMATS if CRASH_FULL else (FORMATS[at % 2],))
    ]
    folder = tmp_path_factory.mktemp("runs")
    jobs = [
        Job(
            {**QUERIES, **WITH_TYPES}[name], folder / f"{name}-{format}",
            Kept(version=format, settings=FEW_RECORDS), lives=1,
        )
        for name, format in chosen
    ]  # fmt: skip
    with settings_of(spark, {"spark.sql.timeType.enabled": "true"}):
        yield dict(zip(chosen, run(spark, *jobs), strict=True))


def of_query(runs: dict[tuple[str, int], Run], name: str) -> list[Run]:
    return [each for (query, _), each in runs.items() if query == name]


def ask_spark(spark: Any, found: Run, operator: int, store: str, **options: Any) -> pa.Table:
    with format_of(spark, found.checkpoint):
        return state_frame(spark, found, operator, store, **options).toArrow()


def state_frame(spark: Any, found: Run, operator: int, store: str, **options: Any) -> Any:
    """Spark's answer, with the names of its columns made different where they are not."""
    from pyspark.sql.types import StructField, StructType

    which = {"joinSide": store} if store in ("left", "right") else {"storeName": store}
    reader = spark.read.format("statestore").options(operatorId=operator, **which, **options)
    frame = reader.load(str(found.checkpoint))
    for column in ("key", "value"):
        fields = list(frame.schema[column].dataType)
        names = {each.name for each in fields}
        if len(names) < len(fields):
            told = StructType([StructField(f"{n}", each.dataType) for n, each in enumerate(fields)])
            frame = frame.withColumn(column, frame[column].cast(told))
        if names >= NOT_IN_ARROW.keys():
            frame = frame.withColumn(column, frame[column].dropFields(*NOT_IN_ARROW))
    # Before 4.3 pyspark finds nulls that must not be below those that may be.
    loose = re.sub(r'"(nullable|\w*[cC]ontainsNull)":false', r'"\1":true', frame.schema.json())
    kinds = StructType.fromJson(json.loads(loose))
    return frame.select(*(frame[each.name].cast(each.dataType) for each in kinds))


def plain(table: pa.Table) -> list[Any]:
    """Rows in an order of their own, without the names of key and value."""

    def values(struct: dict[str, Any] | None) -> Any:
        return struct and tuple(v for name, v in struct.items() if name not in NOT_IN_ARROW)

    rows = (
        tuple(values(each) if isinstance(each, dict) else each for each in row.values())
        for row in table.to_pylist()
    )
    return sorted(rows, key=repr)


@pytest.mark.crash
@pytest.mark.parametrize("name", NAMES)
def test_state_is_what_sparks_reader_says(
    name: str, spark: Any, runs: dict[tuple[str, int], Run]
) -> None:
    for found in of_query(runs, name):
        batches = sorted(found.rows)
        for operator, store in STORES[name]:
            states = []
            for batch in batches[1:-1:3] if CRASH_FULL else [batches[2]]:
                due = ask_spark(spark, found, operator, store, batchId=batch)
                ours = read_state(
                    found.checkpoint, operator=operator, store=store, version=batch + 1
                )
                assert plain(ours) == plain(due), (operator, store, batch)
                assert plain(read_at_begin_of(found, batch, operator, store)) == plain(ours)
                states.append(ours)
            due = ask_spark(spark, found, operator, store)
            newest = read_state(found.checkpoint, operator=operator, store=store)
            assert plain(newest) == plain(due), (operator, store, "newest")
            assert any(each.num_rows for each in states) or store.startswith("right")


def read_at_begin_of(found: Run, batch: int, operator: int, store: str) -> pa.Table:
    about = (found.checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()[1]
    began = datetime.fromtimestamp(json.loads(about)["batchTimestampMs"] / 1000, timezone.utc)
    return read_state(found.checkpoint, operator=operator, store=store, at=began)


@pytest.mark.crash
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_what_sparks_reader_says(
    name: str, spark: Any, runs: dict[tuple[str, int], Run]
) -> None:
    operator, store = CHANGES[name]
    for found in of_query(runs, name):
        last = max(found.rows)
        for first, end in [(0, last), (2, 3)]:
            span = {"changeStartBatchId": first, "changeEndBatchId": end}
            due = ask_spark(spark, found, operator, store, readChangeFeed="true", **span)
            ours = read_changes(
                found.checkpoint, first + 1, end + 1, operator=operator, store=store
            )
            assert due.num_rows > 0
            assert plain(ours) == plain(due), (first, end)


def types_of(table: pa.Table, column: str) -> dict[str, str]:
    return {
        field.name: str(field.type).replace(" not null", "")
        for field in table.schema.field(column).type
        if field.name not in NOT_IN_ARROW
    }


@pytest.mark.parametrize(
    ("name", "column", "columns"),
    [("values_of_all_types", "value", [*TYPES, *MAPS]), ("keys_of_all_types", "key", [*TYPES])],
)
def test_every_type_is_that_of_sparks_arrow_and_has_values_and_nulls(
    name: str, column: str, columns: list[str], spark: Any, runs: dict[tuple[str, int], Run]
) -> None:
    store = "left-keyWithIndexToValue" if column == "value" else "default"
    for found in of_query(runs, name):
        ours = read_state(found.checkpoint, store=store)
        types = types_of(ours, column)
        assert types == types_of(ask_spark(spark, found, 0, store), column)
        assert types.keys() >= set(columns)
        rows = ours[column].to_pylist()
        for each in columns:
            found_nulls = {row[each] is None for row in rows}
            assert found_nulls == ({True} if each == "void" else {True, False}), each


def test_types_that_spark_does_not_take_to_arrow_are_right(
    spark: Any, runs: dict[tuple[str, int], Run]
) -> None:
    months = "12 * extract(YEARS FROM value.months) + extract(MONTHS FROM value.months)"
    for found in of_query(runs, "values_of_all_types"):
        reader = spark.read.format("statestore").option("joinSide", "left")
        with format_of(spark, found.checkpoint):
            frame = reader.load(str(found.checkpoint))
            due = frame.selectExpr("value.n", months, "size(value.voids)").collect()
        ours = read_state(found.checkpoint, store="left")["value"].to_pylist()
        got = [(row["n"], row["months"], row["voids"]) for row in ours]
        told = [(n, m and m.months, v if v is None else len(v)) for n, m, v in got]
        assert sorted(map(repr, told)) == sorted(repr(tuple(row)) for row in due)
        for at in (1, 2):
            assert {row[at] is None for row in told} == {True, False}
