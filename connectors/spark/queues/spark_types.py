"""Columns between Arrow, as queues store them, and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from cec_store.errors import SchemaMismatch

_WIDER = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0), pa.float16(): pa.float32(),
    pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.date64(): pa.date32(),
}  # fmt: skip
"""Wider type that Spark has, for each Arrow type that it lacks."""
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DIGITS_MAX = 9 if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else 6
"""Digits below a second that a TIME of this Spark has."""


def stored_schema(schema: StructType) -> pa.Schema:
    """Arrow columns for a query's rows; :class:`SchemaMismatch` where they would not come back."""
    columns = []
    for field in schema.fields:
        one = StructType([field])
        with _mismatch_of(f"column {field.name!r}"):
            (arrow,) = to_arrow_schema(one, timezone="UTC")
            # A query may know of a column that it has no nulls, and its next version may not.
            column = pa.field(field.name, _rebuilt(arrow.type))
            back = from_arrow_schema(pa.schema([column]))
        if back.simpleString() != one.simpleString():
            raise SchemaMismatch(
                f"column {field.name!r} is {field.dataType.simpleString()}, which a queue cannot "
                "hold: cast it"
            )
        columns.append(column)
    return pa.schema(columns)


@contextmanager
def _mismatch_of(what: str) -> Iterator[None]:
    """pyspark's own errors share no base with those that they stand for."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("pyspark"):
            raise
        raise SchemaMismatch(f"{what}: {error}") from error


def spark_schema(schema: pa.Schema) -> StructType:
    """Return a queue's columns as Spark's; raise :class:`SchemaMismatch` if it lacks a type."""
    columns = []
    for column in schema:
        with _mismatch_of(f"column {column.name!r} is {column.type}, which Spark does not have"):
            one = pa.schema([pa.field(column.name, _rebuilt(column.type, _for_spark))])
            (field,) = from_arrow_schema(one).fields
        field.dataType = _with_digits(field.dataType, column.type)
        columns.append(field)
    return StructType(columns)


def _with_digits(kind: DataType, stored: pa.DataType) -> DataType:
    """Return the type with times of day of as many digits as they are stored with.

    pyspark makes TIME(6) of each; Scala's ``SparkTypes`` has the same rule.
    """
    if isinstance(kind, StructType):
        fields = [
            StructField(part.name, _with_digits(part.dataType, stored.field(place).type))
            for place, part in enumerate(kind)
        ]
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(_with_digits(kind.elementType, stored.value_type))
    if isinstance(kind, MapType):
        key = _with_digits(kind.keyType, stored.key_type)
        return MapType(key, _with_digits(kind.valueType, stored.item_type))
    if pa.types.is_time(stored):
        times: Callable[[int], DataType] = type(kind)  # Spark 4.0 has no TimeType to name here
        return times(min(_DIGITS[stored.unit], _DIGITS_MAX))
    return kind


def _rebuilt(kind: pa.DataType, leaf: Callable[[Any], Any] = lambda kind: kind) -> pa.DataType:
    """The type with other leaves, and with nulls allowed in all of its parts."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_rebuilt(kind.value_type, leaf))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _rebuilt(field.type, leaf)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_rebuilt(kind.key_type, leaf), _rebuilt(kind.item_type, leaf))
    return leaf(kind)


def _for_spark(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return _WIDER.get(kind, kind)


_TAKEN_AS = {
    "tinyint": {"smallint", "int", "bigint", "double"},
    "smallint": {"int", "bigint", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
}
"""Types that a reader may ask for in the place of a queue's; each value is the same in them."""


def check_asked(asked: DataType, stored: DataType, place: str = "") -> None:
    """Check that a reader asks for columns that are there, in types that have all of their values.

    Raises:
        SchemaMismatch: it does not; names the column.
    """
    if isinstance(asked, StructType) and isinstance(stored, StructType):
        known = {field.name: field.dataType for field in stored}
        for field in asked:
            if field.name not in known:
                raise SchemaMismatch(f"{place}{field.name}: not in the queue; it has {[*known]}")
            check_asked(field.dataType, known[field.name], f"{place}{field.name}.")
    elif isinstance(asked, ArrayType) and isinstance(stored, ArrayType):
        check_asked(asked.elementType, stored.elementType, f"{place}element.")
    elif isinstance(asked, MapType) and isinstance(stored, MapType):
        check_asked(asked.keyType, stored.keyType, f"{place}key.")
        check_asked(asked.valueType, stored.valueType, f"{place}value.")
    else:
        kind, stored_kind = asked.simpleString(), stored.simpleString()
        if kind != stored_kind and kind not in _TAKEN_AS.get(stored_kind, ()):
            column = place.rstrip(".")
            raise SchemaMismatch(f"{column}: {stored_kind} in the queue, {kind} asked for")


def check_nulls(batch: pa.RecordBatch, partition: int) -> None:
    """Check that a column that is asked for as NOT NULL has a value in each row.

    Spark goes by the schema that was asked for, and takes a null for a zero there.

    Raises:
        SchemaMismatch: a value is missing; names the column.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if name := _lacking(field, column):
            raise SchemaMismatch(
                f"{name}: NOT NULL was asked for, and partition {partition} has a null"
            )


def _lacking(field: pa.Field, column: pa.Array) -> str:
    """Return the name of the first part that lacks a value it has to have; empty if none does."""
    if not field.nullable and column.null_count:
        return str(field.name)
    kind, rows = field.type, column.drop_null()
    if pa.types.is_struct(kind):
        inside = zip(kind, rows.flatten(), strict=True)
    elif pa.types.is_map(kind):
        first, end = (rows.offsets[at].as_py() for at in (0, -1))
        inside = zip((kind.item_field,), (rows.items.slice(first, end - first),), strict=True)
    elif pa.types.is_list(kind):
        inside = zip((kind.value_field,), (rows.flatten(),), strict=True)
    else:
        return ""
    lacking = next(filter(None, (_lacking(*part) for part in inside)), "")
    return f"{field.name}.{lacking}" if lacking else ""


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in these very types, for who takes nothing else; by position."""
    if batch.schema.equals(schema):
        return batch
    pairs = zip(batch.columns, schema, strict=True)
    columns = [_cast(column, field.type) for column, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        # By name: pyarrow before 20 wants all fields, in their order.
        names = [field.name for field in column.type]
        parts = dict(zip(names, column.flatten(), strict=True))
        fields = [_cast(parts[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
    return column.cast(kind, safe=False)
