"""One segment file: reading its frames, and appending to it. docs/format.md §3–§5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from cec_store.errors import (
    CorruptLog,
    OutOfRange,
    StorageError,
    UnsupportedVersion,
    upgrade_needed,
)
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentHeader,
    body_is_sound,
    decode_frame_header,
    decode_segment_header,
    intact_headers,
)
from cec_store.format.schema import RecordSchema
from cec_store.storage.folder import AppendFile, Folder
from cec_store.storage.names import segment_name
from cec_store.storage.stores.store_folder import StoreFolder

# Large reads spare the cost of many small ones (CEC paper, II.B "CEC challenges": 256 KB).
_BODIES_READ_BYTES = 1 << 20
_HEADERS_READ_BYTES = 64 << 10
_HEADER_APART_READ_BYTES = 4 << 10


@dataclass(frozen=True)
class Bad:
    """The first place of a segment that is not a whole, valid frame."""

    byte: int
    reason: str
    newer: bool = False
    """A sound frame of a later format: to be refused, not cut."""


@contextmanager
def _trimmed_where_gone(folder: Folder, name: str) -> Iterator[None]:
    """A segment that was there when its reader was made can only have been trimmed since."""
    try:
        yield
    except FileNotFoundError:
        raise OutOfRange(f"{folder.path}/{name}: the segment has been trimmed") from None


class _ReadBuffer:
    """A part of the file in memory, so that neighbouring reads cost one call."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._name = name
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
        with _trimmed_where_gone(self._folder, self._name):
            data = self._folder.read(self._name, start, max(load_bytes, byte + size - start))
        self._bytes, self._data, self._start = data, pa.py_buffer(data), start
        return byte - start


class SegmentReader:
    """Reads one segment. Keeps a part of it in memory; not for use by two threads at once."""

    def __init__(self, folder: Folder, segment_id: int) -> None:
        """Raises :class:`CorruptLog` or :class:`UnsupportedVersion` for a header not sound."""
        self.name = segment_name(segment_id)
        self.path = f"{folder.path}/{self.name}"
        self._folder = folder
        self._schemas: dict[int, RecordSchema] = {}
        try:
            data = folder.read(self.name, 0, SEGMENT_HEADER_BYTES)
            self.header = decode_segment_header(data)
        except FileNotFoundError:
            raise CorruptLog(self.path, 0, "the segment is missing") from None
        except NewerVersion as error:
            raise upgrade_needed(self.path, str(error)) from None
        except BadHeader as error:
            raise CorruptLog(self.path, 0, str(error)) from None
        if self.header.segment_id != segment_id:
            raise CorruptLog(self.path, 0, f"the file is segment {self.header.segment_id}")
        self._buffer = _ReadBuffer(folder, self.name)

    def size(self) -> int:
        """Bytes in the file now."""
        with _trimmed_where_gone(self._folder, self.name):
            return self._folder.size(self.name)

    def reload(self) -> None:
        """Forget what was read: the file may have grown."""
        self._buffer = _ReadBuffer(self._folder, self.name)

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
        if header.salt != self.header.salt:
            raise BadHeader("the frame belongs to another segment")
        return header

    def body_at(self, byte: int, header: FrameHeader, backward: bool = False) -> pa.Buffer:
        """The body of the frame at ``byte``, its CRC proven.

        Raises:
            BadHeader: cut short or failing its checksum.
        """
        start, size = byte + FRAME_HEADER_BYTES, header.body_bytes
        load = (start + size - _BODIES_READ_BYTES) if backward else start
        body = self._buffer.read(start, size, load, _BODIES_READ_BYTES)
        if not body_is_sound(header, body):
            short = body.size < size
            raise BadHeader("body cut short" if short else "body fails its checksum")
        return body

    def frames(self, start: int = SEGMENT_HEADER_BYTES, stop: int | None = None,
               bodies: bool = False, due: int | None = None
               ) -> Iterator[tuple[int, FrameHeader]]:  # fmt: skip
        """Frames in ``[start, stop)`` as (byte, header); ``bodies`` checks their CRCs too.

        ``due`` is the number of the first one, where known: a frame that was lost, repeated or
        moved shows by its number.

        Raises:
            BadFrame: at the first place that is no whole frame, unless it is ``stop``.
        """
        byte = start
        if start == SEGMENT_HEADER_BYTES:
            due = self.header.first_seq
        batch = FrameType.BATCH.value  # looked up for each frame
        while stop is None or byte < stop:
            try:
                header = self.header_at(byte)
                seq = header.seq
                if due is not None and due != seq:
                    raise BadHeader(f"frame number {seq} where {due} is due")
                next_byte = byte + FRAME_HEADER_BYTES + header.body_bytes
                if stop is not None and next_byte > stop:
                    raise BadHeader(f"the frame goes on beyond byte {stop}, the end")
                if bodies:
                    self.body_at(byte, header)
                elif not self._buffer.holds(next_byte - 1, 1):
                    self._load_last_byte(byte, header)
            except BadHeader as error:
                raise BadFrame(Bad(byte, str(error), isinstance(error, NewerVersion))) from None
            yield byte, header
            byte = next_byte
            due = seq + (header.type == batch)

    def _load_last_byte(self, byte: int, header: FrameHeader) -> None:
        """Load the frame's last byte, with the next header; raises :class:`BadHeader`."""
        last = byte + header.frame_bytes - 1
        is_large = header.frame_bytes >= _HEADERS_READ_BYTES  # so the next one probably is
        load_bytes = _HEADER_APART_READ_BYTES if is_large else _HEADERS_READ_BYTES
        if not self._buffer.read(last, 1, last, load_bytes).size:
            raise BadHeader("body cut short")

    def schema(self, header: FrameHeader) -> RecordSchema:
        """The record schema that governs this frame.

        Raises:
            BadHeader: no sound SCHEMA frame where the header says.
        """
        if header.schema_byte not in self._schemas:
            frame = self.header_at(header.schema_byte)
            if frame.type != FrameType.SCHEMA:
                raise BadHeader(f"no schema at byte {header.schema_byte}")
            body = self.body_at(header.schema_byte, frame).to_pybytes()
            self._schemas[header.schema_byte] = RecordSchema.decode(body)
        return self._schemas[header.schema_byte]

    def headers_beyond(self, byte: int) -> Iterator[FrameHeader]:
        """Every intact frame header of this segment from a bad byte on."""
        rest = self.size() - byte
        if rest <= 0:
            return
        with _trimmed_where_gone(self._folder, self.name):
            data = self._folder.read(self.name, byte, rest)
        yield from (h for h in intact_headers(data) if h.salt == self.header.salt)


