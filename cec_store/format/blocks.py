"""Codec 2: rows of a state log in blocks, each decompressed by itself. docs/format.md §6."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from numpy.typing import NDArray

from cec_store.format.columns import bytes_of, flags_of
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
from cec_store.format.zstd_frames import check_claims

_BLOCK_BYTES = 16 << 10
"""Bytes of a block before compression, about."""
_ROWS_MAX = 256
_ROWS_PER_BLOCK_MAX = 2**31 - 1
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
    is_footprint = states.is_valid()
    # Under a row without a state there may be bytes all the same.
    values = pc.if_else(is_footprint, states.field(0).fill_null(b""), b"")
    renewed = pc.and_(is_footprint, states.field(1).fill_null(False))
    key_lengths, key_bytes = _lengths_and_bytes(keys.field(1))
    value_lengths, value_bytes = _lengths_and_bytes(values)
    return _Columns(
        records.column(KIND).to_numpy(),
        keys.field(0).to_numpy(),
        flags_of(renewed),
        key_lengths,
        value_lengths,
        key_bytes,
        value_bytes,
    )


def _lengths_and_bytes(column: pa.Array) -> tuple[NDArray[np.uint32], bytes]:
    """Lengths of the values of a binary column without nulls, and all of their bytes."""
    held, ends = bytes_of(column)
    return np.diff(ends).astype(_END), held[ends[0] : ends[-1]].tobytes()


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
        OSError, zstandard.ZstdError: a block is no sound zstd frame, or fails its checksum.
    """
    data = memoryview(stored)
    if len(data) < _HEAD.size:
        raise BadHeader("body: no room for the head of its blocks")
    timestamp_us, version, rows_per_block = _HEAD.unpack_from(data)
    if not 1 <= rows_per_block <= _ROWS_PER_BLOCK_MAX:
        raise BadHeader(f"body: blocks of {rows_per_block} rows")
    table_end = _HEAD.size + -(-rows // rows_per_block) * _ENTRY.itemsize
    if len(data) < table_end:
        raise BadHeader(f"body: no room for the table of {rows} rows")
    table = np.frombuffer(data[_HEAD.size : table_end], _ENTRY)
    places = np.concatenate([[0], table["stored"].astype(np.int64)]) + table_end
    images = np.concatenate([[0], table["image"].astype(np.int64)])
    is_rising = (np.diff(places) > 0).all() and (np.diff(images) > 0).all()
    if not is_rising or places[-1] != len(data) or images[-1] != raw_bytes:
        raise BadHeader(f"body: the ends of its {len(table)} blocks are not those of its bytes")
    raw = _inflated(stored.slice(table_end), places - table_end, images)
    columns = _columns_in(memoryview(raw), images, rows, rows_per_block)
    return _records(columns, timestamp_us, version)


def _inflated(blocks: pa.Buffer, places: NDArray[np.int64], images: NDArray[np.int64]) -> pa.Buffer:
    """All images in one call, after each block was asked what it claims to be."""
    view, starts, sizes = memoryview(blocks), places.tolist(), np.diff(images).tolist()
    for start, end, size in zip(starts, starts[1:], sizes, strict=False):
        check_claims(view[start:end], size)
    if not sizes:
        return pa.py_buffer(b"")
    return pa.Codec("zstd").decompress(blocks, decompressed_size=int(images[-1]))


def _columns_in(
    raw: memoryview, images: NDArray[np.int64], rows: int, rows_per_block: int
) -> _Columns:
    """Columns of all blocks, whose images end at these bytes."""
    blocks = len(images) - 1
    last = rows - (blocks - 1) * rows_per_block
    fixed_bytes = [sum(_widths(n)) for n in (rows_per_block, last)]
    is_short = np.diff(images) < fixed_bytes[0]
    is_short[-1:] = np.diff(images[-2:]) < fixed_bytes[1]
    if is_short.any():
        raise BadHeader(f"body: block {is_short.argmax()} has no room for its rows")
    starts = images[:-1].tolist()
    kinds, families, bits, key_lengths, value_lengths = (
        _joined(raw, starts, whole, short)
        for whole, short in zip(_places(rows_per_block), _places(last), strict=True)
    )
    columns = _Columns(
        np.frombuffer(kinds, np.uint8),
        np.frombuffer(families, "<u2"),
        _flags(bits, rows, rows_per_block),
        np.frombuffer(key_lengths, _END),
        np.frombuffer(value_lengths, _END),
        b"",
        b"",
    )
    keys, values = _bytes_in(raw, columns, images, rows_per_block)
    return replace(columns, keys=keys, values=values)


def _widths(rows: int) -> tuple[int, ...]:
    """Bytes of the columns of fixed width in a block of so many rows."""
    return rows, 2 * rows, (rows + 7) // 8, 4 * rows, 4 * rows


def _places(rows: int) -> list[tuple[int, int]]:
    """Bytes of such a block at which each of these columns begins and ends."""
    ends = np.cumsum([0, *_widths(rows)]).tolist()
    return [(ends[place], ends[place + 1]) for place in range(len(ends) - 1)]


def _joined(
    raw: memoryview, starts: list[int], whole: tuple[int, int], short: tuple[int, int]
) -> bytes:
    """A column of all blocks from where it stands in them; in the last one it stands elsewhere."""
    begin, end = whole
    parts = [raw[start + begin : start + end] for start in starts[:-1]]
    parts += [raw[start + short[0] : start + short[1]] for start in starts[-1:]]
    return b"".join(parts)


def _flags(bits: bytes, rows: int, rows_per_block: int) -> NDArray[np.bool_]:
    """One flag for each row; in ``bits`` each block begins with a byte."""
    rows_per_block = max(1, min(rows_per_block, rows))
    width = 8 * ((rows_per_block + 7) // 8)
    flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    padded = np.zeros(-(-rows // rows_per_block) * width, np.uint8)
    padded[: len(flags)] = flags
    return padded.reshape(-1, width)[:, :rows_per_block].ravel()[:rows].astype(np.bool_)


def _bytes_in(
    raw: memoryview, columns: _Columns, images: NDArray[np.int64], rows_per_block: int
) -> tuple[bytes, bytes]:
    """Keys and values of all blocks, which fill what the rest of a block leaves."""
    rows = len(columns.kinds)
    firsts = np.arange(0, rows, rows_per_block)
    sizes = np.diff(np.append(firsts, rows))
    starts = images[:-1] + sizes * _ROW_BYTES + (sizes + 7) // 8
    key_bytes, value_bytes = (
        np.add.reduceat(lengths.astype(np.int64), firsts) if rows else np.empty(0, np.int64)
        for lengths in (columns.key_lengths, columns.value_lengths)
    )
    middles = starts + key_bytes
    if (middles + value_bytes != images[1:]).any():
        raise BadHeader("body: the rows of a block do not take its bytes")
    places = list(zip(starts.tolist(), middles.tolist(), images[1:].tolist(), strict=True))
    keys = b"".join([raw[start:middle] for start, middle, _ in places])
    return keys, b"".join([raw[middle:end] for _, middle, end in places])


def _records(columns: _Columns, timestamp_us: int, version: int) -> pa.RecordBatch:
    kinds, rows = columns.kinds, len(columns.kinds)
    if ((kinds < RecordKind.OPEN) | (kinds > RecordKind.RESULT)).any():
        raise BadHeader("body: a record of a kind that no state log has")
    schema = STATE_SCHEMA.arrow
    keys = _binary(columns.key_lengths, columns.keys)
    values = _binary(columns.value_lengths, columns.values)
    arrays = {
        KIND: pa.array(kinds),
        TIMESTAMP: pa.array(np.full(rows, timestamp_us)).cast(TIMESTAMP_TYPE),
        input_column(0): pa.array(np.full(rows, version)),
        KEY: pa.StructArray.from_arrays(
            [pa.array(columns.families), keys], fields=list(schema.field(KEY).type)
        ),
        STATE: pa.StructArray.from_arrays(
            [values, pa.array(columns.renewed)],
            fields=list(schema.field(STATE).type),
            mask=pa.array(kinds == RecordKind.RESULT),
        ),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _binary(lengths: NDArray[np.uint32], data: bytes) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    # All of them fit, since a body does: and as another type they would be converted first.
    np.cumsum(lengths.view(np.int32), dtype=np.int32, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
