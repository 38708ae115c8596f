"""A partitioned queue, read as a whole.

docs/format.md §11. What it shares with :class:`.plain_queue.PlainQueue` has the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from cec_store.errors import NotAQueue, OutOfRange, SchemaMismatch
from cec_store.format.by_reference.commits import WRITER_SETTING
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import RETENTION_SETTING, making
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import Behind, Range
from cec_store.log.replay import Replay, offset_at
from cec_store.log.selection import Selection
from cec_store.partitioned.by_reference.commit_search import CommitSearch
from cec_store.partitioned.by_reference.partition_log import PartitionLog
from cec_store.storage.stores.store import Store
from cec_store.values import Address


class ReferenceQueue:
    """The partitions of one queue, as they were when it was opened or last refreshed.

    For one thread.
    """

    def __init__(self, store: Store, ledger: ReferenceLog | None = None) -> None:
        """Raises :class:`NotAQueue` where there is none, :class:`CorruptLog` for damage.

        ``ledger`` is that of the store, where it was asked for already.
        """
        self.store = store
        self._log = ledger or ReferenceLog(store)
        self._state = self._log.open()
        self._commits = CommitSearch(self._log)
        self.schema = self._log.schema(self._state)

    @property
    def path(self) -> str:
        return self.store.url

    @property
    def is_local(self) -> bool:
        """Return True on a file system of this machine, where a look costs no request."""
        return self.store.appends

    @property
    def queue_id(self) -> str:
        """Its id: 32 hex digits."""
        return self._state.log_id.hex()

    @property
    def is_partitioned(self) -> bool:
        return True

    def refresh(self) -> None:
        """Look again how far it reaches: one request where nothing is new."""
        self._state = self._log.refresh(self._state)

    @property
    def state(self) -> QueueState:
        return self._state

    def first(self, number: int) -> int:
        """Oldest offset that is left of a partition."""
        return self._state.commit.starts[number]

    def ends(self) -> dict[int, int]:
        """Next unread offset of each partition."""
        return dict(enumerate(self._state.commit.ends))

    def written(self) -> dict[int, int]:
        """The same: what is committed is shown."""
        return self.ends()

    def behind(self, offsets: Mapping[int, int]) -> Behind:
        """Return the commit with the last record before these offsets; mostly without a request."""
        return self._commits.behind(self._state, offsets)

    def has_behind(self, behind: Behind) -> bool:
        """Return whether this commit is of this history. One request."""
        return self._log.has(behind.number, behind.salt, self._state.floor)

    def partition(self, number: int) -> PartitionLog:
        """One partition."""
        return PartitionLog(self._log, self._state, self.schema, number)

    def offset_at(self, number: int, timestamp_us: int) -> int | None:
        """Earliest record of a partition at or after the moment; ``None`` where there is none."""
        log = self.partition(number)
        offset = offset_at(log, log, timestamp_us)
        return offset if offset < log.end.offset else None

    def narrowed(
        self, number: int, start: int, stop: int, low_us: int, high_us: int
    ) -> tuple[int, int]:
        """The part of ``[start, stop)`` outside of which no record is of ``low_us … high_us``.

        By what commits say of the segments: no request.
        """
        first, last = stop, start
        for frame in self.partition(number).frames(Address(start, 0)):
            header = frame.header
            if header.first_offset >= stop:
                break
            if header.min_timestamp_us <= high_us and header.max_timestamp_us >= low_us:
                first, last = min(first, header.first_offset), header.end_offset
        return max(start, first), max(start, first, min(stop, last))

    def steps(self, start: Mapping[int, int]) -> Iterator[list[Range]]:
        """Yield what each commit added beyond ``start``, commit by commit, to the end as last seen.

        One request for each commit. What commits added that are deleted by now comes at once.
        """
        reached, state = dict(start), self._state
        for number in range(self._commits.first_beyond(state, start), state.number + 1):
            step = []
            for partition, end in enumerate(self._commits.ends(state, number) or ()):
                begin = reached.get(partition, 0)
                if end > begin:
                    step.append(Range(partition, begin, end))
                    reached[partition] = end
            if step:
                yield step

    def steps_back(self, start: Mapping[int, int]) -> Iterator[list[Range]]:
        """Yield the same steps, the last one first."""
        state = self._state
        number = state.number
        ends: Sequence[int] = state.commit.ends
        while any(end > start.get(partition, 0) for partition, end in enumerate(ends)):
            before = (self._commits.ends(state, number - 1) or ()) if number else ()
            step = []
            for partition, end in enumerate(ends):
                begin = before[partition] if partition < len(before) else 0
                begin = max(begin, start.get(partition, 0))
                if begin < end:
                    step.append(Range(partition, begin, end))
            if step:
                yield step
            number, ends = number - 1, before

    def waits_for(self) -> str:
        """Return a description of what comes next, for people."""
        return f"commit {self._state.number + 1:,} of {self.path}"

    def replay(self, number: int, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Batches of a partition, as ``OutputQueue.replay``; metadata has ``_partition`` too.

        Raises:
            OutOfRange: there is no such partition.
        """
        return selection.of_partition(number, self.select(number, selection))

    def select(self, number: int, selection: Selection) -> Replay:
        """Return a replay of a partition, whose batches have no ``_partition``; raises the same."""
        if not 0 <= number < len(self._state.commit.ends):
            raise OutOfRange(f"{self.path}: there is no partition {number}")
        log = self.partition(number)
        return Replay(log, log, selection)

    def close(self) -> None:
        """There is nothing to close: the store is the caller's."""


def refuse_one_writer(state: QueueState, path: str) -> None:
    """Raise :class:`NotAQueue` for a queue without partitions, which has one writer."""
    if WRITER_SETTING in state.commit.settings:
        raise NotAQueue(
            f"{path}: a queue without partitions is here; open it as such (it has one writer), or "
            "make one with partitions elsewhere"
        )


def require_as_stored(stored: RecordSchema, schema: RecordSchema, path: str) -> RecordSchema:
    """Return the queue's own schema, in which all is written.

    Raises:
        SchemaMismatch: a queue that has columns is to have others.
    """
    if not stored.is_as(schema):
        raise SchemaMismatch(
            f"{path}: the queue's columns are\n{_described(stored)}\nnot\n{_described(schema)}"
        )
    return stored


def _described(schema: RecordSchema) -> str:
    column = schema.timestamp_column
    keys = ", ".join(schema.key_columns)
    columns = schema.data.remove_metadata()
    return f"{columns}\n(timestampColumn {column or 'none'}; keyColumns {keys or 'none'})"


def open_or_make(
    log: ReferenceLog,
    schema: RecordSchema,
    partitions: int,
    retention: Retention | None,
    now_us: int,
) -> QueueState:
    """The queue as it is; a new one of these columns where there is none.

    Raises:
        CorruptLog: a commit is missing or damaged.
        ValueError: it would have no partition.
    """
    try:
        return log.open()
    except NotAQueue:
        with suppress(FileExistsError):  # somebody was quicker
            return make(log, schema, partitions, retention, now_us)
        return log.open()


def make(
    log: ReferenceLog,
    schema: RecordSchema,
    partitions: int,
    retention: Retention | None,
    now_us: int,
) -> QueueState:
    """A new queue. Raises ``FileExistsError`` where there is one."""
    settings = {} if retention is None else {RETENTION_SETTING: str(retention)}
    return log.make(making(schema, partitions, settings, now_us))
