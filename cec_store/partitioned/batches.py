"""Batches of queries: tasks write segments that nobody sees, one process commits them by reference.

docs/format.md §11.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from cec_store.errors import NotAQueue, StorageError
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordSchema
from cec_store.ledger.ages import require_young
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import batch_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import retention_of
from cec_store.partitioned.by_reference.reference_queue import (
    open_or_make,
    refuse_one_writer,
    require_as_stored,
)
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker, forget
from cec_store.partitioned.by_reference.upkeep import Upkeep
from cec_store.partitioned.making import refuse_what_is_there
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.retention import warn_of_other_retention
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import data_folder_name
from cec_store.storage.stores.store import Store

Segment = dict[str, Any]
"""Description of a segment, as tasks hand it to the process that commits."""
_LOOKED_AT_MAX = 100
"""Commits: the last batch of a query that has just failed is among the newest."""
_log = logging.getLogger(__name__)


def write_segments(
    store: Store,
    schema: RecordSchema,
    query: str,
    batch: int,
    partition: int,
    rows: Iterable[pa.RecordBatch],
    *,
    segment_bytes: int,
    clock_us: Callable[[], int] = now_us,
) -> list[Segment]:
    """Write a task attempt's rows, in order, to objects of about ``segment_bytes``.

    Returns a description of each object for the commit. On a failure they are deleted, unless the
    store fails as well.

    Raises:
        SchemaMismatch: columns of another type, a value that no reader would take, or a null where
            the timestamp should be.
        FrameTooLarge: a single row that does not fit in a frame.
    """
    made: list[Segment] = []

    def finish(maker: SegmentMaker) -> None:
        segment = maker.finish(store, query, batch, partition)
        if segment is not None:
            made.append(segment)

    try:
        maker = SegmentMaker(schema, clock_us)
        first_row = 0
        for part in rows:
            maker.append(part, first_row)
            first_row += part.num_rows
            if maker.stored_bytes >= segment_bytes:
                finish(maker)
                maker = SegmentMaker(schema, clock_us)
        finish(maker)
    except BaseException:
        forget(store, [segment["file"] for segment in made])
        raise
    return made


class BatchCommitter:
    """Commits batches to one queue, beside any number of others. For one thread."""

    def __init__(
        self,
        folder: FolderTree,
        store: Store,
        schema: RecordSchema,
        retention: Retention | None = None,
        *,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        """Make the queue where there is none, with this retention.

        Raises:
            SchemaMismatch: there is one with other columns; nothing was changed.
            NotAQueue: something else is in the folder.
            CorruptLog: the queue's commits are lost, or one of them.
        """
        self._folder = folder
        self._store = store
        self.schema = schema
        """The queue's own, as soon as there is one."""
        self._clock_us = clock_us
        self._log = ReferenceLog(store)
        self._queries: set[str] = set()
        """Queries of batches committed here: only the first of each may have been tried before."""
        self._state = self._opened(retention)
        self._upkeep = Upkeep(self._log, self.schema, clock_us)

    def _opened(self, retention: Retention | None) -> QueueState:
        try:
            state = self._log.open()
        except NotAQueue:
            refuse_what_is_there(self._folder, self._store)
            state = open_or_make(self._log, self.schema, 1, retention, self._clock_us())
        refuse_one_writer(state, self._store.url)
        stored = self._log.schema(state)
        self.schema = require_as_stored(stored, self.schema, self._store.url)
        self._log.prove_creates()
        if retention is not None:
            kept = retention_of(state, self._store.url)
            warn_of_other_retention(self._store.url, kept, retention)
        return state

    def commit(
        self,
        query: str,
        batch: int,
        segments: Sequence[Segment],
        *,
        is_stream: bool = True,
        is_retried: bool = False,
        advice: str = "",
    ) -> bool:
        """Make a batch visible; ``False`` where the query had committed it, or a later one, before.

        Once this returns it is on disk. What attempts that failed have left of it is deleted where
        there may be such: ``is_retried``, or the query's first batch here. ``advice`` is for
        whoever writes another batch under the same name.

        Raises:
            StorageError: it is not there, or nobody can say: commit it again.
        """
        if not segments:
            return True
        is_new = False
        files = [segment["file"] for segment in segments]
        oldest_us = min(segment["written_us"] for segment in segments)

        def commit(now: QueueState) -> ReferenceObject | None:
            nonlocal is_new
            require_young(self._store, files, abs(self._clock_us() - oldest_us))
            made = batch_after(now, query, batch, segments, self._clock_us(), is_stream=is_stream)
            is_new = made is not None
            return made

        before = self._log.refresh(self._state)
        self._state = self._log.add(before, commit)
        if not is_new:
            self._log.settle(self._state)
            self._say_repeated(self._state, query, batch, segments, advice)
            self._forget_unnamed(segment["file"] for segment in segments)
            return False
        if is_retried or (is_stream and query not in self._queries):
            # Nobody else commits this batch any more: what its commit does not name never will be.
            self._forget_unnamed(self._objects_of(query, batch))
        if is_stream:
            self._queries.add(query)
        self._state = self._upkeep.now_and_then(before, self._state)
        return True

    def _objects_of(self, query: str, batch: int) -> list[str]:
        folder = data_folder_name(query, batch)
        try:
            entries = self._store.list(folder)
        except StorageError as error:
            _log.warning("%s/%s: not cleaned up: %s", self._store.url, folder, error)
            return []
        return [f"{folder}/{entry.name}" for entry in entries if not entry.is_folder]

    def _forget_unnamed(self, names: Iterable[str]) -> None:
        forget(self._store, sorted(set(names) - self._state.files()))

    def _say_repeated(
        self, state: QueueState, query: str, batch: int, segments: Sequence[Segment], advice: str
    ) -> None:
        """Report that the queue has this batch already; warn where rows are lost.

        After a failure Spark runs the last batch once more, which is as it should be. Another
        writer under the name, or the same one from a new checkpoint, loses its output.
        """
        rows = _rows_by_partition(segments)
        last = state.commit.queries[query]
        what = (
            f"{self._store.url}: {rows.total()} rows of batch {batch} of {query!r} are not "
            f"written: the queue has its batches up to {last}"
        )
        if batch < last:
            _log.warning("%s. %s", what, advice)
            return
        earlier = self._committed(state, query, batch)
        if earlier is not None and _rows_by_partition(earlier.segments.to_pylist()) != rows:
            _log.warning("%s, and this one with other rows. %s", what, advice)
        else:
            _log.info("%s: the batch has been run again", what)

    def _committed(self, state: QueueState, query: str, batch: int) -> ReferenceObject | None:
        for number in range(state.number, max(0, state.number - _LOOKED_AT_MAX), -1):
            part = self._log.kept(number, state.floor)
            if part is None:
                break
            if (part.commit.query, part.commit.batch) == (query, batch):
                return part
        return None


def _rows_by_partition(segments: Iterable[Segment]) -> Counter[int]:
    rows: Counter[int] = Counter()
    for segment in segments:
        rows[segment["partition"]] += segment["records"]
    return rows
