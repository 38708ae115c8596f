"""Reads a queue of any kind by offsets: one process says which ranges, any number read them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from cec_store.errors import CecError, NotAQueue, QueueReplaced
from cec_store.format.schema import KEY, KIND, STATE, TIMESTAMP, RecordKind
from cec_store.ledger.commit_chain import ledger_at
from cec_store.log.positions import Behind, Range, check_queue
from cec_store.log.selection import METADATA_COLUMNS, PARTITION_COLUMN, Selection
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.holding import Holding, hold
from cec_store.partitioned.offsets import (
    Admission,
    AvailableOffsets,
    Offsets,
    Positions,
    cut,
)
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.partitioned.read_options import ReadOptions
from cec_store.storage.folder import FolderTree
from cec_store.storage.stores.folders import folder_at
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Position, to_timestamp_us

_log = logging.getLogger(__name__)
ALL_MOMENTS_US = (MIN_TIMESTAMP_US, MAX_TIMESTAMP_US)
_KIND_NAMES = pa.array([None, *(kind.name.lower() for kind in RecordKind)])


def queue_in(folder: FolderTree) -> PlainQueue | ReferenceQueue:
    """A queue of any kind, to read by partition.

    Raises:
        NotAQueue: there is none.
        CorruptLog, UnsupportedVersion: it cannot be read.
    """
    ledger = ledger_at(folder)
    if ledger is not None and not ledger.has_one_writer:
        return ReferenceQueue(ledger.store, ledger)
    return PlainQueue(folder, ledger)


def columns_of(options: ReadOptions) -> pa.Schema:
    """Return the schema of the rows; raises :class:`NotAQueue` where there is no queue."""
    with closing(queue_in(folder_at(options.path, options.storage))) as queue:
        stored = queue.schema
    fields = list(stored.data)
    if options.has_control_records:
        fields += [column for column in stored.arrow if column.name in (KEY, STATE)]
    if options.include_metadata:
        timestamp, kind, offset = METADATA_COLUMNS
        fields += [PARTITION_COLUMN, offset, timestamp, kind.with_type(pa.string())]
    return pa.schema(fields)


def read(options: ReadOptions, piece: Range, queue_id: str) -> Iterator[pa.RecordBatch]:
    """Return the rows of one range, in order.

    Raises:
        QueueReplaced: the queue of this id is not there any more.
    """
    selection = Selection(
        Position(piece.start), Position(piece.stop), options.kinds,
        options.include_metadata, options.has_control_records,
    )  # fmt: skip
    with closing(queue_in(folder_at(options.path, options.storage))) as queue:
        check_queue(queue_id, queue.path, queue.queue_id)
        for batch in queue.replay(piece.partition, selection):
            if options.include_metadata:
                place = batch.schema.get_field_index(KIND)
                batch = batch.set_column(place, KIND, _KIND_NAMES.take(batch.column(KIND)))
            yield batch


class QueueReader:
    """Says what a query reads of a queue. For one thread."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises :class:`NotAQueue` where there is none."""
        self._options = options
        self._folder = folder_at(options.path, options.storage)
        self.queue = queue_in(self._folder)

    def ends(self) -> Offsets:
        """Return where the queue ends now.

        Raises:
            QueueReplaced, NotAQueue: it is not there any more.
        """
        if isinstance(self.queue, ReferenceQueue):
            self.queue.refresh()
        return self.queue.ends()

    def _available(self) -> AvailableOffsets:
        queue, ends = self.queue, self.ends()
        firsts = {number: queue.first(number) for number in ends}
        # A plain queue may grow meanwhile; then both are true.
        written = queue.written()
        return AvailableOffsets(
            queue.path, queue.queue_id, firsts, ends, written, queue.offset_at, self._has_behind,
            self._options.fail_on_data_loss,
        )  # fmt: skip

    def _has_behind(self, behind: Behind) -> bool:
        return self.queue.has_behind(behind)

    def starting(self) -> Offsets:
        """Return where a new query begins; raises as :meth:`.offsets.AvailableOffsets.starting`."""
        return self._starting(self._available())

    def _starting(self, available: AvailableOffsets) -> Offsets:
        is_latest = self._options.start_without_match_is_latest
        return available.starting(self._options.starting, without_match_is_latest=is_latest)

    def narrowed(
        self, span_us: tuple[int, int], column: str, moment: Any, is_least: bool, is_greatest: bool
    ) -> tuple[int, int]:
        """The moments that are left where only rows with this in a column are wanted."""
        is_time = column == self.queue.schema.timestamp_column
        if not (is_time or (column == TIMESTAMP and self._options.include_metadata)):
            return span_us
        try:
            moment_us = to_timestamp_us(moment)
        except (TypeError, ValueError):
            return span_us  # rows are filtered again
        low_us, high_us = span_us
        return (
            max(low_us, moment_us) if is_least else low_us,
            min(high_us, moment_us) if is_greatest else high_us,
        )

    def ranges(self, span_us: tuple[int, int]) -> list[Range]:
        """Return the ranges that a batch query reads, cut for tasks.

        ``span_us`` has the first and the last moment of the rows that are needed, in microseconds
        since 1970; a range may hold others too.
        """
        available = self._available()
        starts, ends = self._starting(available), available.ending(self._options.ending)
        return self._cut(
            Range(number, *self.queue.narrowed(number, start, ends[number], *span_us))
            for number, start in sorted(starts.items())
        )

    def _cut(self, ranges: Iterable[Range]) -> list[Range]:
        options = self._options
        return cut(list(ranges), options.min_partitions, options.max_records_per_partition)

    def close(self) -> None:
        """Let go of the queue."""
        self.queue.close()


