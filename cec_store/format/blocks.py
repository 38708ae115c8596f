"""Codec 2: rows of a state log in blocks, each decompressed by itself. docs/format.md §6."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from cec_store.format.frame import BadHeader
from cec_store.format.schema import (
    KEY,
    KIND,
    STATE,
    STATE_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    RecordKind,
    input_column,
)
from cec_store.format.zstd_frames import Inflater

_BLOCK_BYTES = 16 << 10
"""Bytes of a block before compression, about."""
_ROWS_MAX = 256
_HEAD = struct.Struct("<qqI")
"""Timestamp and input of all rows, and how many rows a block has."""
_END = np.dtype("<u4")
_ENTRY = np.dtype([("stored", _END), ("image", _END)])
_ROW_BYTES = 11
"""Bytes of a row in a block beside its key, its value and its bit."""


@dataclass(frozen=True)
class _Columns:
    """Columns of a state log but for what all rows have in common."""

    kinds: NDArray[np.uint8]
    families: NDArray[np.uint16]
    renewed: NDArray[np.bool_]
    key_lengths: NDArray[np.uint32]
    value_lengths: NDArray[np.uint32]
    keys: bytes
    values: bytes


def pack(records: pa.RecordBatch, level: int, rows_per_block: int = 0) -> tuple[bytes, int]:
    """Return a body and its bytes before compression.

    Args:
        records: rows of a state log, of one time and one version.
        level: of zstd.
        rows_per_block: as many as come to 16 KiB, unless it is given.
    """
    columns, rows = _columns_of(records), records.num_rows
    if not rows_per_block:
        rows_per_block = _rows_that_fit(columns, rows)
    images = list(_images(columns, rows_per_block))
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
    blocks = [compressor.compress(image) for image in images]
    table = np.zeros(len(blocks), _ENTRY)
    table["stored"] = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    table["image"] = np.cumsum([len(image) for image in images], dtype=np.int64)
    stamps = records.column(TIMESTAMP).cast(pa.int64())
    head = (stamps[0].as_py(), records.column(input_column(0))[0].as_py()) if rows else (0, 0)
    body = b"".join([_HEAD.pack(*head, rows_per_block), table.tobytes(), *blocks])
    return body, sum(map(len, images))


def _columns_of(records: pa.RecordBatch) -> _Columns:
    keys, states = records.column(KEY), records.column(STATE)
    values, renewed = (states.field(n).fill_null(nothing) for n, nothing in enumerate((b"", False)))
    is_footprint = states.is_valid().to_numpy(zero_copy_only=False)
    value_list = [
        value if is_kept else b""
        for value, is_kept in zip(values.to_pylist(), is_footprint, strict=True)
    ]
    key_list = keys.field(1).to_pylist()
    return _Columns(
        records.column(KIND).to_numpy(),
        keys.field(0).to_numpy(),
        renewed.to_numpy(zero_copy_only=False) & is_footprint,
        np.array([len(key) for key in key_list], _END),
        np.array([len(value) for value in value_list], _END),
        b"".join(key_list),
        b"".join(value_list),
    )


def _rows_that_fit(columns: _Columns, rows: int) -> int:
    if not rows:
        return 1
    image_bytes = rows * _ROW_BYTES + (rows + 7) // 8 + len(columns.keys) + len(columns.values)
    fit = max(1, min(_ROWS_MAX, _BLOCK_BYTES // max(1, image_bytes // rows)))
    return int(1 << (fit.bit_length() - 1))


def _images(columns: _Columns, rows_per_block: int) -> Iterator[bytes]:
    key_ends = np.concatenate([[0], np.cumsum(columns.key_lengths, dtype=np.int64)])
    value_ends = np.concatenate([[0], np.cumsum(columns.value_lengths, dtype=np.int64)])
    for start in range(0, len(columns.kinds), rows_per_block):
        part = slice(start, min(len(columns.kinds), start + rows_per_block))
        parts = (
            columns.kinds[part],
            columns.families[part].astype("<u2"),
            np.packbits(columns.renewed[part], bitorder="little"),
            columns.key_lengths[part],
            columns.value_lengths[part],
        )
        keys = columns.keys[key_ends[part.start] : key_ends[part.stop]]
        values = columns.values[value_ends[part.start] : value_ends[part.stop]]
        yield b"".join([*(each_part.tobytes() for each_part in parts), keys, values])


def unpack(stored: pa.Buffer, raw_bytes: int, rows: int) -> pa.RecordBatch:
    """Return the rows of a body.

    Raises:
        BadHeader: a block lies outside of the body, or does not hold what it is to hold.
        zstandard.ZstdError: a block is no sound zstd frame, or fails its checksum.
    """
    data = memoryview(stored)
    if len(data) < _HEAD.size:
        raise BadHeader("body: no room for the head of its blocks")
    timestamp_us, version, rows_per_block = _HEAD.unpack_from(data)
    if rows_per_block < 1:
        raise BadHeader(f"body: blocks of {rows_per_block} rows")
    table_end = _HEAD.size + -(-rows // rows_per_block) * _ENTRY.itemsize
    if len(data) < table_end:
        raise BadHeader(f"body: no room for the table of {rows} rows")
    table = np.frombuffer(data[_HEAD.size : table_end], _ENTRY)
    places = [table_end, *(table["stored"].astype(np.int64) + table_end).tolist()]
    images = [0, *table["image"].tolist()]
    rising = all(a < b for ends in (places, images) for a, b in itertools.pairwise(ends))
    if not rising or places[-1] != len(data) or images[-1] != raw_bytes:
        raise BadHeader(f"body: the ends of its {len(table)} blocks are not those of its bytes")
    inflater = Inflater()
    sizes = [min(rows_per_block, rows - start) for start in range(0, rows, rows_per_block)]
    parts = [
        _columns_in(inflater.inflate(data[place:end], image_end - image), size)
        for (place, end), (image, image_end), size in zip(
            itertools.pairwise(places), itertools.pairwise(images), sizes, strict=True
        )
    ]
    return _records(parts, rows, timestamp_us, version)


def _columns_in(image: bytes, rows: int) -> _Columns:
    bits = (rows + 7) // 8
    keys_at = rows * _ROW_BYTES + bits
    if len(image) < keys_at:
        raise BadHeader(f"body: a block of {len(image)} bytes has no room for {rows} rows")
    lengths = np.frombuffer(image, _END, 2 * rows, 3 * rows + bits)
    values_at = keys_at + int(lengths[:rows].sum(dtype=np.int64))
    if values_at + int(lengths[rows:].sum(dtype=np.int64)) != len(image):
        raise BadHeader(f"body: the {rows} rows of a block do not take its {len(image)} bytes")
    renewed = np.frombuffer(image, np.uint8, bits, 3 * rows)
    return _Columns(
        np.frombuffer(image, np.uint8, rows),
        np.frombuffer(image, "<u2", rows, rows),
        np.unpackbits(renewed, count=rows, bitorder="little").astype(np.bool_),
        lengths[:rows],
        lengths[rows:],
        image[keys_at:values_at],
        image[values_at:],
    )


def _records(parts: list[_Columns], rows: int, timestamp_us: int, version: int) -> pa.RecordBatch:
    def joined(name: str, of: str) -> NDArray[Any]:
        return np.concatenate([np.empty(0, of), *(getattr(part, name) for part in parts)])

    kinds = joined("kinds", "u1")
    if ((kinds < RecordKind.OPEN) | (kinds > RecordKind.RESULT)).any():
        raise BadHeader("body: a record of a kind that no state log has")
    keys = _binary(joined("key_lengths", "<u4"), [part.keys for part in parts])
    values = _binary(joined("value_lengths", "<u4"), [part.values for part in parts])
    schema = STATE_SCHEMA.arrow
    is_closed = pa.array(kinds == RecordKind.RESULT)
    columns = {
        KIND: pa.array(kinds),
        TIMESTAMP: pa.array(np.full(rows, timestamp_us)).cast(TIMESTAMP_TYPE),
        input_column(0): pa.array(np.full(rows, version)),
        KEY: pa.StructArray.from_arrays(
            [pa.array(joined("families", "<u2")), keys], fields=list(schema.field(KEY).type)
        ),
        STATE: pa.StructArray.from_arrays(
            [values, pa.array(joined("renewed", "?"))],
            fields=list(schema.field(STATE).type),
            mask=is_closed,
        ),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _binary(lengths: NDArray[np.uint32], parts: list[bytes]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = pa.py_buffer(b"".join(parts))
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), data])
