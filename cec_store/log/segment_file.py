"""Frames of one segment file, each read with its neighbours. docs/format.md §3 to §5.

What is not sound is for its subclasses: :class:`cec_store.log.segment.SegmentReader` refuses it,
:class:`cec_store.inspector.damage.segment_scan.SegmentScan` goes on behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pyarrow as pa

from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    decode_frame_header,
    prove_body,
)
from cec_store.format.scan import Bad, Numbers, intact_headers, whole_frames
from cec_store.format.schema import RecordSchema

# Large reads spare the cost of many small ones (CEC paper, II.B "CEC challenges": 256 KB).
_BODIES_READ_BYTES = 1 << 20
_HEADERS_READ_BYTES = 64 << 10
_HEADER_APART_READ_BYTES = 4 << 10


class _ReadBuffer:
    """A part of the file in memory, so that neighbouring reads cost one call."""

    def __init__(self, load: Callable[[int, int], bytes]) -> None:
        """``load`` returns so many bytes from a byte on, fewer at the end of the file."""
        self._load_bytes = load
        self._start = 0
        self._bytes = b""
        self._data = pa.py_buffer(self._bytes)

    def holds(self, byte: int, size: int) -> bool:
        """Return True if all these bytes are in memory."""
        return self._start <= byte and byte + size <= self._start + len(self._bytes)

    def read(self, byte: int, size: int, load_from: int, load_bytes: int) -> pa.Buffer:
        """``size`` bytes at ``byte``, fewer at the end of the file.

        What is not in memory is loaded with its neighbours: ``load_bytes`` from ``load_from``.
        """
        inside = byte - self._start
        if not 0 <= inside <= len(self._bytes) - size:
            inside = self._load(byte, size, load_from, load_bytes)
            left = len(self._bytes) - inside
            if left < size:
                inside, size = (inside, left) if left > 0 else (0, 0)
        return self._data.slice(inside, size)

    def frame_header(self, byte: int, load_from: int, load_bytes: int) -> FrameHeader:
        """The header at ``byte``, loaded as by :meth:`read`; raises :class:`BadHeader`."""
        inside = byte - self._start
        if not 0 <= inside <= len(self._bytes) - FRAME_HEADER_BYTES:
            inside = self._load(byte, FRAME_HEADER_BYTES, load_from, load_bytes)
        return decode_frame_header(self._bytes, inside)

    def _load(self, byte: int, size: int, load_from: int, load_bytes: int) -> int:
        """Load these bytes and their neighbours, and return where ``byte`` is among them."""
        start = max(0, min(load_from, byte))
        data = self._load_bytes(start, max(load_bytes, byte + size - start))
        self._bytes, self._data, self._start = data, pa.py_buffer(data), start
        return byte - start


class SegmentFile(ABC):
    """One segment's bytes. Keeps a part of them in memory; for one thread at a time."""

    salt: int | None
    """Salt of the segment; ``None`` until one is known."""

    def __init__(self, path: str, name: str, segment_id: int) -> None:
        """``path`` is that of errors, ``name`` that in the folder."""
        self.segment_id = segment_id
        self.name = name
        self.path = path
        self._schemas: dict[int, RecordSchema] = {}
        self._buffer = _ReadBuffer(self._read)

    @abstractmethod
    def _read(self, byte: int, size: int) -> bytes:
        """Return so many bytes from a byte on, fewer at the end of the file."""

    def reload(self) -> None:
        """Forget what was read: the file may have grown, and there may be thousands of them."""
        self._buffer = _ReadBuffer(self._read)

    def header_at(self, byte: int, back_from: int | None = None) -> FrameHeader:
        """The frame header at ``byte``.

        ``back_from``: the frame behind it, for whoever walks backward; what is loaded besides then
        stands before that, where the next headers are.

        Raises:
            BadHeader: there is no sound header of this segment.
        """
        load_from, load_bytes = byte, _HEADERS_READ_BYTES
        if back_from is not None:
            load_from = back_from - _HEADERS_READ_BYTES
            if load_from > byte:  # the frames are large, so the next header is far away
                load_from, load_bytes = byte, FRAME_HEADER_BYTES
        header = self._buffer.frame_header(byte, load_from, load_bytes)
        if header.salt != self.salt:
            if self.salt is not None:
                raise BadHeader("the frame belongs to another segment")
            self.salt = header.salt
        return header

    def body_at(self, byte: int, header: FrameHeader, backward: bool = False) -> pa.Buffer:
        """The body of the frame at ``byte``, its CRC proven.

        Raises:
            BadHeader: cut short or failing its checksum.
        """
        start, size = byte + FRAME_HEADER_BYTES, header.body_bytes
        load = (start + size - _BODIES_READ_BYTES) if backward else start
        body = self._buffer.read(start, size, load, _BODIES_READ_BYTES)
        prove_body(header, body)
        return body

    def whole_frames(
        self, start: int, stop: int | None, numbers: Numbers | None = None, bodies: bool = False
    ) -> Iterator[tuple[int, FrameHeader] | Bad]:
        """Yield frames as :func:`cec_store.format.scan.whole_frames` does, whole to their ends.

        ``bodies`` checks their CRCs too.
        """
        prove = self.body_at if bodies else self._prove_last_byte
        return whole_frames(self.header_at, start, stop, numbers, prove)

    def _prove_last_byte(self, byte: int, header: FrameHeader) -> None:
        """Load the frame's last byte, with the next header; raises :class:`BadHeader`."""
        frame_bytes = FRAME_HEADER_BYTES + header.body_bytes
        last = byte + frame_bytes - 1
        if self._buffer.holds(last, 1):
            return
        is_large = frame_bytes >= _HEADERS_READ_BYTES  # so the next one probably is
        load_bytes = _HEADER_APART_READ_BYTES if is_large else _HEADERS_READ_BYTES
        if not self._buffer.read(last, 1, last, load_bytes).size:
            raise BadHeader("the body is cut short")

    def schema(self, header: FrameHeader) -> RecordSchema:
        """The record schema that governs this frame.

        Raises:
            BadHeader: no sound SCHEMA frame where the header says.
        """
        if header.schema_byte not in self._schemas:
            frame = self.header_at(header.schema_byte)
            if frame.type != FrameType.SCHEMA:
                raise BadHeader(f"there is no schema at byte {header.schema_byte}")
            body = self.body_at(header.schema_byte, frame).to_pybytes()
            self._schemas[header.schema_byte] = RecordSchema.decode(body)
        return self._schemas[header.schema_byte]

    def intact_in(self, byte: int, size: int) -> Iterator[tuple[int, FrameHeader]]:
        """Yield the intact headers of this segment in so many bytes, each with its byte."""
        for at, header in intact_headers(self._read(byte, size)):
            if self.salt is None or header.salt == self.salt:
                yield byte + at, header
