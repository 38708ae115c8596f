"""The segments of a queue in order, each with the bytes that count: how everyone reads it.

Only vouched frames are shown (docs/format.md §7), so a reader in another process never sees a
record that a power cut could take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.files import Folder
from cec_store.frame import (
    NONE,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
)
from cec_store.frontier import End, Frame, Frontier, refusal
from cec_store.manifest import Manifest, read_manifest
from cec_store.records import RecordSchema, decode_body
from cec_store.segment import Bad, BadFrame, SegmentReader
from cec_store.units import Address

__all__ = ["Chain", "End", "Frame"]


class Chain:
    """A reader of the whole queue. Cheap to make; not for use by two threads at once."""

    def __init__(self, folder: Folder) -> None:
        """Raises :class:`NotAQueue`, :class:`CorruptLog` or :class:`UnsupportedVersion`."""
        self.folder = folder
        self.manifest: Manifest
        self._readers: dict[int, SegmentReader] = {}
        self._read_last: SegmentReader | None = None
        self._ends: dict[int, int] = {}
        self._newest = -1
        self.refresh()

    # -- where the log ends -------------------------------------------------------------------

    @property
    def end(self) -> End:
        """Where the log ended when last looked at."""
        return self._frontier.end

    def refresh(self) -> End:
        """Look again how far the log reaches.

        Raises:
            CorruptLog: damage where the log was acknowledged.
        """
        while True:
            self.manifest = read_manifest(self.folder)
            newest = self.manifest.newest_segment
            try:
                if newest != self._newest:
                    self._frontier = Frontier(self.reader(newest), self._schema_frame(newest))
                    self._newest = newest
                return self._frontier.advance()
            except OutOfRange:
                continue  # it has been completed and trimmed since: look at the manifest again

    def _schema_frame(self, segment_id: int) -> FrameHeader:
        """A segment's first frame: it knows where the stream stood when the segment began."""
        reader = self.reader(segment_id)
        try:
            header = reader.header_at(SEGMENT_HEADER_BYTES)
            if header.type != FrameType.SCHEMA:
                raise BadHeader("a segment starts with its schema")
            return header
        except BadHeader as error:
            newer = isinstance(error, NewerVersion)
            raise refusal(reader, Bad(SEGMENT_HEADER_BYTES, str(error), newer)) from None

    # -- segments -----------------------------------------------------------------------------

    def reader(self, segment_id: int) -> SegmentReader:
        """Raises :class:`OutOfRange` for a trimmed segment, :class:`CorruptLog` for a lost one."""
        if segment_id not in self._readers:
            try:
                reader = SegmentReader(self.folder, segment_id)
            except CorruptLog:
                if segment_id < read_manifest(self.folder).first_segment:
                    raise OutOfRange(
                        f"{self.folder.path}: segment {segment_id} is trimmed"
                    ) from None
                raise
            if reader.header.log_id != self.manifest.log_id:
                raise CorruptLog(reader.path, 16, "the segment belongs to another queue")
            self._readers[segment_id] = reader
        reader = self._readers[segment_id]
        if self._read_last is not None and self._read_last is not reader:
            self._read_last.reload()  # a stretch in memory for one segment, not for each
        self._read_last = reader
        return reader

    def segment_end(self, segment_id: int) -> int:
        """How many bytes of the segment belong to the log, as far as it is vouched for."""
        if segment_id == self._newest:
            return self.end.address.byte if self.end.address.segment_id == segment_id else 0
        if segment_id not in self._ends:
            reader, successor = self.reader(segment_id), self.reader(segment_id + 1).header
            if reader.header.salt != successor.prev_salt:
                raise CorruptLog(reader.path, 40, "its salt is not the one its successor continues")
            self._ends[segment_id] = successor.prev_bytes
        return self._ends[segment_id]

    @property
    def segments(self) -> range:
        """Numbers of the segments that exist."""
        return range(self.manifest.first_segment, self._newest + 1)

    def first_offset(self, segment_id: int | None = None) -> int:
        """Offset of the first record of a segment; of the queue's oldest by default."""
        oldest = self.manifest.first_segment if segment_id is None else segment_id
        return self._schema_frame(oldest).first_offset

    def schema(self) -> RecordSchema:
        """The record schema in force at the end."""
        reader = self.reader(self._newest)
        try:
            return reader.schema(reader.header_at(SEGMENT_HEADER_BYTES))
        except BadHeader as error:
            raise CorruptLog(reader.path, SEGMENT_HEADER_BYTES, str(error)) from None

    # -- frames -------------------------------------------------------------------------------

    def frames(self, start: Address | None = None) -> Iterator[Frame]:
        """BATCH frames in order, from a frame's address (or the oldest) to the end as last seen.

        Raises:
            CorruptLog: damage on the way.
        """
        here = start or Address(self.manifest.first_segment, SEGMENT_HEADER_BYTES)
        for segment_id in range(here.segment_id, self._newest + 1):
            reader = self.reader(segment_id)
            byte = here.byte if segment_id == here.segment_id else SEGMENT_HEADER_BYTES
            try:
                for at, header in reader.frames(byte, self.segment_end(segment_id)):
                    if header.type == FrameType.BATCH:
                        yield Frame(Address(segment_id, at), header)
            except BadFrame as error:
                raise refusal(reader, error.bad) from None

    def frame_at(self, address: Address) -> Frame:
        """The BATCH frame at an address that the log itself names.

        Raises:
            CorruptLog: there is none.
        """
        reader = self.reader(address.segment_id)
        try:
            header = reader.header_at(address.byte)
            if header.type != FrameType.BATCH:
                raise BadHeader(f"expected records, found a frame of type {header.type}")
        except BadHeader as error:
            raise CorruptLog(reader.path, address.byte, str(error)) from None
        return Frame(address, header)

    def before(self, frame: Frame) -> Frame | None:
        """The stream's previous frame; ``None`` before the first.

        Raises:
            CorruptLog: what stands there is not the previous frame.
            OutOfRange: it is trimmed.
        """
        header = frame.header
        if header.prev_segment == NONE:
            return None
        previous = self.frame_at(Address(header.prev_segment, header.prev_byte))
        expected = (header.seq - 1, header.first_offset)
        if (previous.header.seq, previous.header.end_offset) != expected:
            path = self.reader(header.prev_segment).path
            raise CorruptLog(path, header.prev_byte, f"not the frame before number {header.seq}")
        return previous

    def last(self) -> Frame | None:
        """The newest frame; ``None`` in a queue without records."""
        return self.frame_at(self.end.last) if self.end.last else None

    def records(self, frame: Frame, backward: bool = False) -> pa.RecordBatch:
        """A frame's records, checksum and structure proven.

        Raises:
            CorruptLog: they are damaged.
        """
        reader, header = self.reader(frame.address.segment_id), frame.header
        try:
            body = reader.body_at(frame.address.byte, header, backward)
            schema = reader.schema(header)
            return decode_body(body, header.codec, header.raw_bytes, schema, header.record_count)
        except BadHeader as error:
            raise CorruptLog(reader.path, frame.address.byte, str(error)) from None

    # -- searching without an index -----------------------------------------------------------

    def find_offset(self, offset: int) -> Frame | None:
        """The frame that holds record ``offset``; ``None`` at the end.

        Raises:
            OutOfRange: trimmed, or beyond the end.
        """
        if offset < self.first_offset() or offset > self.end.offset:
            raise OutOfRange(
                f"{self.folder.path}: offset {offset} is not in "
                f"{self.first_offset()} … {self.end.offset}"
            )
        start = self._last_segment_from(lambda segment_id: self.first_offset(segment_id) <= offset)
        for frame in self.frames(Address(start, SEGMENT_HEADER_BYTES)):
            if offset < frame.header.end_offset:
                return frame
        return None

    def find_seq(self, seq: int) -> Frame:
        """The frame of this number.

        Raises:
            OutOfRange: trimmed, or not there yet.
        """
        first = self._schema_frame(self.manifest.first_segment).seq
        if first <= seq < self.end.seq:
            start = self._last_segment_from(lambda s: self._schema_frame(s).seq <= seq)
            for frame in self.frames(Address(start, SEGMENT_HEADER_BYTES)):
                if frame.header.seq == seq:
                    return frame
        raise OutOfRange(f"{self.folder.path}: frame {seq} is not in {first} … {self.end.seq - 1}")

    def find_timestamp(self, timestamp_us: int, start: Address | None = None) -> Frame | None:
        """The first frame that can hold a record at or after the moment; ``None`` at the end."""
        for frame in self.frames(start):
            if frame.header.max_timestamp_us >= timestamp_us:
                return frame
        return None

    def _last_segment_from(self, holds: Callable[[int], bool]) -> int:
        """The last segment for which ``holds``; it holds for a run from the first on."""
        low, high = self.manifest.first_segment, self._newest
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if holds(middle) else (low, middle - 1)
        return low
