"""Reading a queue again from a moment or a position, to its end or along with its writer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import OutOfRange
from cec_store.format.arrow_values import as_others_read
from cec_store.format.columns import values_of
from cec_store.format.frame import SEGMENT_HEADER_BYTES
from cec_store.format.records import empty_batch
from cec_store.format.schema import KEY, KIND, STATE, TIMESTAMP
from cec_store.log.frames import Frame
from cec_store.log.positions import check_queue, checked
from cec_store.log.reader import FrameLookup, ReplayedLog, despite_trims
from cec_store.log.selection import METADATA_COLUMNS, Moment, Selection
from cec_store.values import (
    MAX_TIMESTAMP_US,
    MIN_TIMESTAMP_US,
    Address,
    Position,
    to_timestamp_us,
)

_POLL_S = 0.01


def offset_at(chain: ReplayedLog, lookup: FrameLookup, moment: Moment) -> int:
    """Offset of the earliest record whose timestamp is at or after the moment, of any kind.

    The end where there is none. A :class:`Position` is taken as it is. (As ``offsetsForTimes`` in
    Kafka: with timestamps that go backward, records behind it may be earlier than the moment.)
    """
    if isinstance(moment, Position):
        return moment.offset
    timestamp_us = to_timestamp_us(moment)

    def search() -> int:
        frame = lookup.find_timestamp(timestamp_us)
        if frame is None:
            return chain.end.offset
        row = _first_at_or_after(chain.records(frame, columns=[TIMESTAMP]), timestamp_us)
        return frame.header.first_offset + row

    return despite_trims(chain, search)


def _first_at_or_after(records: pa.RecordBatch, timestamp_us: int) -> int:
    """The first row at or after the moment; the number of rows where there is none."""
    times = values_of(records.column(TIMESTAMP), "i8")
    late = times >= timestamp_us
    return int(late.argmax()) if late.any() else records.num_rows


@dataclass(frozen=True)
class _Times:
    """The moments that are asked for: ``low_us`` to ``high_us``, both included."""

    low_us: int
    high_us: int

    @classmethod
    def of(cls, selection: Selection) -> _Times:
        since, until = selection.since, selection.until
        low_us, high_us = MIN_TIMESTAMP_US, MAX_TIMESTAMP_US
        if since is not None and not isinstance(since, Position):
            low_us = to_timestamp_us(since)
        if until is not None and not isinstance(until, Position):
            high_us = to_timestamp_us(until) - 1
        return cls(low_us, high_us)

    def may_be_in(self, frame: Frame) -> bool:
        """Return whether a frame can hold a record of these moments, by its header."""
        header = frame.header
        return header.min_timestamp_us <= self.high_us and header.max_timestamp_us >= self.low_us

    def hold_all_of(self, frame: Frame) -> bool:
        """Return whether all of its records are of these moments."""
        header = frame.header
        return self.low_us <= header.min_timestamp_us and header.max_timestamp_us <= self.high_us

    def wanted(self, records: pa.RecordBatch) -> pa.BooleanArray:
        """Return True for each record that is of these moments."""
        times = values_of(records.column(TIMESTAMP), "i8")
        return pa.array((times >= self.low_us) & (times <= self.high_us))


def _stop_offset(selection: Selection) -> int | None:
    """The record before which to end; ``None``: at the end of the log."""
    until = selection.until
    stops = [until.offset] if isinstance(until, Position) else []
    stops += [] if selection.end_offset is None else [selection.end_offset]
    return min(stops, default=None)


class Replay(Iterator[pa.RecordBatch]):
    """Arrow batches of a queue's records, one frame each, in order.

    Without ``follow`` there is at least one: without rows, where there is none to return.

    :attr:`cursor` is the next unread position after the batch last returned; store it by
    :meth:`Position.to_json` and pass it as ``from_moment``, beside the same ``since`` and
    ``until``, to go on from there. One thread iterates; any may call :meth:`stop`, which sets the
    event ``_stopped``.

    Examples:
        >>> replay = open_queue("queues/trades").replay()
        >>> next(replay).num_rows, replay.cursor.offset
        (3, 3)
    """

    def __init__(self, chain: ReplayedLog, lookup: FrameLookup, selection: Selection) -> None:
        self._chain = chain
        self._lookup = lookup
        self._selection = selection
        self._stopped = Event()
        self._kinds = pa.array(sorted(int(kind) for kind in selection.kinds), pa.uint8())
        self._times = _Times.of(selection)
        self._stop_offset = _stop_offset(selection)
        self.cursor = self._position(self._start())
        """The next unread record."""
        schema = chain.schema()
        extra = [n for n in (KEY, STATE) if selection.include_state and n in schema.arrow.names]
        self._names = [*selection.of_columns(schema.data, chain.path), *extra]
        self._empty = self._select(empty_batch(schema.arrow), 0, True)
        self.schema: pa.Schema = self._empty.schema
        """Schema of every batch."""
        self._batches = self._run()

    def _start(self) -> int:
        """The first record that can be wanted."""
        moments = (self._selection.since, self._selection.from_moment)
        for position in self._selection.positions():
            check_queue(position.queue, self._chain.path, self._chain.queue_id)
        starts = [offset_at(self._chain, self._lookup, m) for m in moments if m is not None]
        return max(starts) if starts else despite_trims(self._chain, self._chain.first_offset)

    def _position(self, offset: int) -> Position:
        return Position(offset, self._chain.partition, self._chain.queue_id)

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def read_all(self) -> pa.Table:
        """Return the rest as one table; of a replay that follows, once it is stopped."""
        return pa.Table.from_batches(self, self.schema)

    def stop(self) -> None:
        """End a replay that follows the writer, from any thread."""
        self._stopped.set()

    def _run(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches; begin again where a trim overtakes the start."""
        while True:
            batches = self._from_cursor()
            try:
                first = next(batches, None)
            except OutOfRange:
                if not self._begins_again():
                    raise
                continue
            if first is not None:
                yield first
                yield from batches
            return

    def _begins_again(self) -> bool:
        """Go to where the replay would begin now; ``False`` where a position says where."""
        moments = (self._selection.since, self._selection.from_moment)
        if any(isinstance(moment, Position) for moment in moments):
            return False
        self._chain.refresh()
        before, self.cursor = self.cursor, self._position(self._start())
        return self.cursor.offset > before.offset

    def _from_cursor(self) -> Iterator[pa.RecordBatch]:
        here = self._locate(self._lookup)
        has_rows = False
        while not self._stopped.is_set():
            for frame in self._chain.frames(here) if here else ():
                here = frame.next_address
                records = self._wanted_part(frame)
                if records is not None:
                    has_rows = True
                    yield records
                if self._stopped.is_set() or self._at_limit():
                    break
            else:
                if self._selection.follow:
                    here = self._wait_for_more(here)
                    continue
            break
        if not has_rows and not self._selection.follow:
            yield self._empty

    def _locate(self, lookup: FrameLookup) -> Address | None:
        if self._is_beyond_end():
            return None
        frame = despite_trims(self._chain, lambda: lookup.find_offset(self.cursor.offset))
        return frame.address if frame else None

    def _is_beyond_end(self) -> bool:
        """Return whether a writer has yet to show what was read before a power cut.

        Raises:
            OutOfRange: the log does not hold it.
        """
        is_beyond = self.cursor.offset > self._chain.end.offset
        if is_beyond:
            checked(self.cursor, self._chain.bounds())
        return is_beyond

    def _wait_for_more(self, here: Address | None) -> Address | None:
        """Return the address to go on at once the log has grown; ``None`` if stopped before.

        ``here`` is where the last frame ended; the newest frames may stand in a new segment.
        """
        while not self._stopped.is_set():
            if self._chain.refresh().offset > self.cursor.offset:
                return self._behind(here) or self._locate(self._chain)
            self._is_beyond_end()
            self._stopped.wait(_POLL_S)
        return None

    def _behind(self, here: Address | None) -> Address | None:
        """Return the address of the next frame; ``None`` where that takes a search."""
        segments = self._chain.segments
        if here is None or here.segment_id < segments[0]:
            return None
        try:
            # A segment that is read to its last record may be trimmed at any time.
            for segment_id in segments[bisect_right(segments, here.segment_id) :]:
                if self._chain.first_offset(segment_id) > self.cursor.offset:
                    break
                here = Address(segment_id, SEGMENT_HEADER_BYTES)
        except OutOfRange:
            return None
        return here

    def _wanted_part(self, frame: Frame) -> pa.RecordBatch | None:
        """The frame's rows from the cursor to the limit, of the times and kinds asked for."""
        first, end = frame.header.first_offset, frame.header.end_offset
        if end <= self.cursor.offset:
            return None
        if self._stop_offset is not None:
            end = min(end, self._stop_offset)
        start = max(first, self.cursor.offset)
        end = max(start, end)
        part = None
        if self._times.may_be_in(frame) and start < end:
            is_all_of_time = self._times.hold_all_of(frame)
            records = self._chain.records(frame, columns=self._needed(is_all_of_time))
            part = records.slice(start - first, end - start)
            part = self._select(part, start, is_all_of_time)
        self.cursor = self._position(end)
        return part if part is not None and part.num_rows else None

    def _at_limit(self) -> bool:
        return self._stop_offset is not None and self.cursor.offset >= self._stop_offset

    def _select(
        self, records: pa.RecordBatch, first_offset: int, is_all_of_time: bool
    ) -> pa.RecordBatch:
        columns = self._columns(records)
        if self._selection.include_metadata:
            timestamp, kind, offset = METADATA_COLUMNS
            for column in (timestamp, kind):
                columns = columns.append_column(column.name, records.column(column.name))
            offsets = np.arange(first_offset, first_offset + records.num_rows)
            columns = columns.append_column(offset.name, pa.array(offsets))
        is_wanted = self._wanted(records)
        if not is_all_of_time:
            is_wanted = pc.and_(is_wanted, self._times.wanted(records))
        chosen = columns if pc.all(is_wanted, min_count=0).as_py() else columns.filter(is_wanted)
        return as_others_read(chosen)

    def _needed(self, is_all_of_time: bool) -> list[str] | None:
        """The columns of a frame that are looked at; others are not even decompressed."""
        has_times = self._selection.include_metadata or not is_all_of_time
        return [KIND, *([TIMESTAMP] if has_times else []), *self._names]

    def _columns(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that are asked for, besides the metadata."""
        return records.select(self._names)

    def _wanted(self, records: pa.RecordBatch) -> pa.BooleanArray:
        """Return True for each row whose kind is asked for."""
        return pc.is_in(records.column(KIND), self._kinds)
