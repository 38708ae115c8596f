"""One partition of a partitioned queue, as a log that can be replayed.

A segment is read as one: what a commit says of it takes the place of a frame's header, so that
one without a wanted record, by its offsets or its timestamps, costs no request. docs/format.md §11.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.frame import FrameHeader, FrameType
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.frames import Frame, LogEnd
from cec_store.log.positions import Bounds
from cec_store.partitioned.by_reference.segment_objects import read_segment
from cec_store.values import Address


class _SegmentFrame(Frame):
    """A segment as one frame. Its address is an offset: segments are merged while one reads."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> _SegmentFrame:
        header = FrameHeader(
            type=FrameType.BATCH, first_offset=row["first_offset"], record_count=row["records"],
            min_timestamp_us=row["least_us"], max_timestamp_us=row["greatest_us"],
        )  # fmt: skip
        return cls(Address(header.first_offset, 0), header)

    @property
    def next_address(self) -> Address:
        return Address(self.header.end_offset, 0)


class PartitionLog:
    """A partition after some commit. Its segments are numbered by their first offsets.

    For one thread.
    """

    def __init__(
        self, log: ReferenceLog, state: QueueState, schema: RecordSchema, number: int
    ) -> None:
        self._log = log
        self._schema = schema
        self._number = number
        self._take(state)

    def _take(self, state: QueueState) -> None:
        self._state = state
        commit = state.commit
        is_there = self._number < len(commit.ends)
        self._start = commit.starts[self._number] if is_there else 0
        self._end = commit.ends[self._number] if is_there else 0
        rows = state.segments_of(self._number)
        self._rows: list[dict[str, Any]] = rows.filter(pc.greater(rows["records"], 0)).to_pylist()
        self.segments: Sequence[int] = [row["first_offset"] for row in self._rows] or [self._end]
        """First offsets, the oldest segment's first; where there are none, the end."""
        self._greatest_us = np.array([row["greatest_us"] for row in self._rows], np.int64)

    @property
    def path(self) -> str:
        return f"{self._log.store.url}: partition {self._number}"

    @property
    def queue_id(self) -> str:
        return self._state.log_id.hex()

    @property
    def partition(self) -> int:
        return self._number

    def bounds(self) -> Bounds:
        """Return the offsets between which a reader can go on, as of the last look."""
        return Bounds(self.path, self.queue_id, self._start, self._end)

    @property
    def end(self) -> LogEnd:
        """End of the partition at the last look."""
        here = Address(self._end, 0)
        return LogEnd(self._state.number, self._end, here, None)

    def refresh(self) -> LogEnd:
        """Look again how far it reaches."""
        state = self._log.refresh(self._state)
        if state is not self._state:
            self._take(state)
        return self.end

    def schema(self) -> RecordSchema:
        return self._schema

    def first_offset(self, segment_id: int | None = None) -> int:
        """Offset of the first record of a segment; of the oldest that is left by default."""
        return self._start if segment_id is None else segment_id

    def frames(self, start: Address | None = None) -> Iterator[Frame]:
        """Its segments in order, each as one frame; from that on which holds the start's offset."""
        here, state = start, None
        while state is not self._state:
            state = self._state
            at = 0 if here is None else max(0, bisect_right(self.segments, here.segment_id) - 1)
            for frame in map(_SegmentFrame.of, self._rows[at:]):
                if here is None or frame.header.end_offset > here.segment_id:
                    here = frame.next_address
                    yield frame
                if state is not self._state:
                    break  # the segments behind it may have been merged as well

    def records(self, frame: Frame, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """All records of a segment, or these columns of them; one request.

        A segment that was merged, and deleted, since this log was looked at is read from those that
        have its records now.

        Raises:
            CorruptLog: they are damaged or missing.
            OutOfRange: they are trimmed, and deleted.
        """
        first, end = frame.header.first_offset, frame.header.end_offset
        rows = self._rows_of(first, end)
        while True:
            try:
                return self._read(rows, first, end, columns)
            except CorruptLog:
                self.refresh()
                newer = self._rows_of(first, end)
                named = {(row["file"], row["byte"]) for row in newer}
                if named.issuperset((row["file"], row["byte"]) for row in rows):
                    raise
                rows = newer

    def _rows_of(self, first: int, end: int) -> list[dict[str, Any]]:
        """The segments with these records."""
        at = max(0, bisect_right(self.segments, first) - 1)
        rows = self._rows[at : bisect_left(self.segments, end)]
        if not rows or rows[0]["first_offset"] > first:
            raise OutOfRange(
                f"{self.path}: offset {first} is not in {self._start} … {self._end}: it was "
                "trimmed while it was read"
            )
        return rows

    def _read(
        self, rows: list[dict[str, Any]], first: int, end: int, columns: Sequence[str] | None
    ) -> pa.RecordBatch:
        parts = [
            part
            for row in rows
            for part in read_segment(
                self._log.store.url, self._log.read, row, self._schema, columns
            )
        ]
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        start = first - rows[0]["first_offset"]
        return whole if whole.num_rows == end - first else whole.slice(start, end - first)

    # -- searching ----------------------------------------------------------------------------

    def find_timestamp(self, timestamp_us: int) -> Frame | None:
        """The first segment that can hold a record at or after the moment; ``None`` at the end."""
        late = np.flatnonzero(self._greatest_us >= timestamp_us)
        return _SegmentFrame.of(self._rows[int(late[0])]) if len(late) else None

    def find_offset(self, offset: int) -> Frame | None:
        """The segment that holds the record; ``None`` at the end.

        Raises:
            OutOfRange: trimmed, or beyond the end.
        """
        if not self._start <= offset <= self._end:
            raise OutOfRange(f"{self.path}: offset {offset} is not in {self._start} … {self._end}")
        at = bisect_right(self.segments, offset) - 1
        if at < 0 or not self._rows or offset == self._end:
            return None
        return _SegmentFrame.of(self._rows[at])
