"""Libraries that make Arrow tables, each of random columns."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.producers.values import KINDS, NEAR, WORDS, Columns

PART = pa.struct([("a", pa.int32()), ("b", pa.string())])


def of_polars(draw: random.Random, made: Columns) -> pa.Table:
    import polars as pl

    types = {
        "int8": pl.Int8, "int64": pl.Int64, "uint64": pl.UInt64, "float": pl.Float32,
        "double": pl.Float64, "bool": pl.Boolean, "text": pl.String, "bytes": pl.Binary,
        "decimal": pl.Decimal(20, 3), "wide": pl.Decimal(38, 10), "date": pl.Date,
        "moment": pl.Datetime(draw.choice(["us", "ms"])),
        "zoned": pl.Datetime("us", draw.choice(["UTC", "Europe/Berlin"])), "time": pl.Time,
        "span": pl.Duration("us"), "list": pl.List(pl.Int32),
        "struct": pl.Struct({"a": pl.Int16, "b": pl.String}),
        "parts": pl.List(pl.Struct({"a": pl.Int32, "b": pl.String})),
        "word": draw.choice([pl.Categorical, pl.Enum(WORDS)]),
    }  # fmt: skip
    series = [pl.Series(name, v, types[kind], strict=False) for name, (kind, v) in made.items()]
    frame = pl.DataFrame(series)
    if draw.random() < 0.3:
        frame = frame.slice(1)
    newest = {"compat_level": pl.CompatLevel.newest()} if draw.random() < 0.5 else {}
    return frame.to_arrow(**newest)


def _series(draw: random.Random, made: Columns) -> dict[str, Any]:
    import pandas as pd

    named = {
        "int8": "Int8", "int64": "Int64", "uint64": "UInt64", "float": "float32",
        "double": "float64", "bool": "boolean", "text": draw.choice(["string", "object"]),
        "word": "category", "moment": f"datetime64[{draw.choice(['us', 'ms', 's'])}]",
        "zoned": "datetime64[us, UTC]", "span": "timedelta64[us]",
    }  # fmt: skip
    series = {}
    for name, (kind, values) in made.items():
        if kind == "moment" and "us" not in named[kind]:
            values = [v and v.replace(microsecond=0) for v in values]
        series[name] = pd.Series(values, dtype=named.get(kind, "object"))
    return series


def of_pandas(draw: random.Random, made: Columns) -> pa.Table:
    import pandas as pd

    frame = pd.DataFrame(_series(draw, made))
    if draw.random() < 0.3:
        frame = frame.iloc[1:]
    return pa.Table.from_pandas(frame, preserve_index=draw.choice([None, False]))


def of_geopandas(draw: random.Random, made: Columns) -> pa.Table:
    import geopandas
    import shapely

    rows = len(next(iter(made.values()))[1])
    shapes = {name: values for name, (kind, values) in made.items() if kind == "shape"}
    shapes = shapes or {"a_shape": [KINDS["shape"](draw) for _ in range(rows)]}
    rest = {name: column for name, column in made.items() if name not in shapes}
    series = _series(draw, rest)
    make = draw.choice([shapely.Point, lambda *at: shapely.Point(at).buffer(1)])
    for name, values in shapes.items():
        crs = draw.choice(["EPSG:4326", None])
        geometries = [at and make(*at) for at in values]
        series[name] = geopandas.GeoSeries(geometries, crs=crs)
    frame = geopandas.GeoDataFrame(series, geometry=next(iter(shapes)))
    if draw.random() < 0.3:
        frame = frame.iloc[1:]
    encoding = draw.choice(["WKB", "geoarrow"])
    has_values = all(column.notna().any() for name, column in frame.items() if name in shapes)
    if not has_values:  # of nothing but nulls the library knows no kind of geometry
        encoding = "WKB"
    interleaved = draw.random() < 0.5
    made_table = frame.to_arrow(index=False, geometry_encoding=encoding, interleaved=interleaved)
    return pa.table(made_table)


def _near(moments: list[datetime | None]) -> list[datetime | None]:
    return [moment and NEAR for moment in moments]


def of_duckdb(draw: random.Random, made: Columns) -> pa.Table:
    import duckdb

    types = {
        "int8": "TINYINT", "int64": "BIGINT", "uint64": "UBIGINT", "float": "FLOAT",
        "double": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR", "bytes": "BLOB",
        "decimal": "DECIMAL(20, 3)", "wide": "DECIMAL(38, 10)", "date": "DATE",
        "moment": draw.choice(["TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS"]),
        "zoned": "TIMESTAMPTZ", "time": "TIME", "span": "INTERVAL", "list": "INTEGER[]",
        "struct": "STRUCT(a SMALLINT, b VARCHAR)", "parts": "STRUCT(a INTEGER, b VARCHAR)[]",
        "uuid": "UUID", "word": "ENUM('red', 'green', 'blue')",
    }  # fmt: skip
    with duckdb.connect() as connection:
        if draw.random() < 0.5:
            connection.execute("SET produce_arrow_string_view = true")
        if draw.random() < 0.5:
            connection.execute("SET arrow_lossless_conversion = true")
        fields = [f'"{name}" {types[kind]}' for name, (kind, _) in made.items()]
        connection.execute(f"CREATE TABLE t ({', '.join(fields)})")
        if types["moment"] == "TIMESTAMP_NS":
            made = {name: (kind, _near(values) if kind == "moment" else values)
                    for name, (kind, values) in made.items()}  # fmt: skip
        rows = list(zip(*(values for _, values in made.values()), strict=True))
        if rows:
            marks = ", ".join("?" * len(made))
            connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        return connection.sql("SELECT * FROM t").to_arrow_table()


def of_pyarrow(draw: random.Random, made: Columns) -> pa.Table:
    return _arrow(draw, made, is_plain=False)


def _arrow(draw: random.Random, made: Columns, *, is_plain: bool) -> pa.Table:
    """Return a table; with `is_plain` in types that other libraries take, and without metadata."""

    def one(plain: pa.DataType, *others: pa.DataType) -> pa.DataType:
        return plain if is_plain else draw.choice([plain, *others])

    types = {
        "int8": pa.int8(), "int64": pa.int64(), "uint64": pa.uint64(), "float": pa.float32(),
        "double": pa.float64(), "bool": pa.bool_(),
        "text": one(pa.string(), pa.large_string(), pa.string_view()),
        "bytes": one(pa.binary(), pa.binary_view()), "fixed": pa.binary(3),
        "decimal": one(pa.decimal128(20, 3), pa.decimal256(40, 3)), "wide": pa.decimal128(38, 10),
        "date": one(pa.date32(), pa.date64()), "moment": pa.timestamp("us"),
        "zoned": one(pa.timestamp("us", "UTC"), pa.timestamp("us", "+05:30")),
        "time": one(pa.time64("us"), pa.time64("ns")), "span": pa.duration("us"),
        "months": pa.month_day_nano_interval(), "uuid": pa.uuid(),
        "list": one(pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_view(pa.int32())),
        "struct": pa.struct([("a", pa.int16()), ("b", pa.string())]),
        "parts": one(pa.list_(PART), pa.large_list(PART)),
        "counts": pa.map_(pa.string(), pa.int32()),
        "word": one(pa.dictionary(pa.int8(), pa.string())),
    }  # fmt: skip
    fields, arrays = [], []
    for name, (kind, values) in made.items():
        has_nulls = any(value is None for value in values)
        if kind == "uuid":
            storage = pa.array([value and value.bytes for value in values], pa.binary(16))
            array = pa.ExtensionArray.from_storage(pa.uuid(), storage)
        else:
            array = pa.array(values, types[kind])
        if kind == "text" and not is_plain and draw.random() < 0.3:
            array = pa.ExtensionArray.from_storage(pa.json_(), pa.array(values, pa.string()))
        nullable = has_nulls or draw.random() < 0.7
        meta = {"PARQUET:field_id": "7"} if draw.random() < 0.3 and not is_plain else None
        fields.append(pa.field(name, array.type, nullable=nullable, metadata=meta))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def of_datafusion(draw: random.Random, made: Columns) -> pa.Table:
    import datafusion

    context = datafusion.SessionContext()
    frame = context.from_arrow(_arrow(draw, made, is_plain=True), "t")
    step = draw.choice(["all", "limit", "views", "repeated"])
    if step == "limit":
        frame = frame.limit(ROWS_OF_A_SLICE, offset=1)
    elif step == "views":
        views = {"text": "Utf8View", "bytes": "BinaryView", "list": "LargeList(Int32)"}
        terms = [
            f"arrow_cast({name}, '{views[kind]}') AS {name}" if kind in views else name
            for name, (kind, _) in made.items()
        ]
        frame = context.sql(f"SELECT {', '.join(terms)} FROM t")
    elif step == "repeated":
        frame = frame.union(frame)
    return frame.to_arrow_table()


ROWS_OF_A_SLICE = 5


def of_delta(draw: random.Random, made: Columns) -> pa.Table:
    import deltalake

    with tempfile.TemporaryDirectory() as folder:
        deltalake.write_deltalake(folder, _arrow(draw, made, is_plain=True))
        table = deltalake.DeltaTable(folder)
        if draw.random() < 0.5:
            return table.to_pyarrow_table()
        queries = deltalake.QueryBuilder().register("t", table)
        return pa.table(queries.execute("SELECT * FROM t"))


@cache
def _catalog() -> Any:
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("tables", warehouse=Path(tempfile.mkdtemp()).as_uri())
    catalog.create_namespace("n")
    return catalog


def of_iceberg(draw: random.Random, made: Columns) -> pa.Table:
    rows = _arrow(draw, made, is_plain=True)
    table = _catalog().create_table("n.t", schema=rows.schema)
    try:
        table.append(rows)
        if draw.random() < 0.3:
            table.append(rows)
        limit = ROWS_OF_A_SLICE if draw.random() < 0.3 else None
        return table.scan(limit=limit).to_arrow()
    finally:
        _catalog().purge_table("n.t")


@dataclass(frozen=True)
class Producer:
    """A library, and what it has no column for."""

    module: str
    table: Callable[[random.Random, Columns], pa.Table]
    lacks: frozenset[str]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if kind not in self.lacks]


def _producer(
    module: str, table: Callable[[random.Random, Columns], pa.Table], lacks: str
) -> Producer:
    names = frozenset(lacks.split())
    assert names <= set(KINDS)
    return Producer(module, table, names)


# Kinds for which the table formats have no type.
_OF_FORMATS = "uint64 time span months word shape uuid"
PRODUCERS = {
    "pyarrow": _producer("pyarrow", of_pyarrow, "shape"),
    "polars": _producer("polars", of_polars, "fixed months uuid counts shape"),
    "pandas": _producer("pandas", of_pandas, "struct parts counts months uuid shape"),
    "duckdb": _producer("duckdb", of_duckdb, "fixed months counts shape"),
    "datafusion": _producer("datafusion", of_datafusion, "shape"),
    "pyiceberg": _producer("pyiceberg", of_iceberg, _OF_FORMATS),
    "delta": _producer("deltalake", of_delta, _OF_FORMATS),
    "geopandas": _producer("geopandas", of_geopandas, "struct parts counts months uuid"),
}
