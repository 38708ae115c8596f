"""Segments in order, each building on the one before: how every log is read.

A queue's is its whole chain of segments; a state log has one for each version, out of a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.bodies import decode_body, decode_together
from cec_store.format.frame import (
    NONE,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
)
from cec_store.format.records import concat
from cec_store.format.scan import refusal
from cec_store.format.schema import RecordSchema
from cec_store.log.frames import Frame, LogEnd
from cec_store.log.positions import Bounds
from cec_store.log.segment import BadFrame, SegmentReader
from cec_store.storage.folder import Folder
from cec_store.values import Address

_Found = TypeVar("_Found")


class FrameLookup(Protocol):
    """Finds frames: an index, or a scan of the headers (the log itself)."""

    def find_timestamp(self, timestamp_us: int) -> Frame | None:
        """The first frame that can hold a record at or after the moment; ``None`` at the end."""

    def find_offset(self, offset: int) -> Frame | None:
        """The frame that holds the record; ``None`` at the end."""


class ReplayedLog(FrameLookup, Protocol):
    """Log that can be replayed: :class:`LogReader`, or a partition of a partitioned queue."""

    @property
    def path(self) -> str:
        """Return the path that errors name."""

    @property
    def end(self) -> LogEnd: ...

    @property
    def segments(self) -> Sequence[int]: ...

    @property
    def queue_id(self) -> str: ...

    @property
    def partition(self) -> int: ...

    def bounds(self) -> Bounds: ...

    def refresh(self) -> LogEnd: ...

    def schema(self) -> RecordSchema: ...

    def first_offset(self, segment_id: int | None = None) -> int: ...

    def frames(self, start: Address | None = None) -> Iterator[Frame]: ...

    def records(self, frame: Frame, *, columns: Sequence[str] | None = None) -> pa.RecordBatch: ...


class LogReader(ABC):
    """Reads frames and records. Subclasses say which segments there are and where each ends."""

    folder: Folder
    partition = 0

    @property
    def path(self) -> str:
        return self.folder.path

    @property
    def queue_id(self) -> str:
        """Id of the log: 32 hex digits."""
        return self.reader(self.segments[-1]).header.log_id.hex()

    @property
    def written_offset(self) -> int:
        """Offset behind the last whole step, vouched for or not."""
        return self.end.offset

    def bounds(self) -> Bounds:
        """Return the offsets between which a reader can go on, as of the last look."""
        return Bounds(self.path, self.queue_id, self.first_offset(), self.written_offset)

    @property
    @abstractmethod
    def end(self) -> LogEnd:
        """End of the readable log at the last look."""

    @abstractmethod
    def refresh(self) -> LogEnd:
        """Look again how far the log reaches."""

    @property
    @abstractmethod
    def segments(self) -> Sequence[int]:
        """Numbers of the segments that exist, oldest first."""

    @abstractmethod
    def reader(self, segment_id: int) -> SegmentReader:
        """A reader of one segment of this log."""

    @abstractmethod
    def segment_end(self, segment_id: int) -> int:
        """Return how many bytes of the segment belong to the log."""

    def _segments_from(self, segment_id: int) -> Iterable[int]:
        """This segment and those behind it."""
        return self.segments[self.segments.index(segment_id) :]

    # -- where the stream stands --------------------------------------------------------------

    def _schema_frame(self, segment_id: int) -> FrameHeader:
        """A segment's first frame: it knows where the stream stood when the segment began."""
        reader = self.reader(segment_id)
        try:
            header = reader.header_at(SEGMENT_HEADER_BYTES)
            if header.type != FrameType.SCHEMA:
                raise BadHeader("a segment starts with its schema")
            return header
        except BadHeader as error:
            raise refusal(reader.path, SEGMENT_HEADER_BYTES, error) from None

    def first_offset(self, segment_id: int | None = None) -> int:
        """Offset of the first record of a segment; of the oldest by default."""
        oldest = self.segments[0] if segment_id is None else segment_id
        return self._schema_frame(oldest).first_offset

    def schema(self) -> RecordSchema:
        """The record schema in force at the end."""
        reader = self.reader(self.segments[-1])
        try:
            return reader.schema(reader.header_at(SEGMENT_HEADER_BYTES))
        except BadHeader as error:
            raise refusal(reader.path, SEGMENT_HEADER_BYTES, error) from None

    # -- frames -------------------------------------------------------------------------------

    def frames(self, start: Address | None = None) -> Iterator[Frame]:
        """BATCH frames in order, from a frame's address (or the oldest) to the end as last seen.

        Raises:
            CorruptLog: damage on the way.
        """
        here = start or Address(self.segments[0], SEGMENT_HEADER_BYTES)
        batch = FrameType.BATCH.value  # looked up for each frame
        for segment_id in self._segments_from(here.segment_id):
            reader = self.reader(segment_id)
            byte = here.byte if segment_id == here.segment_id else SEGMENT_HEADER_BYTES
            last: Frame | None = None
            try:
                for at, header in reader.frames(byte, self.segment_end(segment_id)):
                    if header.type == batch:
                        last = Frame(Address(segment_id, at), header)
                        yield last
            except BadFrame as error:
                raise error.bad.refusal(reader.path) from None
            if last is not None and last.header.continues:
                raise CorruptLog(
                    reader.path, last.next_address.byte, "the segment ends within a step"
                )

    def frame_at(self, address: Address, back_from: int | None = None) -> Frame:
        """The BATCH frame at an address that the log itself names.

        ``back_from``: as :meth:`SegmentReader.header_at` has it.

        Raises:
            CorruptLog: there is none.
        """
        reader = self.reader(address.segment_id)
        try:
            header = reader.header_at(address.byte, back_from)
            if header.type != FrameType.BATCH:
                raise BadHeader(f"expected records, found a frame of type {header.type}")
        except BadHeader as error:
            raise refusal(reader.path, address.byte, error) from None
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
        is_same = header.prev_segment == frame.address.segment_id
        back_from = frame.address.byte if is_same else None
        previous = self.frame_at(Address(header.prev_segment, header.prev_byte), back_from)
        expected = (header.seq - 1, header.first_offset)
        if (previous.header.seq, previous.header.end_offset) != expected:
            path = self.reader(header.prev_segment).path
            raise CorruptLog(path, header.prev_byte, f"not the frame before number {header.seq}")
        if previous.header.continues and header.prev_segment != frame.address.segment_id:
            path = self.reader(header.prev_segment).path
            raise CorruptLog(path, header.prev_byte, "the segment ends within a step")
        return previous

    def last(self) -> Frame | None:
        """The newest frame; ``None`` in a log without records."""
        return self.frame_at(self.end.last) if self.end.last else None

    def records(
        self,
        frame: Frame,
        backward: bool = False,
        columns: Sequence[str] | None = None,
        keep_dictionaries: bool = False,
    ) -> pa.RecordBatch:
        """A frame's records, or these columns of them, checksum and structure proven.

        ``keep_dictionaries``: strings that are stored as dictionaries come as such, which differs
        from frame to frame.

        Raises:
            CorruptLog: they are damaged.
        """
        body = self.body(frame, backward)
        return self._decoded(frame, body, columns, keep_dictionaries)

    def body(self, frame: Frame, backward: bool = False) -> pa.Buffer:
        """A frame's body as it is stored, its checksum proven.

        Raises:
            CorruptLog: it is damaged.
        """
        reader = self.reader(frame.address.segment_id)
        try:
            return reader.body_at(frame.address.byte, frame.header, backward)
        except BadHeader as error:
            raise refusal(reader.path, frame.address.byte, error) from None

    def records_of(self, frames: Sequence[tuple[Frame, pa.Buffer]]) -> pa.RecordBatch:
        """The records of frames that follow on one another, as one batch.

        Each frame comes with what :meth:`body` returned. It costs by record and not by frame.

        Raises:
            CorruptLog: they are damaged.
        """
        if len(frames) > 1:
            segments = {frame.address.segment_id for frame, _ in frames}
            schemas = {frame.header.schema_byte for frame, _ in frames}
            if len(segments) == len(schemas) == 1:
                together = self._decoded_together(frames)
                if together is not None:
                    return together
        return concat([self._decoded(frame, body) for frame, body in frames])

    def _decoded_together(self, frames: Sequence[tuple[Frame, pa.Buffer]]) -> pa.RecordBatch | None:
        first, _ = frames[0]
        reader = self.reader(first.address.segment_id)
        try:
            schema = reader.schema(first.header)
        except BadHeader as error:
            raise refusal(reader.path, first.address.byte, error) from None
        return decode_together([(frame.header, body) for frame, body in frames], schema)

    def _decoded(
        self,
        frame: Frame,
        body: pa.Buffer,
        columns: Sequence[str] | None = None,
        keep_dictionaries: bool = False,
    ) -> pa.RecordBatch:
        reader, header = self.reader(frame.address.segment_id), frame.header
        try:
            schema = reader.schema(header)
            return decode_body(
                body, header.codec, header.raw_bytes, schema, header.record_count, columns,
                keep_dictionaries,
            )  # fmt: skip
        except BadHeader as error:
            raise refusal(reader.path, frame.address.byte, error) from None

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
        number = bisect_right(self.segments, offset, lo=1, key=self.first_offset) - 1
        start = Address(self.segments[number], SEGMENT_HEADER_BYTES)
        return next((f for f in self.frames(start) if offset < f.header.end_offset), None)

    def find_seq(self, seq: int) -> Frame:
        """The frame of this number.

        Raises:
            OutOfRange: trimmed, or not there yet.
        """
        first = self._schema_frame(self.segments[0]).seq
        if first <= seq < self.end.seq:
            number = bisect_right(
                self.segments, seq, lo=1, key=lambda segment_id: self._schema_frame(segment_id).seq
            )
            for frame in self.frames(Address(self.segments[number - 1], SEGMENT_HEADER_BYTES)):
                if frame.header.seq == seq:
                    return frame
        raise OutOfRange(f"{self.folder.path}: frame {seq} is not in {first} … {self.end.seq - 1}")

    def find_timestamp(self, timestamp_us: int, start: Address | None = None) -> Frame | None:
        """The first frame that can hold a record at or after the moment; ``None`` at the end."""
        frames = self.frames(start)
        return next((f for f in frames if f.header.max_timestamp_us >= timestamp_us), None)


def despite_trims(log: ReplayedLog, search: Callable[[], _Found]) -> _Found:
    """Return what ``search`` finds, repeated where a segment that it passed was trimmed meanwhile.

    Raises:
        OutOfRange: from ``search``, while nothing was trimmed.
    """
    while True:
        first = log.segments[0]
        try:
            return search()
        except OutOfRange:
            log.refresh()
            if log.segments[0] == first:
                raise
