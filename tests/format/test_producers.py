"""Tables of other libraries: equal when they come back, or refused with the column by name."""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.errors import SchemaMismatch
from cec_store.format.arrow_values import stored_type
from support.runs.counts import crash_count

TABLES = crash_count(120, 5_000)
ROWS_MAX = 12
Draw = Callable[[random.Random], Any]
Columns = dict[str, tuple[str, list[Any]]]
"""By name: a kind of :data:`KINDS`, and its values."""


def text(draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_letters + "äß€🚀 \n\0", k=draw.randrange(12)))


def whole(bits: int, *, signed: bool = True) -> Draw:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda draw: draw.choice([low, high, 0, draw.randint(low, high)])


def number(draw: random.Random) -> float:
    return draw.choice([0.0, -0.0, float("inf"), draw.gauss(0, 1e9), 5e-324])


def moment(draw: random.Random) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=draw.randint(-(2**55), 2**55))


KINDS: dict[str, Draw] = {
    "int8": whole(8),
    "int64": whole(64),
    "uint64": whole(64, signed=False),
    "double": number,
    "bool": lambda draw: draw.random() < 0.5,
    "text": text,
    "bytes": lambda draw: draw.randbytes(draw.randrange(9)),
    "decimal": lambda draw: Decimal(draw.randint(-(10**17), 10**17)).scaleb(-3),
    "date": lambda draw: date(1, 1, 1) + timedelta(days=draw.randrange(3_000_000)),
    "moment": moment,
    "zoned": lambda draw: moment(draw).replace(tzinfo=timezone.utc),
    "time": lambda draw: time(draw.randrange(24), draw.randrange(60), 5, draw.randrange(10**6)),
    "span": lambda draw: timedelta(microseconds=draw.randint(-(2**50), 2**50)),
    "list": lambda draw: [whole(32)(draw) for _ in range(draw.randrange(4))],
    "struct": lambda draw: {"a": whole(16)(draw), "b": text(draw)},
    "word": lambda draw: draw.choice(["red", "green", "blue"]),
}


def columns(draw: random.Random, kinds: list[str]) -> Columns:
    rows = draw.choice([0, 1, draw.randrange(2, ROWS_MAX)])
    nulls = draw.choice([0, 0, 0.3, 1])
    made = {}
    for place, kind in enumerate(draw.choices(kinds, k=draw.randrange(1, 6))):
        values = [None if draw.random() < nulls else KINDS[kind](draw) for _ in range(rows)]
        made[f"c{place}_{kind}"] = (kind, values)
    return made


def of_polars(draw: random.Random, made: Columns) -> pa.Table:
    import polars as pl

    types = {
        "int8": pl.Int8, "int64": pl.Int64, "uint64": pl.UInt64, "double": pl.Float64,
        "bool": pl.Boolean, "text": pl.String, "bytes": pl.Binary, "decimal": pl.Decimal(20, 3),
        "date": pl.Date, "moment": pl.Datetime(draw.choice(["us", "ms"])),
        "zoned": pl.Datetime("us", "UTC"), "time": pl.Time, "span": pl.Duration("us"),
        "list": pl.List(pl.Int32), "struct": pl.Struct({"a": pl.Int16, "b": pl.String}),
        "word": draw.choice([pl.Categorical, pl.Enum(["red", "green", "blue"])]),
    }  # fmt: skip
    series = [pl.Series(name, v, types[kind], strict=False) for name, (kind, v) in made.items()]
    frame = pl.DataFrame(series)
    if draw.random() < 0.3:
        frame = frame.slice(1)
    newest = {"compat_level": pl.CompatLevel.newest()} if draw.random() < 0.5 else {}
    return frame.to_arrow(**newest)


def of_pandas(draw: random.Random, made: Columns) -> pa.Table:
    import pandas as pd

    named = {
        "int8": "Int8", "int64": "Int64", "uint64": "UInt64", "double": "float64",
        "bool": "boolean", "text": draw.choice(["string", "object"]), "word": "category",
        "moment": f"datetime64[{draw.choice(['us', 'ms', 's'])}]",
        "zoned": "datetime64[us, UTC]", "span": "timedelta64[us]",
    }  # fmt: skip
    series = {}
    for name, (kind, values) in made.items():
        if kind == "moment" and "us" not in named[kind]:
            values = [v and v.replace(microsecond=0) for v in values]
        series[name] = pd.Series(values, dtype=named.get(kind, "object"))
    frame = pd.DataFrame(series)
    if draw.random() < 0.3:
        frame = frame.iloc[1:]
    return pa.Table.from_pandas(frame, preserve_index=draw.choice([None, False]))


