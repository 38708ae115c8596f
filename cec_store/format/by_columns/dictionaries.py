"""Strings of few values as dictionary and indices, and back. docs/format.md §6, codec 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.frame import BadHeader

INDEX_TYPES = {1: pa.int8(), 2: pa.int16(), 4: pa.int32()}
"""Types of indices by their width in bytes."""
_ROWS_MIN = 256
"""Rows below which the dictionary's own message takes what the indices save."""
_SAMPLE_ROWS = 1024
_SAMPLE_VALUES_MAX = 960
"""More different ones in the sample: making the dictionary would be in vain. Of even draws that is
so where there are more values than an eighth of 65,536 rows."""
_ROWS_PER_VALUE_MIN = 4
"""Measured with 65,536 rows: half the bytes at the price of an eighth more time to encode; with
more rows a value bytes, encoding and decoding all gain."""


def holds_strings(kind: pa.DataType) -> bool:
    """Return whether fields of this type may be stored as dictionary and indices."""
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def node_count(kind: pa.DataType) -> int:
    """Return how many field nodes Arrow writes for a field of this type: it, and all below."""
    if isinstance(kind, pa.BaseExtensionType):
        return node_count(kind.storage_type)
    if pa.types.is_map(kind):
        return 2 + node_count(kind.key_type) + node_count(kind.item_type)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return 1 + sum(node_count(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_run_end_encoded(kind):
        return 2 + node_count(kind.value_type)
    return 1 + node_count(kind.value_type) if kind.num_fields else 1


def column_numbers(schema: pa.Schema) -> list[int]:
    """The field number of each column, and one beyond the last field."""
    counts = [node_count(field.type) for field in schema]
    return [0, *np.cumsum(counts, dtype=np.int64).tolist()]


def string_fields(schema: pa.Schema) -> dict[int, pa.DataType]:
    """The fields that may be stored as dictionary and indices, by their numbers."""
    types: dict[int, pa.DataType] = {}

    def note(number: int, field: pa.Field) -> pa.Field:
        if holds_strings(field.type):
            types[number] = field.type
        return field

    change_fields(schema, note)
    return types


def change_fields(schema: pa.Schema, change: Callable[[int, pa.Field], pa.Field]) -> pa.Schema:
    """The schema with each field that is no struct changed, in columns and structs below them."""
    fields = [
        _changed_field(number, field, change)
        for number, field in zip(column_numbers(schema), schema, strict=False)
    ]
    return pa.schema(fields, schema.metadata)


def _changed_field(
    number: int, field: pa.Field, change: Callable[[int, pa.Field], pa.Field]
) -> pa.Field:
    if not pa.types.is_struct(field.type):
        return change(number, field)
    below = list(field.type)
    numbers = column_numbers(pa.schema(below))
    parts = [
        _changed_field(number + 1 + n, f, change) for n, f in zip(numbers, below, strict=False)
    ]
    return field.with_type(pa.struct(parts))


def change_columns(
    number: int, column: pa.Array, change: Callable[[int, pa.Array], pa.Array]
) -> pa.Array:
    """A column with each field in it that is no struct changed, down through structs."""
    if not pa.types.is_struct(column.type):
        return change(number, column)
    below = list(column.type)
    old = [column.field(i) for i in range(len(below))]
    numbers = column_numbers(pa.schema(below))
    new = [
        change_columns(number + 1 + n, part, change) for n, part in zip(numbers, old, strict=False)
    ]
    if all(part.type == field.type for part, field in zip(new, below, strict=True)):
        return column
    fields = [field.with_type(part.type) for part, field in zip(new, below, strict=True)]
    nulls = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(new, fields=fields, mask=nulls)


def with_dictionaries(records: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, int]]:
    """The records, fields of few values dictionary-encoded; index bytes of these by number."""
    listed: dict[int, int] = {}

    def change(number: int, column: pa.Array) -> pa.Array:
        encoded = _dictionary_of(column) if holds_strings(column.type) else None
        if encoded is None:
            return column
        listed[number] = encoded.type.index_type.bit_width // 8
        return encoded

    columns = [
        change_columns(number, column, change)
        for number, column in zip(column_numbers(records.schema), records.columns, strict=False)
    ]
    fields = [field.with_type(c.type) for field, c in zip(records.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), listed


def _dictionary_of(column: pa.Array) -> pa.DictionaryArray | None:
    """The column dictionary-encoded; ``None`` where that would not be smaller, or too slow."""
    rows = len(column)
    if rows < _ROWS_MIN:
        return None
    if rows > 2 * _SAMPLE_ROWS:
        sample = column.take(pa.array(np.linspace(0, rows - 1, _SAMPLE_ROWS).astype(np.int64)))
        if len(sample.unique()) > _SAMPLE_VALUES_MAX:
            return None
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    if len(values) * _ROWS_PER_VALUE_MIN > rows:
        return None
    index_bytes = next(size for size in INDEX_TYPES if len(values) <= 1 << (8 * size - 1))
    if values.nbytes + rows * index_bytes >= column.nbytes:
        return None
    indices = encoded.indices.cast(INDEX_TYPES[index_bytes], safe=False)
    return pa.DictionaryArray.from_arrays(indices, values)


class Dictionaries:
    """Puts values in the place of indices: no more of them than the frame's header announces."""

    def __init__(
        self, values: Mapping[int, Callable[[], pa.Array]], bytes_max: int, keep: bool = False
    ) -> None:
        """``values``: makes those of a field, by its number. ``keep``: as dictionary arrays."""
        self._values = values
        self._bytes_max = self._bytes_left = bytes_max
        self._keep = keep

    def restore(self, number: int, column: pa.Array) -> pa.Array:
        """A field as it is, or its values where it is stored as indices.

        Raises:
            BadHeader: more bytes than announced.
            pa.ArrowException, IndexError: indices without value.
        """
        if number not in self._values:
            return column
        values = self._values[number]()
        if self._keep:
            return pa.DictionaryArray.from_arrays(column, values)
        lengths = pc.binary_length(values)
        longest = pc.max(lengths).as_py() or 0
        if longest * len(column) > self._bytes_left:
            self._take(pc.sum(lengths.take(column)), 0)
        plain = values.take(column)
        self._take(pc.sum(pc.binary_length(plain)), 1)
        return plain

    def _take(self, total: pa.Scalar, counts: int) -> None:
        size = total.as_py() or 0
        if size > self._bytes_left:
            raise BadHeader(f"body: dictionaries stand for more than {self._bytes_max} bytes")
        self._bytes_left -= size * counts
