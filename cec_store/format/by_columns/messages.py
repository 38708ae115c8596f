"""The Arrow messages of a body of codec 3, and what their buffers may claim. docs/format.md §6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.arrow_metadata import (
    field_at,
    integer_at,
    message_header,
    pairs_at,
    table_at,
)
from cec_store.format.frame import BadHeader
from cec_store.format.zstd_frames import inflate

_LENGTH_BYTES = 8
_AS_IT_IS = -1
_METADATA_V5 = 4
_ZSTD, _BY_BUFFER = 1, 0


@dataclass(frozen=True)
class ColumnMessage:
    """A DictionaryBatch or a RecordBatch; nothing of it is decompressed yet."""

    start: int
    """Its first byte within the frame's body."""
    rows: int
    dictionary: int | None
    """Its id; ``None`` of a RecordBatch."""
    null_counts: NDArray[np.int64]
    """Rows of each field node."""
    places: NDArray[np.int64]
    """First byte in ``body`` and length in bytes of each buffer, shape (buffers, 2)."""
    body: pa.Buffer
    raw_bytes: int
    """Bytes of all its buffers after decompression, as they say themselves."""

    def buffer(self, number: int) -> pa.Buffer:
        """One buffer, decompressed.

        Raises:
            BadHeader, OSError: it is not what it claims.
        """
        start, size = self.places[number].tolist()
        if not size:
            return pa.py_buffer(b"")
        claimed = int.from_bytes(self.body.slice(start, _LENGTH_BYTES), "little", signed=True)
        stored = self.body.slice(start + _LENGTH_BYTES, size - _LENGTH_BYTES)
        return stored if claimed == _AS_IT_IS else inflate(stored, claimed)


def read_messages(
    stored: pa.Buffer, start: int, dictionaries: int, raw_bytes: int
) -> list[ColumnMessage]:
    """Read so many dictionaries and a record batch, which end where ``stored`` does.

    Raises:
        BadHeader: other messages, or they would inflate to more than ``raw_bytes``.
        ARROW_ERRORS: no messages.
    """
    source = pa.BufferReader(stored)
    source.seek(start)
    messages: list[ColumnMessage] = []
    left = raw_bytes
    for number in range(dictionaries + 1):
        at = source.tell()
        due = number if number < dictionaries else None
        message = _read(pa.ipc.read_message(source), at, due, raw_bytes)
        left -= message.raw_bytes
        if left < 0:
            raise BadHeader(f"body: buffers claim more than the {raw_bytes} bytes of its header")
        messages.append(message)
    if source.tell() != stored.size:
        raise BadHeader(f"body: {stored.size - source.tell()} bytes behind its record batch")
    return messages


def _read(message: pa.ipc.Message, start: int, due: int | None, raw_bytes: int) -> ColumnMessage:
    """The message, which has to be dictionary ``due``, or a record batch where that is ``None``."""
    metadata = message.metadata.to_pybytes()
    kind = "record batch" if due is None else "dictionary"
    root = int.from_bytes(metadata[:4], "little")
    version = integer_at(metadata, field_at(metadata, root, 0), "<h")
    if message.type != kind or version != _METADATA_V5:
        raise BadHeader(f"body: a {message.type} message where a {kind} of version 5 is due")
    batch = message_header(metadata)
    if due is not None:
        number = integer_at(metadata, field_at(metadata, batch, 0), "<q")
        is_delta = integer_at(metadata, field_at(metadata, batch, 2), "<B")
        if number != due or is_delta:
            raise BadHeader(f"body: dictionary {number} where all of {due} is due")
        batch = table_at(metadata, field_at(metadata, batch, 1))
    compression = table_at(metadata, field_at(metadata, batch, 3))
    if not compression or (
        integer_at(metadata, field_at(metadata, compression, 0), "<b"),
        integer_at(metadata, field_at(metadata, compression, 1), "<b"),
    ) != (_ZSTD, _BY_BUFFER):
        raise BadHeader("body: buffers are not compressed with zstd one by one")
    body = message.body if message.body is not None else pa.py_buffer(b"")
    places = pairs_at(metadata, field_at(metadata, batch, 2))
    rows = integer_at(metadata, field_at(metadata, batch, 0), "<q")
    if not 0 <= rows < 2**32:
        raise BadHeader(f"body: a message of {rows} rows")
    return ColumnMessage(
        start=start,
        rows=rows,
        dictionary=due,
        null_counts=pairs_at(metadata, field_at(metadata, batch, 1))[:, 1],
        places=places,
        body=body,
        raw_bytes=_claimed_bytes(body, places, raw_bytes),
    )


def _claimed_bytes(body: pa.Buffer, places: NDArray[np.int64], raw_bytes: int) -> int:
    """Return the bytes that the buffers say they have after decompression, all together."""
    starts, sizes = places[places[:, 1] != 0].T
    if (
        (sizes < _LENGTH_BYTES) | (sizes > body.size)
        | (starts < 0) | (starts % _LENGTH_BYTES != 0) | (starts > body.size - sizes)
    ).any():  # fmt: skip
        raise BadHeader(f"body: buffers outside a message of {body.size} bytes, or cut")
    words = np.frombuffer(body, "<i8", body.size // _LENGTH_BYTES)
    claimed = words[starts // _LENGTH_BYTES]
    claimed = np.where(claimed == _AS_IT_IS, sizes - _LENGTH_BYTES, claimed)
    if ((claimed < 0) | (claimed > raw_bytes)).any():
        raise BadHeader(f"body: a buffer claims more than the {raw_bytes} bytes of its header")
    return int(claimed.sum())