def of_duckdb(draw: random.Random, made: Columns) -> pa.Table:
    import duckdb

    types = {
        "int8": "TINYINT", "int64": "BIGINT", "uint64": "UBIGINT", "double": "DOUBLE",
        "bool": "BOOLEAN", "text": "VARCHAR", "bytes": "BLOB", "decimal": "DECIMAL(20, 3)",
        "date": "DATE", "moment": draw.choice(["TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS"]),
        "zoned": "TIMESTAMPTZ", "time": "TIME", "span": "INTERVAL", "list": "INTEGER[]",
        "struct": "STRUCT(a SMALLINT, b VARCHAR)", "word": "ENUM('red', 'green', 'blue')",
    }  # fmt: skip
    near = datetime(2026, 1, 1, 12)  # nanoseconds reach from 1677 to 2262
    with duckdb.connect() as connection:
        if draw.random() < 0.5:
            connection.execute("SET produce_arrow_string_view = true")
        fields = [f'"{name}" {types[kind]}' for name, (kind, _) in made.items()]
        connection.execute(f"CREATE TABLE t ({', '.join(fields)})")
        is_near = types["moment"] == "TIMESTAMP_NS"
        for row in zip(*(values for _, values in made.values()), strict=True):
            kinds = [kind for kind, _ in made.values()]
            given = [near if v and k == "moment" and is_near else v
                     for k, v in zip(kinds, row, strict=True)]  # fmt: skip
            marks = ", ".join("?" * len(given))
            connection.execute(f"INSERT INTO t VALUES ({marks})", given)
        return connection.sql("SELECT * FROM t").to_arrow_table()


def of_pyarrow(draw: random.Random, made: Columns) -> pa.Table:
    types = {
        "int8": pa.int8(), "int64": pa.int64(), "uint64": pa.uint64(), "double": pa.float64(),
        "bool": pa.bool_(), "text": draw.choice([pa.string(), pa.large_string(), pa.string_view()]),
        "bytes": draw.choice([pa.binary(), pa.binary_view()]), "decimal": pa.decimal128(20, 3),
        "date": draw.choice([pa.date32(), pa.date64()]), "moment": pa.timestamp("us"),
        "zoned": pa.timestamp("us", "UTC"), "time": pa.time64("us"), "span": pa.duration("us"),
        "list": draw.choice([pa.list_(pa.int32()), pa.large_list(pa.int32()),
                             pa.list_view(pa.int32())]),
        "struct": pa.struct([("a", pa.int16()), ("b", pa.string())]),
        "word": pa.dictionary(pa.int8(), pa.string()),
    }  # fmt: skip
    fields, arrays = [], []
    for name, (kind, values) in made.items():
        has_nulls = any(value is None for value in values)
        meta = {"PARQUET:field_id": "7"} if draw.random() < 0.3 else None
        nullable = has_nulls or draw.random() < 0.7
        array = pa.array(values, types[kind])
        if kind == "text" and draw.random() < 0.3:
            array = pa.ExtensionArray.from_storage(pa.json_(), pa.array(values, pa.string()))
        fields.append(pa.field(name, array.type, nullable=nullable, metadata=meta))
        arrays.append(array)
    whole_meta = {"source": "a sensor"} if draw.random() < 0.3 else None
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, whole_meta))
    return table.slice(1) if draw.random() < 0.3 else table


PRODUCERS = {
    "polars": of_polars,
    "pandas": of_pandas,
    "duckdb": of_duckdb,
    "pyarrow": of_pyarrow,
}


def expected(table: pa.Table) -> pa.Table:
    """As a queue stores it: views are plain, and what the schema says besides is kept."""
    fields = [f.with_type(stored_type(f.type)) for f in table.schema]
    schema = pa.schema(fields, table.schema.metadata)
    arrays = [
        table[place].combine_chunks().cast(field.type)
        if table.schema.field(place).type != field.type
        else table[place]
        for place, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def refused(error: SchemaMismatch, names: list[str]) -> bool:
    """Return False; the error must name a column."""
    assert any(name in str(error) for name in names), str(error)
    return False


def check(folder: Path, number: int, name: str, types: Counter[str]) -> bool:
    """Put one table in a queue and read it; return False where it is refused, by column."""
    draw = random.Random(f"{name} {number}")
    kinds = [kind for kind in KINDS if (name, kind) not in {("pandas", "struct")}]
    table = PRODUCERS[name](draw, columns(draw, kinds))
    types.update(str(field.type) for field in table.schema)
    path = folder / f"{name}{number}"
    try:
        with cec_store.open_queue(path, "x", schema=table.schema) as queue:
            queue.append(table, sync=True)
    except SchemaMismatch as error:
        return refused(error, table.column_names)
    found = cec_store.read_queue(path).read_all()
    due = expected(table)
    assert found.schema.equals(due.schema, check_metadata=True), (found.schema, due.schema)
    assert found.equals(due), (name, number)
    return True


@pytest.mark.crash
@pytest.mark.parametrize("name", PRODUCERS)
def test_tables_of_other_libraries_come_back_equal_or_are_refused(
    tmp_path: Path, name: str
) -> None:
    if name != "pyarrow":
        pytest.importorskip(name)
    types: Counter[str] = Counter()
    count = TABLES // len(PRODUCERS)
    taken = sum(check(tmp_path, number, name, types) for number in range(count))
    print(f"{name}: {taken} of {count} tables taken; {dict(types)}")
    assert taken > count / 2
    assert len(types) >= len(KINDS) - 2
