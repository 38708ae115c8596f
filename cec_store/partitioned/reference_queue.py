"""A queue of many partitions by reference: read as a whole, and written to by one process.

docs/format.md §12. What it shares with :class:`.partitions.Partitions` has the same names.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.errors import CorruptLog, NotAQueue, OutOfRange, SchemaMismatch
from cec_store.format.records import as_batches, fit_columns
from cec_store.format.schema import RecordSchema
from cec_store.log.replay import Replay, offset_at
from cec_store.log.selection import PARTITION_COLUMN, Selection
from cec_store.partitioned.partition_log import PartitionLog
from cec_store.partitioned.queue_state import QueueState
from cec_store.partitioned.reference_commits import batch_after, making
from cec_store.partitioned.reference_log import ReferenceLog
from cec_store.partitioned.segment_objects import SegmentMaker
from cec_store.partitioned.spark_hash import partitions_of
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.store import Store

_AT_ONCE = 8
"""Objects that are made at the same time."""


class ReferenceQueue:
    """The partitions of one queue, as they were when it was opened or last refreshed.

    For one thread.
    """

    def __init__(self, store: Store) -> None:
        """Raises :class:`NotAQueue` where there is none, :class:`CorruptLog` for damage."""
        self._store = store
        self._log = ReferenceLog(store)
        self._state = self._log.open()
        self.schema = _schema_of(store, self._log)

    @property
    def path(self) -> str:
        return self._store.url

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

    def partition(self, number: int) -> PartitionLog:
        """One partition."""
        return PartitionLog(self._store, self._log, self._state, self.schema, number)

    def offset_at(self, number: int, timestamp_us: int) -> int | None:
        """Earliest record of a partition at or after the moment; ``None`` where there is none."""
        log = self.partition(number)
        offset = offset_at(log, log, timestamp_us)
        return offset if offset < log.end.offset else None

    def replay(self, number: int, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Batches of a partition, as ``OutputQueue.replay``; metadata has ``_partition`` too.

        Raises:
            OutOfRange: there is no such partition.
        """
        if not 0 <= number < len(self._state.commit.ends):
            raise OutOfRange(f"{self.path}: there is no partition {number}")
        log = self.partition(number)
        replay = Replay(log, log, selection)
        if not selection.include_metadata:
            return replay
        cell = pa.scalar(number, PARTITION_COLUMN.type)
        return (
            batch.append_column(PARTITION_COLUMN, pa.repeat(cell, batch.num_rows))
            for batch in replay
        )

    def close(self) -> None:
        """There is nothing to close: the store is the caller's."""


def is_by_reference(store: Store) -> bool:
    """Whether there is a queue by reference here."""
    try:
        store.size(commit_object_name(0))
    except FileNotFoundError:
        return False
    return True


def _schema_of(store: Store, log: ReferenceLog) -> RecordSchema:
    schema = log.first().commit.schema
    if schema is None:
        path = f"{store.url}/{commit_object_name(0)}"
        raise CorruptLog(path, 0, "the commit that makes the queue says nothing of its columns")
    return schema


class PartitionedWriter:
    """Appends rows to partitions by their keys, atomically over all partitions.

    Any number of writers, in any processes, may append at the same time: each append is a commit
    of its own. For one thread.
    """

    def __init__(
        self,
        store: Store,
        schema: RecordSchema | None,
        *,
        partitions: int = 1,
        clock_us: Callable[[], int],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Make the queue where there is none; ``schema`` with its ``key_columns``, if any.

        Raises:
            NotAQueue: there is none, and no schema was given.
            SchemaMismatch: there is one with other columns or keys.
        """
        self._store = store
        self._clock_us = clock_us
        self._log = ReferenceLog(store)
        self._query = f"append-{secrets.token_hex(8)}"
        self._appended = 0
        try:
            self._state = self._log.open()
        except NotAQueue:
            if schema is None:
                raise
            self._state = self._make(schema, partitions, settings or {})
        self.schema = _schema_of(store, self._log)
        if schema is not None and not schema.is_as(self.schema):
            raise SchemaMismatch(
                f"{store.url}: the queue's columns are\n{self.schema.arrow}\nnot\n{schema.arrow}"
            )
        self._next_whole = 0

    def _make(
        self, schema: RecordSchema, partitions: int, settings: Mapping[str, str]
    ) -> QueueState:
        try:
            return self._log.make(making(schema, partitions, settings, self._clock_us()))
        except FileExistsError:  # somebody was quicker
            return self._log.open()

    @property
    def state(self) -> QueueState:
        """The queue as this writer last saw it."""
        return self._state

    def append(self, rows: pa.RecordBatch | pa.Table) -> int:
        """Append rows, all of them or none, and return the commit's number: they are durable.

        Rows go to the partition that Spark would put them into by the queue's key columns; a queue
        without keys takes each append into one partition, one after the other.

        Raises:
            SchemaMismatch: columns of another type.
            FrameTooLarge: a single row is more than a frame may hold.
            StorageError: they are not there, or nobody can say.
        """
        batches = as_batches(rows)
        for batch in batches:
            fit_columns(self.schema.data, batch)
        makers: dict[int, SegmentMaker] = {}
        for batch in batches:
            for number, part in self._parts(batch):
                maker = makers.setdefault(number, SegmentMaker(self.schema, self._clock_us))
                maker.append(part)
        if not makers:
            return self._state.number
        self._appended += 1
        pieces = self._made(makers)
        self._state = self._log.add(
            self._state,
            lambda state: batch_after(
                state, self._query, self._appended, pieces, self._clock_us(), is_stream=False
            ),
        )
        return self._state.number

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows by partition, in their order."""
        count = len(self._state.commit.ends)
        if not batch.num_rows:
            return
        if not self.schema.key_columns or count == 1:
            yield self._next_whole % count, batch
            self._next_whole += 1
            return
        columns = [batch.column(name) for name in self.schema.key_columns]
        numbers = partitions_of(columns, count)
        order = np.argsort(numbers, kind="stable")
        sorted_rows = batch.take(pa.array(order))
        cuts = np.searchsorted(numbers[order], np.arange(count + 1))
        for number in np.unique(numbers).tolist():
            start, stop = int(cuts[number]), int(cuts[number + 1])
            yield number, sorted_rows.slice(start, stop - start)

    def _made(self, makers: Mapping[int, SegmentMaker]) -> Sequence[dict[str, Any]]:
        """The objects of an append, several at a time."""
        query, batch = self._query, self._appended

        def make(number: int) -> dict[str, Any] | None:
            return makers[number].finish(self._store, query, batch, number)

        with ThreadPoolExecutor(_AT_ONCE, "cec-append") as pool:
            found = list(pool.map(make, sorted(makers)))
        return [segment for segment in found if segment is not None]