class SegmentReaders(dict[int, SegmentReader]):
    """A log's readers by segment. Only the one that is read from keeps bytes in memory."""

    _reading: SegmentReader | None = None

    def switch_to(self, segment_id: int) -> SegmentReader:
        """The reader of a segment; the one before lets go of what it has in memory."""
        reader = self[segment_id]
        if self._reading is not None and self._reading is not reader:
            self._reading.reload()
        self._reading = reader
        return reader


class BadFrame(Exception):
    """Carries a :class:`Bad`; never leaves the log's rooms."""

    def __init__(self, bad: Bad) -> None:
        self.bad = bad
        super().__init__(bad.reason)


class SegmentWriter:
    """Appends frames to a segment of its own. Not for use by two threads at once."""

    def __init__(self, folder: Folder, header: SegmentHeader) -> None:
        """Create the file and write its header (not yet durable; in a store nothing is there)."""
        self.header = header
        self.running_crc = header.running_crc
        self.bytes = 0
        """Bytes handed to the kernel."""
        self.synced_bytes = 0
        """Bytes known to be on disk."""
        self.frames = 0
        self._folder = folder
        self._last = (0, b"")
        """Byte and header of the frame that was written last."""
        create = folder.create_whole if isinstance(folder, StoreFolder) else folder.create
        self._file: AppendFile = create(segment_name(header.segment_id))
        try:
            self._write([header.encode()])
        except StorageError:
            self._file.close()
            raise

    def _write(self, parts: list[bytes]) -> None:
        self._file.write(parts)
        self.bytes += sum(map(len, parts))

    def append(self, header: bytes, body: bytes = b"") -> int:
        """Write one frame and return its byte."""
        byte = self.bytes
        self._write([header, body] if body else [header])
        self.running_crc = crc32c(header[-4:], self.running_crc)
        self.frames += 1
        self._last = (byte, header)
        return byte

    def is_in_place(self) -> bool:
        """Return whether the file under the segment's name is the one that is written here.

        It has to end where this one does, and with the same last frame. An older copy is shorter,
        in a file of its own as well as written over this one: each write here goes to the end of
        the file, so that one which was cut back stays too short.
        """
        name, (byte, header) = segment_name(self.header.segment_id), self._last
        try:
            is_whole = self._folder.size(name) == self.bytes
            return is_whole and self._folder.read(name, byte, len(header)) == header
        except FileNotFoundError:
            return False

    def sync(self) -> None:
        """Return once all of it is on disk."""
        written = self.bytes
        self._file.sync()
        self.synced_bytes = written

    def close(self) -> None:
        self._file.close()


def refusal(reader: SegmentReader, bad: Bad) -> CorruptLog | UnsupportedVersion:
    """The error for a frame that ought to be sound."""
    if bad.newer:
        return upgrade_needed(reader.path, f"byte {bad.byte}: {bad.reason}")
    return CorruptLog(reader.path, bad.byte, bad.reason)
