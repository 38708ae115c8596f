"""Batches of records: made of what users append, and their columns as numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import SchemaMismatch
from cec_store.format.arrow_values import (
    as_stored,
    check_structure,
    readable,
    retyped,
    stored_type,
)
from cec_store.format.columns import values_of
from cec_store.format.same_types import check_nulls, extension_name, is_same_field
from cec_store.format.schema import (
    TIMESTAMP_TYPE,
    RecordKind,
    RecordSchema,
    check_timestamp_type,
    input_column,
)


def to_timestamps(values: pa.Array) -> pa.Array:
    """Return ``timestamp[us, UTC]``; finer units are cut to microseconds.

    Raises:
        SchemaMismatch: wrong type, a null, or a value outside 64 bits of microseconds.
    """
    if not isinstance(values, pa.Array):
        raise SchemaMismatch(f"timestamps are a pyarrow.Array, not {type(values).__name__}")
    check_timestamp_type(values.type)
    if values.null_count:
        raise SchemaMismatch(f"{values.null_count} timestamps are null")
    try:
        if pa.types.is_int64(values.type):
            return values.cast(TIMESTAMP_TYPE)
        coarse = values.cast(pa.timestamp("us", values.type.tz), safe=values.type.unit != "ns")
        return coarse.cast(pa.int64()).cast(TIMESTAMP_TYPE)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"timestamps: {error}") from error


def fit_batches(
    schema: pa.Schema, rows: pa.RecordBatch | pa.Table, first_row: int = 0
) -> list[pa.RecordBatch]:
    """Return a user's rows in the schema's columns and types, as readers will take them.

    A batch stays one; a table becomes as few as its columns fit in. ``first_row``: its number, for
    errors.

    Raises:
        SchemaMismatch: columns missing, unknown or of another type, or a value that no reader
            would take; names its column and row.
    """
    batches = []
    for batch in _as_batches(rows):
        columns = fit_columns(schema, batch)
        records = pa.RecordBatch.from_arrays(columns, schema=schema)
        records = readable(records, first_row)
        check_nulls(records, first_row)
        batches.append(records)
        first_row += batch.num_rows
    return batches


def stored_table(table: pa.Table) -> pa.Table:
    """Return the table with columns in the types as which they are stored.

    Raises:
        SchemaMismatch: a column of views is no sound one, or more than fits.
    """
    for place, field in enumerate(table.schema):
        stored = field.with_type(stored_type(field.type))
        if stored.type != field.type:
            chunks = [_fit_column(field, chunk, stored) for chunk in table.column(place).chunks]
            table = table.set_column(place, stored, pa.chunked_array(chunks, stored.type))
    return table


def _as_batches(rows: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if not isinstance(rows, pa.Table):
        what = f"append takes a pyarrow.RecordBatch or Table, not {type(rows).__name__}"
        raise SchemaMismatch(what)
    batches: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
    return batches or [empty_batch(rows.schema)]


def data_records(
    schema: RecordSchema, batch: pa.RecordBatch, timestamps: pa.Array
) -> pa.RecordBatch:
    """A user's batch as DATA records.

    Raises:
        SchemaMismatch: columns missing, unknown or of another type.
    """
    columns = fit_columns(schema.data, batch)
    rows = batch.num_rows
    arrays = [pa.array(np.full(rows, RecordKind.DATA.value, np.uint8)), timestamps]
    extras = schema.arrow.names[2 : len(schema.arrow.names) - len(columns)]
    arrays += [pa.nulls(rows, schema.arrow.field(name).type) for name in extras]
    return pa.RecordBatch.from_arrays(arrays + columns, schema=schema.arrow)


def fit_columns(schema: pa.Schema, batch: pa.RecordBatch) -> list[pa.Array]:
    """The batch's columns in the schema's order, in the types as which they are stored.

    Raises:
        SchemaMismatch: columns missing, unknown or of another type.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise SchemaMismatch(f"expected a pyarrow.RecordBatch, not {type(batch).__name__}")
    if batch.schema.names != schema.names and sorted(batch.schema.names) != sorted(schema.names):
        missing = [n for n in schema.names if n not in batch.schema.names]
        unknown = [n for n in batch.schema.names if n not in schema.names]
        raise SchemaMismatch(f"columns do not fit: missing {missing}, unknown {unknown}")
    return [
        _fit_column(batch.schema.field(target.name), batch.column(target.name), target)
        for target in schema
    ]


def _fit_column(field: pa.Field, column: pa.Array, target: pa.Field) -> pa.Array:
    if column.type == target.type and field.metadata is None:
        return column
    if not is_same_field(target, field.with_type(stored_type(column.type))):
        kinds = [_described(one) for one in (field, target)]
        raise SchemaMismatch(f"column {target.name!r} is {kinds[0]}, not {kinds[1]}")
    if column.type == target.type:
        return column
    try:
        check_structure(column)  # a cast follows views and runs wherever they point
        return retyped(as_stored(column), target.type)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"column {target.name!r} is {column.type}: {error}") from error


def _described(field: pa.Field) -> str:
    name = extension_name(field)
    if name is None or isinstance(field.type, pa.BaseExtensionType):
        return str(field.type)
    return f"{field.type} with the extension {name}"


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def kinds_of(records: pa.RecordBatch) -> NDArray[np.uint8]:
    """The kinds as a numpy array, shape (records,)."""
    return values_of(records.column(0), "u1")


def of_windows(kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return True for each record of one window, under its key: footprints, RESULT and MERGED."""
    is_of_window: NDArray[np.bool_] = (kinds >= RecordKind.OPEN.value) & (
        kinds <= RecordKind.RESULT.value
    )
    is_of_window |= kinds == RecordKind.MERGED.value
    return is_of_window


def closes(kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return True for each record that closes the window of its key: RESULT and MERGED."""
    is_closing: NDArray[np.bool_] = kinds == RecordKind.RESULT.value
    is_closing |= kinds == RecordKind.MERGED.value
    return is_closing


def inputs_of(records: pa.RecordBatch | pa.Table, inputs: int) -> NDArray[np.int64]:
    """Input positions, shape (records, inputs)."""
    columns = [values_of(records.column(input_column(i)), "i8") for i in range(inputs)]
    return np.stack(columns, axis=1) if columns else np.empty((records.num_rows, 0), np.int64)


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of many of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