class StreamReader(QueueReader):
    """Says what a query reads that goes on for ever, batch by batch."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises :class:`NotAQueue` where there is none."""
        super().__init__(options)
        self._last: Offsets | None = None
        self._seen: Offsets = {}
        """Offsets at which the queue ended at the last look."""
        self._holding: Holding | None = None
        self._is_gone = False
        self._proven: deque[Behind | None] = deque(maxlen=4)
        """Commits of positions that were given out or proven here."""
        self._admission = Admission(
            options.min_offsets_per_trigger, options.max_offsets_per_trigger,
            options.max_trigger_delay_s, time.monotonic,
        )  # fmt: skip

    def _available(self) -> AvailableOffsets:
        available = super()._available()
        self._seen = available.ends
        return available

    def _position(self, offsets: Offsets) -> Positions:
        behind = self.queue.behind(offsets)
        self._proven.append(behind)
        return Positions(self.queue.queue_id, offsets, behind)

    def _has_behind(self, behind: Behind) -> bool:
        # From there on the queue is followed, each commit proving the one before.
        if behind not in self._proven:
            if not super()._has_behind(behind):
                return False
            self._proven.append(behind)
        return True

    def begin(self) -> Positions:
        """Return where a new query begins; a restarted one goes on from its checkpoint."""
        start = self.starting()
        self._hold(start)
        return self._position(start)

    def reached(self) -> Positions:
        """Return where the queue ends now, for people."""
        self._is_there()
        return Positions(self.queue.queue_id, self._seen)

    def end_here(self) -> None:
        """Leave what comes later to the next run."""
        self._is_there()
        self._last = self._seen

    def _is_there(self) -> bool:
        """Look how far the queue reaches, and return whether one is there.

        Where loss is allowed, a stream goes on with whatever stands in the queue's place, as
        Kafka's does with a topic that was made anew.

        Raises:
            QueueReplaced, NotAQueue: it is gone, and ``failOnDataLoss`` is on; or what is there has
                other columns.
        """
        try:
            self._seen = self.ends()
        except (QueueReplaced, NotAQueue) as error:
            if self._options.fail_on_data_loss:
                raise
            was_gone, self._is_gone = self._is_gone, not self._is_reopened(error)
            if not (was_gone and self._is_gone):
                _log.warning("%s; going on with what is there", error)
        else:
            self._is_gone = False
        return not self._is_gone

    def _is_reopened(self, error: CecError) -> bool:
        """Take the queue that is there now, if one is; raises the error for other columns."""
        try:
            queue = queue_in(self._folder)
        except NotAQueue:
            return False
        if not self.queue.schema.is_as(queue.schema):
            queue.close()
            raise error
        self.close()
        self.queue, self._holding = queue, None
        self._proven.clear()
        self._seen = super().ends()
        if self._last is not None:
            self._last = self._seen
        return True

    def next_end(self, start: Positions, *, takes_all: bool) -> Positions:
        """Return the end of the batch that begins at ``start``; all below has been processed.

        Raises:
            QueueReplaced, OutOfRange: as :meth:`.offsets.AvailableOffsets.resumed`.
        """
        if not self._is_there():
            return start
        available = self._available()
        begin, ends = available.resumed(start), available.ends
        # A recovery may end with this call: the consumer must be held before it acknowledges.
        self._hold(self._shown(begin), is_done=True)
        self.acknowledge(Positions(self.queue.queue_id, begin))
        if self._last is not None:
            ends = {number: self._last.get(number, begin[number]) for number in ends}
        # A writer may have yet to show again what was read before a power cut.
        ends = {number: max(end, begin[number]) for number, end in ends.items()}
        if not takes_all:
            ends = self._admission.next(begin, ends, is_bounded=self._last is not None)
        is_same = (self.queue.queue_id, ends) == (start.queue, start.offsets)
        if is_same and (start.behind is None or start.behind in self._proven):
            return start  # Spark takes another text for a new batch
        return self._position(ends)

    def batch(self, start: Positions, end: Positions) -> list[Range]:
        """Return what is read of it; raises :class:`OutOfRange` where that is gone."""
        if not self._options.fail_on_data_loss and not self._is_there():
            return []
        available = self._available()
        begin, stops = available.resumed(start), available.shown(end)
        return self._cut(Range(n, begin[n], stop) for n, stop in sorted(stops.items()))

    def acknowledge(self, position: Positions) -> None:
        """Effects of everything below are in the query's checkpoint."""
        if self._holding is None or position.queue != self.queue.queue_id:
            return
        try:
            self._holding.acknowledge(self._shown(position.offsets))
        except QueueReplaced as error:
            if self._options.fail_on_data_loss:
                raise
            _log.warning("%s; nothing is acknowledged", error)

    def _shown(self, offsets: Offsets) -> Offsets:
        """Return the offsets, as far as the queue shows them."""
        return {n: min(offset, self._seen[n]) for n, offset in offsets.items() if n in self._seen}

    def close(self) -> None:
        """The queue keeps what the consumer has not acknowledged."""
        if self._holding is not None:
            self._holding.close()
        super().close()

    def _hold(self, start: Offsets, *, is_done: bool = False) -> None:
        """Act as the consumer that the options name; raises as :func:`.holding.hold`.

        ``is_done``: the query's checkpoint says that all below was processed, so that the consumer
        needs nothing there, also where the query has ended before it acknowledged it.
        """
        name = self._options.consumer
        if name is not None and self._holding is None:
            is_strict = self._options.fail_on_data_loss and not is_done
            self._holding = hold(self.queue, name, start, fail_on_data_loss=is_strict)
