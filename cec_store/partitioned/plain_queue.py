"""Reads a queue without partitions as its own partition 0. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from cec_store.format.schema import RecordSchema
from cec_store.ledger.commit_chain import chain_at
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.chain import QueueChain
from cec_store.log.positions import Behind, Range
from cec_store.log.replay import Replay
from cec_store.log.selection import Selection
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.folder import FolderTree
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

_STEP_BACK = 256
"""Records that are looked at first by who goes back from the end."""


class PlainQueue:
    """Partition 0 of itself, with the names that :class:`.reference_queue.ReferenceQueue` has.

    One thread at a time may use it.
    """

    is_partitioned = False

    def __init__(self, folder: FolderTree, ledger: ReferenceLog | None = None) -> None:
        """Raises :class:`NotAQueue` where there is none. ``ledger`` is as for :func:`chain_at`."""
        self.folder = folder
        self._chain = chain_at(folder, ledger)
        self._opened: OutputQueue | None = None
        self.schema: RecordSchema = self._chain.schema()

    @property
    def path(self) -> str:
        return self.folder.path

    @property
    def is_local(self) -> bool:
        return self.folder.appends

    @property
    def queue_id(self) -> str:
        """Its id: 32 hex digits."""
        return self._chain.queue_id

    @property
    def log(self) -> OutputQueue:
        """The queue, open for reading."""
        if self._opened is None:
            self._opened = OutputQueue(self.folder, "r", chain=self._chain)
        return self._opened

    def close(self) -> None:
        """Close the index; replays that are under way go on without."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def first(self, number: int) -> int:
        """Oldest offset that is left."""
        return self._now().first_offset()

    def ends(self) -> dict[int, int]:
        """Next unread offset now, by partition; raises :class:`CorruptLog` where it is damaged."""
        return {0: self._now().end.offset}

    def written(self) -> dict[int, int]:
        """Return the offset behind the last whole record; a writer has yet to show some."""
        return {0: self._now().written_offset}

    def _now(self) -> QueueChain:
        self._chain.refresh()
        return self._chain

    def behind(self, offsets: Mapping[int, int]) -> Behind | None:
        """Return nothing: a queue that is a log itself has no commits."""
        return None

    def has_behind(self, behind: Behind) -> bool:
        """Return false: the position is one of a queue with commits."""
        return False

    def offset_at(self, number: int, timestamp_us: int) -> int | None:
        """Earliest record at or after the moment; ``None`` where there is none."""
        offset = self.log.position_at(timestamp_us).offset
        return offset if offset < self.ends()[0] else None

    def narrowed(
        self, number: int, start: int, stop: int, low_us: int, high_us: int
    ) -> tuple[int, int]:
        """The part of ``[start, stop)`` outside of which no record is of ``low_us … high_us``.

        The index finds its beginning; its end is found by the headers, for moments may go back.
        """
        if low_us > MIN_TIMESTAMP_US:
            start = max(start, self.log.position_at(low_us).offset)
        if high_us < MAX_TIMESTAMP_US and start < stop:
            chain = self._now()
            first = chain.find_offset(start)
            last = start
            for frame in chain.frames(first.address) if first else ():
                if frame.header.first_offset >= stop:
                    break
                if frame.header.min_timestamp_us <= high_us:
                    last = frame.header.end_offset
            stop = min(stop, last)
        return start, max(start, stop)

    def refresh(self) -> None:
        """Look again how far it reaches; so does each other call."""
        self._now()

    def steps(self, start: Mapping[int, int]) -> Iterator[list[Range]]:
        """Yield what was appended beyond ``start``, as one step."""
        begin, end = start.get(0, 0), self._now().end.offset
        if begin < end:
            yield [Range(0, begin, end)]

    def steps_back(self, start: Mapping[int, int]) -> Iterator[list[Range]]:
        """Yield the same in steps that grow, the last one first."""
        begin, end, size = start.get(0, 0), self._now().end.offset, _STEP_BACK
        while begin < end:
            first = max(begin, end - size)
            yield [Range(0, first, end)]
            end, size = first, 4 * size

    def waits_for(self) -> str:
        """Return a description of what comes next, for people."""
        return f"a record from offset {self._chain.end.offset:,} on of {self.path}"

    def replay(self, number: int, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Batches, as ``OutputQueue.replay``; metadata has ``_partition`` too."""
        return selection.of_partition(number, self.select(number, selection))

    def select(self, number: int, selection: Selection) -> Replay:
        """Return a replay of the selection, whose batches have no ``_partition``."""
        return self.log.select(selection)
