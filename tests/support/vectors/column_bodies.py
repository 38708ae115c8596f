"""Bodies of codec 3, made from docs/format.md with pyarrow, not with the code under test."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pyarrow as pa

from cec_store.format.arrow_metadata import field_at, message_header, pairs_at, table_at

INDEX_TYPES = {1: pa.int8(), 2: pa.int16(), 4: pa.int32()}
Path = tuple[int, ...]
"""A column, and below it the parts of structs."""


def columns_body(
    records: pa.RecordBatch, listed: dict[int, tuple[Path, int]], as_they_are: bool = False
) -> bytes:
    """``listed``: by field number, where the field stands, and how many bytes an index has.

    ``as_they_are``: no buffer is compressed.
    """
    columns = list(records.columns)
    for path, index_bytes in listed.values():
        columns[path[0]] = _encoded(columns[path[0]], path[1:], INDEX_TYPES[index_bytes])
    encoded = pa.RecordBatch.from_arrays(columns, records.schema.names)
    messages = ipc_messages(encoded)
    if as_they_are:
        messages = [changed(m, _all_as_they_are) for m in messages]
    head = struct.pack("<II", len(listed), 0)
    for number, (_, index_bytes) in listed.items():
        head += struct.pack("<IBxxx", number, index_bytes)
    return head + b"".join(messages)


def _encoded(column: pa.Array, path: Path, index: pa.DataType) -> pa.Array:
    if not path:
        found = column.dictionary_encode()
        return pa.DictionaryArray.from_arrays(found.indices.cast(index), found.dictionary)
    parts = [column.field(i) for i in range(column.type.num_fields)]
    parts[path[0]] = _encoded(parts[path[0]], path[1:], index)
    names = [field.name for field in column.type]
    return pa.StructArray.from_arrays(parts, names, mask=column.is_null())


def ipc_messages(records: pa.RecordBatch, compression: str | None = "zstd") -> list[bytes]:
    """Those of a stream behind its schema."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, records.schema, options=options) as writer:
        writer.write_batch(records)
    _, *messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [bytes(message.serialize()) for message in messages]


Places = list[list[int]]
"""First byte and length of each buffer within its message's body."""


def changed(message: bytes, change: Callable[[Places, bytes], tuple[Places, bytes]]) -> bytes:
    """An encapsulated message with the places of its buffers, and its body, changed."""
    size = struct.unpack_from("<i", message, 4)[0]
    metadata, body = bytearray(message[8 : 8 + size]), message[8 + size :]
    root = int.from_bytes(metadata[:4], "little")
    batch = message_header(bytes(metadata))
    if metadata[field_at(bytes(metadata), root, 1)] == 2:  # a DictionaryBatch
        batch = table_at(bytes(metadata), field_at(bytes(metadata), batch, 1))
    field = field_at(bytes(metadata), batch, 2)
    places, body = change(pairs_at(bytes(metadata), field).tolist(), body)
    at = table_at(bytes(metadata), field) + 4
    for k, (start, length) in enumerate(places):
        struct.pack_into("<qq", metadata, at + 16 * k, start, length)
    struct.pack_into("<q", metadata, field_at(bytes(metadata), root, 3), len(body))
    return message[:8] + bytes(metadata) + body


def _all_as_they_are(places: Places, body: bytes) -> tuple[Places, bytes]:
    found: Places = []
    laid = b""
    for start, length in places:
        raw = b""
        if length:
            size = struct.unpack_from("<q", body, start)[0]
            stored = body[start + 8 : start + length]
            raw = stored if size == -1 else bytes(pa.decompress(stored, size, "zstd"))
            raw = struct.pack("<q", -1) + raw
        found.append([len(laid), len(raw)])
        laid += raw + bytes(-len(raw) % 8)
    return found, laid
