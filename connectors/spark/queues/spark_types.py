"""Columns between Arrow, as queues store them, and Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from cec_store.errors import SchemaMismatch

_WIDER = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0), pa.float16(): pa.float32(),
    pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}  # fmt: skip
"""What Spark has in the place of types that it lacks."""


def stored_schema(schema: StructType) -> pa.Schema:
    """Arrow columns for the rows of a query.

    Raises:
        SchemaMismatch: a type that would not come back as it is.
    """
    columns = []
    for field in schema.fields:
        one = StructType([field])
        try:
            (arrow,) = to_arrow_schema(one, timezone="UTC")
            # A query may know of a column that it has no nulls, and its next version may not.
            column = pa.field(field.name, _nullable(arrow.type))
            back = from_arrow_schema(pa.schema([column]))
        except Exception as error:
            # pyspark's own errors share no base with those that they stand for.
            if not type(error).__module__.startswith("pyspark"):
                raise
            raise SchemaMismatch(f"column {field.name!r}: {error}") from error
        if back.simpleString() != one.simpleString():
            raise SchemaMismatch(
                f"column {field.name!r} is {field.dataType.simpleString()}, which a queue cannot "
                "hold: cast it"
            )
        columns.append(column)
    return pa.schema(columns)


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type with nulls allowed in all of its parts."""
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    return kind


def spark_schema(schema: pa.Schema) -> StructType:
    """How Spark sees a queue's columns.

    Raises:
        SchemaMismatch: a type that Spark does not have.
    """
    columns = []
    for column in schema:
        try:
            one = pa.schema([pa.field(column.name, _for_spark(column.type))])
            columns += from_arrow_schema(one).fields
        except Exception as error:
            if not type(error).__module__.startswith("pyspark"):
                raise
            raise SchemaMismatch(
                f"column {column.name!r} is {column.type}, which Spark does not have: {error}"
            ) from error
    return StructType(columns)


def _for_spark(kind: pa.DataType) -> pa.DataType:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _for_spark(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_for_spark(kind.key_type), _for_spark(kind.item_type))
    return kind


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in these very types, for who takes nothing else; by position."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == wanted.type else column.cast(wanted.type, safe=False)
        for column, wanted in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
