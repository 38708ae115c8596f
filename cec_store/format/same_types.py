"""Types that are the same to a log, and columns that have no nulls. docs/format.md §6.

Two fields are the same if their storage types are, and the extension name that the other one has,
if any. Nulls, metadata and the names of fields in lists and maps are not compared: a stream keeps
those that its schema says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import SchemaMismatch
from cec_store.format.columns import flags_of, values_of

EXTENSION_NAME = b"ARROW:extension:name"


def extension_name(field: pa.Field) -> str | None:
    """Return the name of the field's extension type, whether this process knows the type or not."""
    if isinstance(field.type, pa.BaseExtensionType):
        name: str = field.type.extension_name
        return name
    encoded = (field.metadata or {}).get(EXTENSION_NAME)
    return None if encoded is None else encoded.decode()


def is_same_field(stored: pa.Field, other: pa.Field) -> bool:
    """Return True if values of ``other`` are values of the stored field.

    One without an extension name fits any extension of its storage type.
    """
    if extension_name(other) not in (None, extension_name(stored)):
        return False
    return _is_same(_storage(stored.type), _storage(other.type))


def are_same_fields(stored: pa.Schema, other: pa.Schema) -> bool:
    """Return True if the fields are the same, in one order."""
    pairs = zip(stored, other, strict=False)
    return stored.names == other.names and all(is_same_field(one, two) for one, two in pairs)


def _storage(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def _is_same(stored: pa.DataType, other: pa.DataType) -> bool:
    if not stored.num_fields or not other.num_fields:
        return bool(stored == other)
    if stored.id != other.id or stored.num_fields != other.num_fields:
        return False
    types = pa.types
    if types.is_fixed_size_list(stored) and stored.list_size != other.list_size:
        return False
    if types.is_union(stored) and stored.type_codes != other.type_codes:
        return False
    if types.is_map(stored):
        parts = [(kind.key_field, kind.item_field) for kind in (stored, other)]
        return all(is_same_field(one, two) for one, two in zip(*parts, strict=True))
    pairs = [(stored.field(place), other.field(place)) for place in range(stored.num_fields)]
    if types.is_struct(stored) or types.is_union(stored):
        return all(one.name == two.name and is_same_field(one, two) for one, two in pairs)
    return all(is_same_field(one, two) for one, two in pairs)


def check_nulls(records: pa.RecordBatch, first_row: int = 0) -> None:
    """Check that there are no nulls where a field has none.

    ``first_row``: the number of the first row among those that a user has passed.

    Raises:
        SchemaMismatch: a null; names its column, and its row.
    """
    for field, column in zip(records.schema, records.columns, strict=True):
        if field.nullable and not _has_required_part(field.type):
            continue
        wrong = np.flatnonzero(_nulls_in(field, column))
        if len(wrong):
            raise SchemaMismatch(
                f"column {field.name!r}, row {first_row + wrong[0]}: a null, and the column is NOT "
                "NULL; fill it in, or write to a queue whose schema allows nulls"
            )


def _has_required_part(kind: pa.DataType) -> bool:
    """Return True if a field in structs, lists, maps and unions has no nulls.

    Keys of maps and the entries around them never have: Arrow's own checks refuse those.
    """
    kind = _storage(kind)
    parts = [kind.field(place) for place in range(kind.num_fields)]
    if pa.types.is_map(kind):
        parts = [kind.item_field]
    return any(not part.nullable or _has_required_part(part.type) for part in parts)


def _nulls_in(field: pa.Field, column: pa.Array) -> NDArray[np.bool_]:
    """Return True for each row with a null in this field, or in one below it, that allows none."""
    valid = flags_of(column.is_valid())
    wrong = np.zeros(len(column), np.bool_) if field.nullable else ~valid
    if not _has_required_part(field.type):
        return wrong
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_struct(kind):
        for place, part in enumerate(kind):
            wrong |= valid & _nulls_in(part, column.field(place))
        return wrong
    if pa.types.is_union(kind):
        for rows, part, values in _members(column):
            wrong[rows] |= _nulls_in(part, values)
        return wrong
    if pa.types.is_map(kind):  # pyarrow counts and flattens no maps
        column = column.cast(pa.list_(kind.field(0)))
    lengths = values_of(column.value_lengths().fill_null(0).cast(pa.int64()), "i8")
    rows = np.repeat(np.arange(len(column)), lengths)
    wrong[rows[_nulls_in(column.type.field(0), column.flatten())]] = True
    return wrong


def _members(column: pa.Array) -> Iterator[tuple[NDArray[np.int64], pa.Field, pa.Array]]:
    """Yield the rows of each member of a union, its field, and its values in these rows."""
    if column.offset:  # pyarrow's codes and offsets of a slice are those of the first rows
        column = column.take(pa.array(np.arange(len(column))))
    codes = values_of(column.type_codes, "i1")
    for place, code in enumerate(column.type.type_codes):
        rows = np.flatnonzero(codes == code)
        is_dense = column.type.mode == "dense"
        places = values_of(column.offsets, "i4")[rows] if is_dense else rows
        yield rows, column.type.field(place), column.field(place).take(pa.array(places))
