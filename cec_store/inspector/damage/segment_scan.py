"""Reading one segment that may be damaged: every frame that is intact, and the gaps between them.

Readers (:mod:`cec_store.log`) refuse a damaged segment at its first bad byte. An inspection goes
on at the next frame header that verifies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from cec_store.errors import CecError, StorageError, Unreadable
from cec_store.format.bodies import decode_body
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC_BYTES,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentHeader,
    body_is_sound,
    decode_frame_header,
    decode_segment_header,
    extend_running_crc,
)
from cec_store.format.schema import RecordSchema
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_name

_WINDOW_BYTES = 1 << 20
_HEADER_BYTES = 64 << 10


@dataclass(frozen=True)
class ScannedFrame:
    """A frame whose header verifies."""

    segment_id: int
    byte: int
    header: FrameHeader

    @property
    def end_byte(self) -> int:
        """Position of the first byte behind the frame."""
        return self.byte + self.header.frame_bytes


@dataclass(frozen=True)
class Gap:
    """Bytes that are no frame of this segment."""

    segment_id: int
    byte: int
    end_byte: int
    reason: str
    newer: bool = False
    """A sound frame of a later format."""

    @property
    def bytes(self) -> int:
        return self.end_byte - self.byte

    @property
    def what(self) -> str:
        """Description for people, such as "12 bytes are no frame: …"."""
        return f"{self.bytes} bytes are no frame: {self.reason}"


class SegmentScan:
    """One segment as it was when this was made: what a live writer adds is not looked at."""

    def __init__(self, folder: Folder, segment_id: int) -> None:
        """Raises ``FileNotFoundError``; damage is in :attr:`problem`."""
        self.segment_id = segment_id
        self.name = segment_name(segment_id)
        self.path = f"{folder.path}/{self.name}"
        self.bytes = folder.size(self.name)
        self.header: SegmentHeader | None = None
        self.problem: BadHeader | None = None
        """Reason that there is no header."""
        self._folder = folder
        self._start, self._data = 0, b""
        self._schemas: dict[int, RecordSchema] = {}
        try:
            self.header = decode_segment_header(self._read(0, SEGMENT_HEADER_BYTES))
        except BadHeader as error:
            self.problem = error
        self.salt = None if self.header is None else self.header.salt
        """Salt of the header; where the header is damaged, that of the first sound frame."""
        self.header_crc = int.from_bytes(self._read(SEGMENT_HEADER_BYTES - 4, 4), "little")

    @classmethod
    def if_there(cls, folder: Folder, segment_id: int) -> SegmentScan | None:
        """The segment; ``None`` where it is missing or its disk cannot be read.

        Raises:
            Unreadable: this user may not read it.
        """
        try:
            return cls(folder, segment_id)
        except Unreadable:
            raise
        except (FileNotFoundError, CecError):
            return None

    def _read(self, byte: int, size: int, load_bytes: int = _HEADER_BYTES) -> bytes:
        inside = byte - self._start
        if inside < 0 or inside + size > len(self._data):
            load = min(max(size, load_bytes), max(0, self.bytes - byte))
            self._start, inside = byte, 0
            self._data = self._load(byte, load)
        return self._data[inside : inside + size]

    def _load(self, byte: int, size: int) -> bytes:
        try:
            return self._folder.read(self.name, byte, size)
        except Unreadable:
            raise
        except (StorageError, FileNotFoundError):
            return b""  # an unreadable disk block, or trimmed by now: as if cut

    def release(self) -> None:
        """Let go of what was read: there may be thousands of segments."""
        self._start, self._data = 0, b""

    def header_at(self, byte: int) -> FrameHeader:
        """Raises :class:`BadHeader`."""
        header = decode_frame_header(self._read(byte, FRAME_HEADER_BYTES))
        if self.salt is None:
            self.salt = header.salt
        if header.salt != self.salt:
            raise BadHeader("the frame belongs to another segment")
        return header

    def body(self, frame: ScannedFrame) -> bytes:
        """The frame's body as stored.

        Raises:
            BadHeader: it fails its checksum.
        """
        size = frame.header.body_bytes
        body = self._read(frame.byte + FRAME_HEADER_BYTES, size, _WINDOW_BYTES)
        if not body_is_sound(frame.header, body):
            raise BadHeader("the body fails its checksum")
        return body

    def body_problem(self, frame: ScannedFrame) -> str:
        """Return why a body is not sound; empty if it is."""
        try:
            self.body(frame)
        except BadHeader as error:
            return str(error)
        return ""

    def frames(self, stop: int, start: int = SEGMENT_HEADER_BYTES) -> Iterator[ScannedFrame | Gap]:
        """Everything in ``[start, stop)``, a frame's beginning; bodies are not looked at."""
        byte = start
        while byte < stop:
            try:
                header = self.header_at(byte)
                if byte + header.frame_bytes > stop:
                    raise BadHeader("body cut short")
            except BadHeader as error:
                resume = self._next_intact(byte + 1, stop)
                yield Gap(self.segment_id, byte, stop if resume is None else resume,
                          str(error), isinstance(error, NewerVersion))  # fmt: skip
                if resume is None:
                    return
                byte = resume
                continue
            yield ScannedFrame(self.segment_id, byte, header)
            byte += header.frame_bytes

    def _next_intact(self, byte: int, stop: int) -> int | None:
        """The next frame of this segment that fits, found by its magic."""
        while byte + FRAME_HEADER_BYTES <= stop:
            data = self._load(byte, min(_WINDOW_BYTES, stop - byte))
            at = data.find(FRAME_MAGIC_BYTES)
            while 0 <= at <= len(data) - FRAME_HEADER_BYTES:
                try:
                    if byte + at + self.header_at(byte + at).frame_bytes <= stop:
                        return byte + at
                except BadHeader:
                    pass
                at = data.find(FRAME_MAGIC_BYTES, at + 1)
            if len(data) < FRAME_HEADER_BYTES:
                return None
            byte += len(data) - FRAME_HEADER_BYTES + 1
        return None

    def schema(self, header: FrameHeader) -> RecordSchema:
        """The record schema that governs this frame.

        Raises:
            BadHeader: no sound SCHEMA frame where the header says.
        """
        if header.schema_byte not in self._schemas:
            frame = self.header_at(header.schema_byte)
            if frame.type != FrameType.SCHEMA:
                raise BadHeader(f"there is no schema at byte {header.schema_byte}")
            body = self.body(ScannedFrame(self.segment_id, header.schema_byte, frame))
            self._schemas[header.schema_byte] = RecordSchema.decode(body)
        return self._schemas[header.schema_byte]

    def records(self, frame: ScannedFrame) -> pa.RecordBatch:
        """The frame's records.

        Raises:
            BadHeader: damaged, or not what the header says.
        """
        header = frame.header
        body = pa.py_buffer(self.body(frame))
        schema = self.schema(header)
        return decode_body(body, header.codec, header.raw_bytes, schema, header.record_count)

    def first_running_crc(self) -> int:
        """Running CRC of the segment header alone."""
        return extend_running_crc(0, self.header_crc)
