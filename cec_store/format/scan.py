"""The frames of a segment, one after the other: the only walk over them. docs/format.md §7.

No I/O: who has the bytes, in a file, an object or memory, says how a header is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cec_store.errors import CorruptLog, UnsupportedVersion, upgrade_needed
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC_BYTES,
    SEGMENT_TYPES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
    decode_frame_header,
    prove_body,
)

HeaderAt = Callable[[int], FrameHeader]
"""Returns the frame header at a byte, or raises :class:`BadHeader`."""
Proof = Callable[[int, FrameHeader], object]
"""Raises :class:`BadHeader` unless the frame at a byte is what its header says."""

_BATCH: Final = FrameType.BATCH.value  # looked up for each frame


@dataclass(frozen=True)
class Bad:
    """The first place of a segment that is not a whole, valid frame."""

    byte: int
    reason: str
    newer: bool = False
    """A sound frame of a later format: to be refused, not cut."""

    @classmethod
    def of(cls, byte: int, error: BadHeader) -> Bad:
        """Return the place at which this was raised."""
        return cls(byte, str(error), isinstance(error, NewerVersion))

    def refusal(self, path: str) -> CorruptLog | UnsupportedVersion:
        """Return the error for a place of a file that ought to be sound."""
        if self.newer:
            return upgrade_needed(path, f"byte {self.byte}: {self.reason}")
        return CorruptLog(path, self.byte, self.reason)


def refusal(path: str, byte: int, error: BadHeader) -> CorruptLog | UnsupportedVersion:
    """Return the error for what ought to be sound at this byte of a file."""
    return Bad.of(byte, error).refusal(path)


@dataclass(frozen=True)
class Numbers:
    """Numbers that the frames have to have: a frame that was lost, repeated or moved shows."""

    due: int | None = None
    """Number of the first one; ``None`` takes that which is there."""


def whole_frames(
    header_at: HeaderAt,
    start: int,
    stop: int | None,
    numbers: Numbers | None = None,
    prove: Proof | None = None,
) -> Iterator[tuple[int, FrameHeader] | Bad]:
    """Yield the frames in ``[start, stop)`` as (byte, header), up to the first that is not whole.

    That place comes last, unless it is ``stop``; without a stop there is always one. Nothing is
    asked of the frames' numbers without ``numbers``.
    """
    byte, due = start, None if numbers is None else numbers.due
    while stop is None or byte < stop:
        try:
            header = header_at(byte)
            seq = header.seq
            if due is not None and due != seq:
                raise BadHeader(f"frame number {seq} where {due} is due")
            next_byte = byte + FRAME_HEADER_BYTES + header.body_bytes
            if stop is not None and next_byte > stop:
                raise BadHeader(f"the frame goes on beyond byte {stop}, the end")
            if prove is not None:
                prove(byte, header)
        except BadHeader as error:
            yield Bad.of(byte, error)
            return
        yield byte, header
        byte = next_byte
        if numbers is not None:
            due = seq + (header.type == _BATCH)


def intact_headers(data: bytes) -> Iterator[tuple[int, FrameHeader]]:
    """Yield every sound frame header in ``data`` and its byte there, of whichever segment."""
    at = data.find(FRAME_MAGIC_BYTES)
    while at >= 0:
        try:
            header = decode_frame_header(data, at)
        except BadHeader:
            pass  # four bytes that only look like the beginning of one
        else:
            yield at, header
        at = data.find(FRAME_MAGIC_BYTES, at + 1)


class FramesInMemory:
    """Frames of one segment, or of a part of it, whose bytes are all in memory."""

    def __init__(self, data: bytes, salt: int, types: Collection[int] = SEGMENT_TYPES) -> None:
        """``types``: those that there may be, all of a segment's if none are given."""
        self._data = data
        self._types = types
        self._buffer = pa.py_buffer(data)
        self._salt = salt

    def header_at(self, byte: int) -> FrameHeader:
        """Raises :class:`BadHeader` where there is no sound header of this segment."""
        header = decode_frame_header(self._data, byte, self._types)
        if header.salt != self._salt:
            raise BadHeader("the frame belongs to another segment")
        return header

    def stored_body(self, byte: int, header: FrameHeader) -> pa.Buffer:
        """Return the bytes of the body of the frame at ``byte``, fewer where they end."""
        start = byte + FRAME_HEADER_BYTES
        return self._buffer.slice(start, min(header.body_bytes, self._buffer.size - start))

    def body_at(self, byte: int, header: FrameHeader) -> pa.Buffer:
        """Return the body of the frame at ``byte``; raises :class:`BadHeader` if it is damaged."""
        body = self.stored_body(byte, header)
        prove_body(header, body)
        return body
