"""One segment file: reading its frames, and appending to it. docs/format.md §3–§5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cec_store.errors import CorruptLog, OutOfRange, StorageError
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    SegmentHeader,
    decode_segment_header,
)
from cec_store.format.scan import Bad, Numbers, refusal
from cec_store.log.segment_file import SegmentFile
from cec_store.storage.folder import AppendFile, Folder
from cec_store.storage.names import segment_name


@contextmanager
def _trimmed_where_gone(folder: Folder, name: str) -> Iterator[None]:
    """A segment that was there when its reader was made can only have been trimmed since."""
    try:
        yield
    except FileNotFoundError:
        raise OutOfRange(f"{folder.path}/{name}: the segment has been trimmed") from None


class SegmentReader(SegmentFile):
    """Reads one segment, and refuses what is not sound."""

    def __init__(self, folder: Folder, segment_id: int) -> None:
        """Raises :class:`CorruptLog` or :class:`UnsupportedVersion` for a header not sound."""
        name = segment_name(segment_id)
        super().__init__(f"{folder.path}/{name}", name, segment_id)
        self._folder = folder
        try:
            data = folder.read(self.name, 0, SEGMENT_HEADER_BYTES)
            self.header = decode_segment_header(data)
        except FileNotFoundError:
            raise CorruptLog(self.path, 0, "the segment is missing") from None
        except BadHeader as error:
            raise refusal(self.path, 0, error) from None
        if self.header.segment_id != segment_id:
            raise CorruptLog(self.path, 0, f"the file is segment {self.header.segment_id}")
        self.salt: int = self.header.salt

    def _read(self, byte: int, size: int) -> bytes:
        with _trimmed_where_gone(self._folder, self.name):
            return self._folder.read(self.name, byte, size)

    def size(self) -> int:
        """Bytes in the file now."""
        with _trimmed_where_gone(self._folder, self.name):
            return self._folder.size(self.name)

    def frames(self, start: int = SEGMENT_HEADER_BYTES, stop: int | None = None,
               bodies: bool = False, due: int | None = None
               ) -> Iterator[tuple[int, FrameHeader]]:  # fmt: skip
        """Frames in ``[start, stop)`` as (byte, header); ``bodies`` checks their CRCs too.

        ``due`` is the number of the first one, where known.

        Raises:
            BadFrame: at the first place that is no whole frame, unless it is ``stop``.
        """
        if start == SEGMENT_HEADER_BYTES:
            due = self.header.first_seq
        for item in self.whole_frames(start, stop, Numbers(due), bodies):
            if isinstance(item, Bad):
                raise BadFrame(item)
            yield item

    def headers_beyond(self, byte: int) -> Iterator[FrameHeader]:
        """Every intact frame header of this segment from a bad byte on."""
        rest = self.size() - byte
        if rest > 0:
            yield from (header for _, header in self.intact_in(byte, rest))


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
        """Create the file and write its header (not yet durable)."""
        self.header = header
        self.running_crc = header.running_crc
        self.bytes = 0
        """Bytes handed to the kernel."""
        self.synced_bytes = 0
        """Bytes known to be on disk."""
        self._folder = folder
        self._last = (0, b"")
        """Byte and header of the frame that was written last."""
        self._file: AppendFile = folder.create(segment_name(header.segment_id))
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
