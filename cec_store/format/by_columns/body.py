"""Codec 3: columns compressed apart, strings of few values as dictionaries. docs/format.md §6."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from struct import Struct

import pyarrow as pa

from cec_store.format.arrow_values import check_column, check_records
from cec_store.format.by_columns.dictionaries import (
    INDEX_TYPES,
    Dictionaries,
    change_columns,
    change_fields,
    column_numbers,
    string_fields,
    with_dictionaries,
)
from cec_store.format.by_columns.messages import ColumnMessage, read_messages
from cec_store.format.frame import BadHeader

_HEAD = Struct("<II")
assert _HEAD.size == 8
_LISTED = Struct("<IB3s")
assert _LISTED.size == 8
_END_OF_STREAM_BYTES = 8
_NOTHING = bytes(3)


def pack(records: pa.RecordBatch, level: int) -> bytes:
    """The body; releases the GIL for most of its time."""
    encoded, listed = with_dictionaries(records)
    codec = pa.Codec("zstd", compression_level=level)
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, encoded.schema, options=options) as writer:
        writer.write_batch(encoded)
    stream = sink.getvalue()
    source = pa.BufferReader(stream)
    pa.ipc.read_message(source)  # the schema
    messages = stream.slice(source.tell(), stream.size - source.tell() - _END_OF_STREAM_BYTES)
    head = [_HEAD.pack(len(listed), 0)]
    head += [_LISTED.pack(number, size, _NOTHING) for number, size in listed.items()]
    return b"".join([*head, messages])


def is_within(stored: bytes, raw_bytes: int) -> bool:
    """Return whether a reader decompresses no more than so many bytes of what :func:`pack`
    returned."""
    body = pa.py_buffer(stored)
    dictionaries, _ = _HEAD.unpack_from(body)
    try:
        read_messages(body, _HEAD.size + dictionaries * _LISTED.size, dictionaries, raw_bytes)
    except BadHeader:
        return False
    return True


def unpack(
    stored: pa.Buffer,
    raw_bytes: int,
    schema: pa.Schema,
    record_count: int,
    columns: Sequence[str] | None = None,
    keep_dictionaries: bool = False,
) -> pa.RecordBatch:
    """The records, or these columns of them, which alone are decompressed; their structure proven.

    Raises:
        BadHeader: sizes or messages are not what they claim.
        ARROW_ERRORS: nor is the rest.
    """
    # What a schema says of itself cannot be hashed by each pyarrow, and does not matter here.
    bare = schema.remove_metadata()
    strings, numbers = _fields_of(bare)
    listed = _read_listed(stored, strings)
    start = _HEAD.size + len(listed) * _LISTED.size
    *dictionaries, batch = read_messages(stored, start, len(listed), raw_bytes)
    if batch.rows != record_count:
        raise BadHeader(f"body has {batch.rows} records, its header says {record_count}")
    names = schema.names if columns is None else list(dict.fromkeys(columns))
    included = sorted(schema.names.index(name) for name in names)
    message = _index_schema(bare, tuple(listed.items()))
    read = _read_batch(stored, batch, message, included)
    values = {
        number: partial(_values_of, message, strings[number])
        for number, message in zip(listed, dictionaries, strict=True)
    }
    restoring = Dictionaries(values, raw_bytes, keep_dictionaries)
    if not included:
        return read.select([])
    arrays = [
        change_columns(numbers[place], column, restoring.restore)
        for place, column in zip(included, read.columns, strict=True)
    ]
    fields = [
        schema.field(place).with_type(array.type)
        for place, array in zip(included, arrays, strict=True)
    ]
    records = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))
    return records if columns is None else records.select(list(columns))


def _read_listed(stored: pa.Buffer, strings: dict[int, pa.DataType]) -> dict[int, int]:
    """Return the bytes of an index by field number, of fields stored as dictionary and indices.

    Raises:
        BadHeader: the list is not of fields of strings, ascending.
    """
    count, reserved = _HEAD.unpack_from(stored)
    if reserved or count > len(strings):
        raise BadHeader(f"body: {count} dictionaries of {len(strings)} fields with strings")
    listed: dict[int, int] = {}
    last = -1
    for k in range(count):
        number, index_bytes, rest = _LISTED.unpack_from(stored, _HEAD.size + k * _LISTED.size)
        known = number in strings and index_bytes in INDEX_TYPES and rest == _NOTHING
        if not known or number <= last:
            raise BadHeader(f"body: a dictionary of field {number} with {index_bytes}-byte indices")
        listed[number] = index_bytes
        last = number
    return listed


# A log has one schema, and its frames hardly differ in what they store as dictionaries.
@lru_cache(maxsize=64)
def _fields_of(schema: pa.Schema) -> tuple[dict[int, pa.DataType], list[int]]:
    """The fields that may be listed, and the number of each column."""
    return string_fields(schema), column_numbers(schema)


@lru_cache(maxsize=64)
def _index_schema(schema: pa.Schema, listed: tuple[tuple[int, int], ...]) -> bytes:
    """The message of what the record batch holds: integers for what is in dictionaries."""
    index_bytes = dict(listed)

    def change(number: int, field: pa.Field) -> pa.Field:
        return field.with_type(INDEX_TYPES[index_bytes[number]]) if number in index_bytes else field

    return bytes(change_fields(schema, change).serialize())


def _read_batch(
    stored: pa.Buffer, batch: ColumnMessage, schema: bytes, included: list[int]
) -> pa.RecordBatch:
    """The record batch with the included columns only; where there is none, the first one.

    ``schema``: the message of that name.
    """
    # No fields at all would be all of them.
    options = pa.ipc.IpcReadOptions(included_fields=included or [0], use_threads=False)
    stream = b"".join([schema, stored.slice(batch.start)])
    records = pa.ipc.open_stream(stream, options=options).read_next_batch()
    # Offsets may point outside the buffers: whoever made the body could make its CRC right.
    check_records(records)
    if records.num_rows != batch.rows:
        raise BadHeader(f"body: {records.num_rows} of its {batch.rows} records")
    return records


def _values_of(message: ColumnMessage, kind: pa.DataType) -> pa.Array:
    """The entries of a dictionary."""
    if message.null_counts.tolist() != [0] or len(message.places) != 3:
        raise BadHeader(f"body: dictionary {message.dictionary} is no column without nulls")
    if not message.rows:
        return pa.array([], kind)
    buffers = [None, message.buffer(1), message.buffer(2)]
    values = pa.Array.from_buffers(kind, message.rows, buffers, 0)
    check_column(values)
    return values
