"""The types and values that records may have: one rule for writers and for readers.

Values of strings are not looked at: Spark and Parquet keep whatever bytes a string has, and so does
a log. docs/format.md §6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import SchemaMismatch

_Leaf = Callable[[pa.DataType], pa.DataType]
_STORED = {pa.lib.Type_STRING_VIEW: pa.string(), pa.lib.Type_BINARY_VIEW: pa.binary()}
_LISTS = (
    pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST, pa.lib.Type_FIXED_SIZE_LIST, pa.lib.Type_MAP,
)  # fmt: skip
_DECIMAL_BYTES = 16
_BYTES = {
    pa.lib.Type_STRING: pa.binary(),
    pa.lib.Type_LARGE_STRING: pa.large_binary(),
    pa.lib.Type_STRING_VIEW: pa.binary_view(),
}


# -- types --------------------------------------------------------------------------------------


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a log stores columns of this type.

    pyarrow cannot select rows of views and of run ends: those become strings, bytes and plain
    values.
    """
    if pa.types.is_run_end_encoded(kind):
        return stored_type(kind.value_type)
    return _rebuilt(kind, lambda leaf: _STORED.get(leaf.id, leaf))


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each column in its :func:`stored_type`."""
    fields = [field.with_type(stored_type(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def stored_field(field: pa.Field) -> pa.Field:
    """Return the field as it is stored.

    Raises:
        SchemaMismatch: its type cannot be stored.
    """
    kind = stored_type(field.type)
    if _holds(kind, pa.types.is_dictionary):
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}: dictionary-encoded columns cannot be stored; "
            "cast to the type of their values first"
        )
    if _holds(kind, _has_too_few_members):
        # Refused before a kernel sees it: pyarrow's end the process.
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}: a union has at least {_UNION_MEMBERS_MIN} "
            "member; leave the column out"
        )
    if _holds(kind, _lacks_kernels) or not _is_castable(field.type):
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}: pyarrow {pa.__version__} cannot select rows "
            "of such a column; cast it to another type first"
        )
    return field if kind == field.type else field.with_type(kind)


def as_stored(column: pa.Array) -> pa.Array:
    """Return the column in its :func:`stored_type`.

    Raises:
        pa.ArrowInvalid: values are more than that type holds in one array.
    """
    kind = stored_type(column.type)
    if column.type == kind:
        return column
    if pa.types.is_run_end_encoded(column.type):
        rows = np.arange(column.offset, column.offset + len(column))
        runs = np.searchsorted(column.run_ends.to_numpy(), rows, side="right")
        return as_stored(column.values).take(pa.array(runs))
    return column.cast(options=pc.CastOptions(kind, allow_invalid_utf8=True))


def _rebuilt(kind: pa.DataType, leaf: _Leaf) -> pa.DataType:
    """The type with other leaves; the same object where no leaf changes."""
    if isinstance(kind, pa.BaseExtensionType) or not kind.num_fields:
        return leaf(kind)
    fields = [kind.field(place) for place in range(kind.num_fields)]
    changed = []
    for field in fields:
        below = _rebuilt(field.type, leaf)
        changed.append(field if below is field.type else field.with_type(below))
    if all(new is old for new, old in zip(changed, fields, strict=True)):
        return kind
    return _composed(kind, changed)


def _composed(kind: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """A nested type like ``kind``, of these fields."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_map(kind):
        key, item = fields[0].type
        return pa.map_(key, item, kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if types.is_union(kind):
        return pa.union(fields, kind.mode, kind.type_codes)
    lists = {
        pa.lib.Type_LIST: pa.list_, pa.lib.Type_LARGE_LIST: pa.large_list,
        pa.lib.Type_LIST_VIEW: pa.list_view, pa.lib.Type_LARGE_LIST_VIEW: pa.large_list_view,
    }  # fmt: skip
    return lists[kind.id](fields[0]) if kind.id in lists else kind


def has_union(kind: pa.DataType) -> bool:
    """Return True where a union stands anywhere in the type."""
    return _holds(kind, pa.types.is_union)


def _holds(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Return True if such a type stands anywhere in this one."""
    if test(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _holds(kind.storage_type, test)
    if pa.types.is_dictionary(kind):
        return _holds(kind.value_type, test)
    return any(_holds(kind.field(place).type, test) for place in range(kind.num_fields))


_UNION_MEMBERS_MIN = 1


def _has_too_few_members(kind: pa.DataType) -> bool:
    return bool(pa.types.is_union(kind)) and kind.num_fields < _UNION_MEMBERS_MIN


def _lacks_kernels(kind: pa.DataType) -> bool:
    try:
        pa.nulls(0, kind).filter(pa.array([], pa.bool_()))
    except pa.ArrowNotImplementedError:
        return True
    return False


def _is_castable(kind: pa.DataType) -> bool:
    try:
        as_stored(pa.nulls(0, kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


# -- values -------------------------------------------------------------------------------------


def check_column(column: pa.Array) -> None:
    """Prove that each value lies within its buffers, and is one of its type.

    Raises:
        pa.ArrowInvalid: offsets, counts or indices that point elsewhere; decimals of more digits,
            times of day beyond 24 h, dates in milliseconds that are no whole days.
    """
    _viewed(column, _as_bytes).validate(full=True)


def check_structure(column: pa.Array) -> None:
    """Prove that each value lies within its buffers, whatever it is; raises as above."""
    _viewed(column, _as_numbers).validate(full=True)


def check_records(records: pa.RecordBatch) -> None:
    """Check each column as :func:`check_column` does; raises the same."""
    for column in records.columns:
        check_column(column)


def as_bytes(schema: pa.Schema) -> pa.Schema:
    """The schema as which :func:`check_column` looks at a batch; the same where it is no other.

    A batch that is read so is checked by one ``validate(full=True)``, however many columns it has.
    """
    fields = [field.with_type(_rebuilt(field.type, _as_bytes)) for field in schema]
    changed = pa.schema(fields)
    return schema if changed.equals(schema) else changed


def readable(records: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
    """Return the records if readers will take them, before they are written.

    Values that no row of a list has, such as those of a slice's neighbours, are left out where they
    are in the way. ``first_row``: the number of the first row among those that a user has passed.

    Raises:
        SchemaMismatch: there is a value that readers refuse; names its column and row.
    """
    for place, field in enumerate(records.schema):
        if _has_nested_null(field.type):
            records = records.set_column(place, field, _unsliced(records.column(place)))
        column = records.column(place)
        try:
            check_column(column)
        except pa.ArrowInvalid as error:
            compact = _compact(field.name, column, first_row, error)
            records = records.set_column(place, field, compact)
    return records


def _unsliced(column: pa.Array) -> pa.Array:
    """The same values in buffers of their own, without offsets."""
    batch = pa.record_batch([column], ["column"])
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema).column(0)


def _compact(name: str, column: pa.Array, first_row: int, error: pa.ArrowInvalid) -> pa.Array:
    try:
        check_structure(column)
    except pa.ArrowInvalid:
        # Nothing of such an array may be looked at.
        what = f"column {name!r} is no sound Arrow array of {column.type}: {error}"
        raise SchemaMismatch(what) from error

    def taken_rows(start: int, stop: int) -> pa.Array:
        # Taken, not sliced: a slice of lists has the values of all rows.
        return _unsliced(column.take(pa.array(np.arange(start, stop))))

    taken = taken_rows(0, len(column))
    if _is_sound(taken):
        return taken
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_sound(taken_rows(low, middle)):
            low = middle
        else:
            high = middle
    raise SchemaMismatch(
        f"column {name!r}, row {first_row + low}: no value of the type {column.type}, and no "
        f"reader would take it ({error}); mend the row, or cast the column"
    ) from error


def _is_sound(column: pa.Array) -> bool:
    try:
        check_column(column)
    except pa.ArrowInvalid:
        return False
    return True


def retyped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the column in a type of the same storage, whose fields may have other names.

    Extensions are added and left out, at any depth.
    """
    if column.type == kind:
        return column
    return _remade(_unsliced(column) if column.type.num_fields else column, kind)


def as_others_read(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records in buffers that other implementations of Arrow read as this one does.

    Decimals stand at multiples of 16 bytes, as Rust wants them: Arrow's messages have buffers at
    multiples of 8. Sparse unions are no slices, of which others take the first values.
    """
    for place, field in enumerate(records.schema):
        if records.column(place).offset and _holds(field.type, _is_sparse_union):
            records = records.set_column(place, field, _unsliced(records.column(place)))
        if pa.types.is_decimal(field.type) and field.type.bit_width >= 128:
            column = records.column(place)
            valid, values = column.buffers()
            if values is not None and values.address % _DECIMAL_BYTES:
                moved = pa.allocate_buffer(values.size)
                np.frombuffer(moved, np.uint8)[:] = np.frombuffer(values, np.uint8)
                column = pa.Array.from_buffers(
                    field.type, len(column), [valid, moved], offset=column.offset
                )
                records = records.set_column(place, field, column)
    return records


def _is_sparse_union(kind: pa.DataType) -> bool:
    return bool(pa.types.is_union(kind)) and kind.mode == "sparse"


def _as_bytes(leaf: pa.DataType) -> pa.DataType:
    if isinstance(leaf, pa.BaseExtensionType):
        return _rebuilt(leaf.storage_type, _as_bytes)
    return _BYTES.get(leaf.id, leaf)


def _as_numbers(leaf: pa.DataType) -> pa.DataType:
    """A type of the same layout, of which every value is one."""
    if isinstance(leaf, pa.BaseExtensionType):
        return _rebuilt(leaf.storage_type, _as_numbers)
    if pa.types.is_decimal(leaf):
        return pa.binary(leaf.bit_width // 8)
    if pa.types.is_date64(leaf) or pa.types.is_time64(leaf):
        return pa.int64()
    return pa.int32() if pa.types.is_time32(leaf) else _as_bytes(leaf)


def _viewed(column: pa.Array, leaf: _Leaf) -> pa.Array:
    """The same buffers as another type of their layout."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = _rebuilt(column.type, leaf)
    if kind is column.type:
        return column
    kind = _with_nulls(
        kind
    )  # Arrow's view refuses nulls itself, in members that no row has as well
    return _remade(column, kind) if _has_nested_null(kind) else column.view(kind)


def _with_nulls(kind: pa.DataType) -> pa.DataType:
    """Return the type with parts that may all be null, but for keys of maps."""
    if not kind.num_fields:
        return kind
    if pa.types.is_map(kind):
        key, item = (field.with_type(_with_nulls(field.type)) for field in kind.field(0).type)
        return pa.map_(key, item.with_nullable(True), kind.keys_sorted)
    fields = [kind.field(place) for place in range(kind.num_fields)]
    return _composed(
        kind, [field.with_type(_with_nulls(field.type)).with_nullable(True) for field in fields]
    )


def _has_nested_null(kind: pa.DataType) -> bool:
    return bool(kind.num_fields) and _holds(kind, pa.types.is_null)


def _remade(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what ``column.view(kind)`` would of an array without offsets.

    Arrow's view gives a column of the type null the length of the list that it is in, and makes no
    extension arrays.
    """
    types, own = pa.types, column.type
    if own == kind:
        return column
    if isinstance(column, pa.ExtensionArray):
        return _remade(column.storage, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _remade(column, kind.storage_type))
    if types.is_struct(own):
        parts = [column.field(place) for place in range(own.num_fields)]
    elif own.id in _LISTS:
        parts = [column.values]
    else:
        return column.view(kind)
    children = [_remade(part, kind.field(place).type) for place, part in enumerate(parts)]
    buffers = column.buffers()[: own.num_buffers]
    return pa.Array.from_buffers(kind, len(column), buffers, column.null_count, children=children)
