"""Codec 2: a body in blocks, each decompressed without the others. docs/format.md §6."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import zstandard

from cec_store.format.frame import BadHeader
from cec_store.format.zstd_frames import Inflater

BLOCK_BYTES = 16 << 10
"""Bytes of a block before compression; the last one has what is left."""
_END = np.dtype("<u4")


def pack(raw: bytes, level: int) -> bytes:
    """Return the bytes as blocks behind the table of their ends."""
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
    blocks = [compressor.compress(block) for block in _cut(raw)]
    ends = np.cumsum([len(block) for block in blocks], dtype=_END)
    return b"".join([ends.tobytes(), *blocks])


def _cut(raw: bytes) -> list[bytes]:
    return [raw[start : start + BLOCK_BYTES] for start in range(0, len(raw), BLOCK_BYTES)]


def unpack(stored: pa.Buffer, raw_bytes: int) -> pa.Buffer:
    """Return what the blocks hold, in memory that may be changed.

    Raises:
        BadHeader: a block does not have the size that is due, or lies outside of the body.
        zstandard.ZstdError: a block is no sound zstd frame, or fails its checksum.
    """
    sizes = [min(BLOCK_BYTES, raw_bytes - start) for start in range(0, raw_bytes, BLOCK_BYTES)]
    table_bytes = len(sizes) * _END.itemsize
    if stored.size < table_bytes:
        raise BadHeader(f"body: no room for the ends of {len(sizes)} blocks")
    places = table_bytes + np.frombuffer(stored, _END, len(sizes)).astype(np.int64)
    places = np.concatenate([[table_bytes], places])
    if places[-1] != stored.size or (np.diff(places) <= 0).any():
        raise BadHeader(f"body: the ends of its {len(sizes)} blocks are not those of its bytes")
    inflater, data, raw = Inflater(), memoryview(stored), bytearray()
    starts = places.tolist()
    for start, end, size in zip(starts, starts[1:], sizes, strict=False):
        raw += inflater.inflate(data[start:end], size)
    return pa.py_buffer(raw)
