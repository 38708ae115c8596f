"""All partitions of a queue in the order of its commits, and along with its writers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import numpy as np
import pyarrow as pa

from cec_store.errors import QueueReplaced
from cec_store.log.positions import Range, check_queue, gone_on_otherwise
from cec_store.log.selection import METADATA_COLUMNS, Selection
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.offsets import Offsets, Positions
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.partitioned.whole_queue import refuse_positions, schema_of_rows
from cec_store.values import MAX_TIMESTAMP_US, Position, to_timestamp_us

_PAUSE_S = 0.02
_STORE_PAUSE_S = 0.5
"""Between two looks in a store, each of which is a request at least."""


_Read = tuple[pa.RecordBatch | None, Offsets]


class Following(Iterator[pa.RecordBatch], AsyncIterator[pa.RecordBatch]):
    """Arrow batches of all partitions in the order of the commits, without an end.

    Iterate it in one thread, or by ``async for``; any thread may :meth:`stop` it. :attr:`cursor`
    is a text to go on from, as ``follow(path, resume=cursor)``.

    Examples:
        >>> with follow("queues/trades") as following:
        ...     next(following).num_rows
        3
    """

    def __init__(
        self,
        queue: PlainQueue | ReferenceQueue,
        selection: Selection,
        *,
        last: int | None = None,
        resume: str | None = None,
    ) -> None:
        """Raises as :func:`.opening.follow`."""
        self._queue = queue
        self._stopped = Event()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._reading: asyncio.Future[_Read] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.schema: pa.Schema = schema_of_rows(queue.schema, selection, queue.path)
        """Schema of every batch."""
        self._offsets = self._resumed(resume) if resume is not None else self._starts(selection)
        # From here on each range says where it begins.
        self._selection = replace(selection, since=_moment(selection), from_moment=None)
        if last is not None:
            self._offsets = self._last(last)
        self._delivered = dict(self._offsets)
        """Next unread records as the caller has them: a thread may have read on."""
        self._pause_s = _PAUSE_S if queue.is_local else _STORE_PAUSE_S

    # -- where it begins ----------------------------------------------------------------------

    def _starts(self, selection: Selection) -> Offsets:
        """Return the first offset of each partition that can be selected."""
        queue, ends = self._queue, self._queue.ends()
        refuse_positions(queue, selection)
        starts = {}
        for number, end in ends.items():
            start = queue.first(number)
            for moment in (selection.since, selection.from_moment):
                if isinstance(moment, Position):
                    check_queue(moment.queue, queue.path, queue.queue_id)
                    self._refuse_beyond(number, moment.offset)
                    start = max(start, moment.offset)
            since = _moment(selection)
            if since is not None:
                since_us = to_timestamp_us(since)
                start, _ = queue.narrowed(number, start, end, since_us, MAX_TIMESTAMP_US)
            first = selection.from_moment
            if first is not None and not isinstance(first, Position):
                offset = queue.offset_at(number, to_timestamp_us(first))
                start = max(start, end if offset is None else offset)
            starts[number] = start
        return starts

    def _resumed(self, text: str) -> Offsets:
        """Return the offsets of a cursor, if it is one of this queue."""
        queue = self._queue
        positions = Positions.of(json.loads(text))
        check_queue(positions.queue, queue.path, queue.queue_id)
        if positions.behind is not None and not queue.has_behind(positions.behind):
            raise gone_on_otherwise(queue.path, positions.behind)
        for number, offset in positions.offsets.items():
            self._refuse_beyond(number, offset)
        return dict(positions.offsets)

    def _refuse_beyond(self, partition: int, offset: int) -> None:
        """Raise QueueReplaced for a place that the queue does not have any more."""
        end = self._queue.ends().get(partition, 0)
        if offset > end:
            raise QueueReplaced(
                f"{self._queue.path}: record {offset} of partition {partition} is where to go on, "
                f"and the queue ends at {end}: an older copy of it was put back. Read it anew"
            )

    def _last(self, count: int) -> Offsets:
        """Return the offsets at which the last ``count`` selected rows begin."""
        if count < 0:
            raise ValueError(f"the last {count} rows: give 0 or more")
        starts = self._queue.ends()
        steps = self._queue.steps_back(self._offsets) if count else iter(())
        for part in (part for step in steps for part in reversed(step)):
            rows = self._selected(part)
            if len(rows) >= count:
                starts[part.partition] = int(rows[len(rows) - count])
                break
            starts[part.partition] = part.start
            count -= len(rows)
        return starts

    def _selected(self, part: Range) -> np.typing.NDArray[np.int64]:
        """Return the offsets of the selected rows of a range."""
        name = METADATA_COLUMNS[2].name
        column = self.schema.names[:1] or None
        if column and column[0] not in self._queue.schema.data.names:
            column = None
        selection = replace(self._selection, include_metadata=True, columns=column)
        offsets = [batch.column(name).to_numpy() for batch in self._rows(part, selection, {})]
        return np.concatenate([np.empty(0, np.int64), *offsets])

    # -- reading ------------------------------------------------------------------------------

    def _rows(
        self, part: Range, selection: Selection, reached: Offsets
    ) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of a range; ``reached`` is kept at the next unread record."""
        within = replace(selection, from_moment=Position(part.start), end_offset=part.stop)
        replay = self._queue.select(part.partition, within)
        for batch in within.of_partition(part.partition, replay):
            reached[part.partition] = replay.cursor.offset
            if batch.num_rows:
                yield batch
        reached[part.partition] = part.stop

    def available(self) -> Iterator[pa.RecordBatch]:
        """Yield what was added since the last look, as far as the queue reaches now.

        Raises:
            QueueReplaced: the queue is not there any more, or another one is.
            OutOfRange: rows were trimmed before they were read.
            CorruptLog: damage; everything before it has been returned.
        """
        for batch in self._available():
            self._delivered = dict(self._offsets)
            yield batch
        self._delivered = dict(self._offsets)

    def _available(self) -> Iterator[pa.RecordBatch]:
        self._queue.refresh()
        for step in self._queue.steps(self._offsets):
            for part in step:
                for batch in self._rows(part, self._selection, self._offsets):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _next(self) -> _Read:
        """Return the next batch, ``None`` where there is none now, and the offsets behind it."""
        if self._batches is None:
            self._batches = self._available()
        batch = next(self._batches, None)
        if batch is None:
            self._batches = None
        return batch, dict(self._offsets)

    @property
    def waits_for(self) -> str:
        """Return what comes once all is read, for people: ``commit 12 of queues/trades``."""
        return self._queue.waits_for()

    @property
    def cursor(self) -> str:
        """JSON text that names the next unread record of each partition, and the queue."""
        behind = self._queue.behind(self._delivered)
        return json.dumps(Positions(self._queue.queue_id, self._delivered, behind).said())

    def wait(self) -> bool:
        """Wait a moment; return False if it was stopped."""
        return not self._stopped.wait(self._pause_s)

    def __next__(self) -> pa.RecordBatch:
        while not self._stopped.is_set():
            batch, self._delivered = self._next()
            if batch is not None:
                return batch
            self.wait()
        raise StopIteration

    async def __anext__(self) -> pa.RecordBatch:
        while not self._stopped.is_set():
            if self._reading is None:
                # A thread of its own: a read may wait for a disk or a store.
                self._thread = self._thread or ThreadPoolExecutor(1, "cec-follow")
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._thread, self._next)
            try:
                batch, self._delivered = await asyncio.shield(self._reading)
            except asyncio.CancelledError:
                raise  # what is being read is returned to the next caller
            except BaseException:
                self._reading = None  # that one reads again
                raise
            self._reading = None
            if batch is not None:
                return batch
            await asyncio.sleep(self._pause_s)
        raise StopAsyncIteration

    def __aiter__(self) -> Following:
        return self

    def stop(self) -> None:
        """End the iteration, from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """Stop, and let go of the queue."""
        self.stop()
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._queue.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _moment(selection: Selection) -> int | None:
    """Return the moment from which rows are selected; ``None`` for a position, or for all."""
    since = selection.since
    return None if since is None or isinstance(since, Position) else to_timestamp_us(since)
