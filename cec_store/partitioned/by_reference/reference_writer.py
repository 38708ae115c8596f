"""Appends to a queue of many partitions: rows to partitions by key, all of an append or nothing.

docs/format.md §11.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.errors import Poisoned, QueueReplaced
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.by_reference.inline import INLINE_BYTES_MAX, InlineFrames
from cec_store.format.records import fit_batches
from cec_store.format.schema import RecordSchema
from cec_store.ledger.ages import Stopwatch, require_young
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import batch_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker, forget
from cec_store.partitioned.spark_hash import partitions_of

_SMALL_BYTES = 4 * INLINE_BYTES_MAX
"""Bytes of rows, before they are compressed, that may be small enough for the commit itself."""
_AT_ONCE = 8
"""Objects that are made at the same time."""
_log = logging.getLogger(__name__)


class ReferenceWriter:
    """Commits what is appended. Any number of them may be at work at the same time.

    For one thread.
    """

    def __init__(
        self, log: ReferenceLog, schema: RecordSchema, clock_us: Callable[[], int]
    ) -> None:
        self._store = log.store
        self._log = log
        self._schema = schema
        self._clock_us = clock_us
        self._query = f"append-{secrets.token_hex(8)}"
        self._appended = 0
        self._next_whole = 0
        self._is_doubtful = False

    def append(
        self,
        state: QueueState,
        rows: pa.RecordBatch | pa.Table,
        transaction: tuple[str, int] | None,
    ) -> QueueState:
        """See :meth:`.partitioned_queue.PartitionedQueue.append`; the queue after it."""
        if self._is_doubtful:
            raise Poisoned(
                f"{self._store.url}: nobody knows whether the append before is in the queue: open "
                "it again, and look; with txn_app_id and txn_version one may simply append again"
            )
        makers = self._makers(state, rows)
        if transaction is None:
            if not makers:
                return state
            self._appended += 1
        state = self._log.young(state)
        query, batch = transaction or (self._query, self._appended)
        if transaction is not None:
            state = self._log.refresh(state, proving=True)
            if state.commit.has(query, batch):
                return self._passed_over(state, query, batch)
        watch = Stopwatch(self._clock_us)
        pieces, inline = self._finished(makers, state, query, batch)
        files = [] if inline else [piece["file"] for piece in pieces]

        is_tried = False

        def commit(now: QueueState) -> ReferenceObject | None:
            nonlocal is_tried
            require_young(self._store, files, watch.elapsed_us())
            is_stream = transaction is not None
            made = batch_after(now, query, batch, pieces, self._clock_us(), is_stream=is_stream)
            is_tried = made is not None
            return None if made is None else replace(made, inline=inline)

        try:
            after = self._log.add(state, commit)
        except QueueReplaced:
            forget(self._store, files)
            raise
        except BaseException:
            # Whatever was in the way, an interrupt too: the commit may be there, and name them.
            if is_tried:
                self._is_doubtful = transaction is None
            else:
                forget(self._store, files)
            raise
        if not is_tried:  # another process may have appended the same version meanwhile
            forget(self._store, files)
            return self._passed_over(after, query, batch)
        return after

    def _passed_over(self, state: QueueState, query: str, batch: int) -> QueueState:
        self._log.settle(state)
        last = state.commit.queries.get(query)
        _log.warning(
            "%s: version %d of %r is not appended: the queue has its versions up to %s",
            self._store.url, batch, query, last,
        )  # fmt: skip
        return state

    def _makers(
        self, state: QueueState, rows: pa.RecordBatch | pa.Table
    ) -> dict[int, SegmentMaker]:
        batches = fit_batches(self._schema.data, rows)
        makers: dict[int, SegmentMaker] = {}
        for batch in batches:
            for number, part in self._parts(batch, len(state.commit.ends)):
                maker = makers.setdefault(number, SegmentMaker(self._schema, self._clock_us))
                maker.append_fitted(part)
        return makers

    def _parts(self, batch: pa.RecordBatch, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows by partition, in their order."""
        if not batch.num_rows:
            return
        if not self._schema.key_columns or count == 1:
            yield self._next_whole % count, batch
            self._next_whole += 1
            return
        columns = [batch.column(name) for name in self._schema.key_columns]
        numbers = partitions_of(columns, count)
        order = np.argsort(numbers, kind="stable")
        sorted_rows = batch.take(pa.array(order))
        cuts = np.searchsorted(numbers[order], np.arange(count + 1))
        for number in np.unique(numbers).tolist():
            start, stop = int(cuts[number]), int(cuts[number + 1])
            yield number, sorted_rows.slice(start, stop - start)

    def _finished(
        self, makers: Mapping[int, SegmentMaker], state: QueueState, query: str, batch: int
    ) -> tuple[Sequence[dict[str, Any]], Sequence[InlineFrames]]:
        """Return what the commit says of an append, and the frames that it holds if they are small.

        Else each partition's are an object, of which several are made at a time.
        """
        if sum(maker.all_bytes for maker in makers.values()) <= _SMALL_BYTES:
            for maker in makers.values():
                maker.flush()
            if sum(maker.stored_bytes for maker in makers.values()) <= INLINE_BYTES_MAX:
                return self._inline(makers)

        def make(number: int) -> dict[str, Any] | None:
            return makers[number].finish(self._store, query, batch, number)

        if self._store.appends:
            self._log.prove(state)  # before rows are put where the queue was
        with ThreadPoolExecutor(_AT_ONCE, "cec-append") as pool:
            segments = list(pool.map(make, sorted(makers)))
        return [segment for segment in segments if segment is not None], ()

    def _inline(
        self, makers: Mapping[int, SegmentMaker]
    ) -> tuple[Sequence[dict[str, Any]], Sequence[InlineFrames]]:
        rows, frames, byte = [], [], 0
        for number in sorted(makers):
            finished = makers[number].finish_inline(number, byte)
            if finished is not None:
                row, segment = finished
                rows.append(row)
                frames.append(segment)
                byte += row["bytes"]
        return rows, frames
