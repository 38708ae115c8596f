"""Inputs that can be read again from any offset: an Arrow table, or another queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from cec_store.format.arrow_values import readable
from cec_store.format.columns import Ints, values_of
from cec_store.format.records import kinds_of, stored_table, to_timestamps
from cec_store.format.schema import TIMESTAMP, RecordKind
from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame
from cec_store.log.positions import check_queue, checked
from cec_store.log.reader import despite_trims
from cec_store.operators.contract import InputBatch, Source, Step
from cec_store.operators.inputs.merge import merge
from cec_store.operators.inputs.reading import Reading
from cec_store.queues.consumers import Consumer
from cec_store.values import Address, Position


class ArrowSource:
    """A table in memory or on disk; a row's offset is its number.

    Its end is the end of the input (:attr:`has_ended`).

    Examples:
        >>> [batch.offsets.tolist() for batch in ArrowSource(bids, "at").read(2)]
        [[2, 3]]
    """

    has_ended = True

    def __init__(
        self, table: pa.Table, timestamp_column: str, batch_rows_max: int = 65_536
    ) -> None:
        """Raises :class:`SchemaMismatch` where the column holds no timestamps."""
        self._table = stored_table(table)
        self.schema: pa.Schema = self._table.schema
        self._timestamp_column = timestamp_column
        self._batch_rows_max = batch_rows_max

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Rows ``[start, stop)``.

        Raises:
            SchemaMismatch: a value that no log would take; names its column and row.
        """
        stop = self._table.num_rows if stop is None else min(stop, self._table.num_rows)
        rows = self._table.slice(start, max(0, stop - start))
        for batch in rows.to_batches(max_chunksize=self._batch_rows_max):
            times = to_timestamps(batch.column(self._timestamp_column)).cast(pa.int64())
            offsets = np.arange(start, start + batch.num_rows)
            yield InputBatch(readable(batch, start), offsets, values_of(times, "i8"))
            start += batch.num_rows

    def end(self) -> int:
        """The number of rows."""
        return int(self._table.num_rows)


_GROUP_RECORDS, _GROUP_BYTES = 4096, 4 << 20
"""The most records, and their bytes before compression, of small frames that are read together."""


class QueueSource:
    """The output of an upstream queue, as far as it is durable (CEC paper, appendix).

    Examples:
        >>> with open_queue("averages") as queue:
        ...     [batch.batch.num_rows for batch in QueueSource(queue.chain).read(0)]
        [1]
    """

    def __init__(
        self,
        chain: Callable[[], QueueChain],
        consumer: Consumer | None = None,
        *,
        has_ended: bool = False,
    ) -> None:
        """``chain`` opens a reader of the queue, as ``OutputQueue.chain`` does.

        With a ``consumer`` of that queue the runner acknowledges what it has taken of it, so that
        the queue keeps what a recovery will ask for, and can be trimmed of the rest. With
        ``has_ended`` the queue gets no more rows, so that no other input waits for them.
        """
        self.consumer = consumer
        self.has_ended = has_ended
        """Set it once the queue's writer has finished; a queue that is appended to has not."""
        self._open = chain
        self._idle: QueueChain | None = chain()
        """Kept between reads: to refresh one asks a store for far less than to open one."""
        self._last: Frame | None = None
        """The frame that was read last."""
        self.schema: pa.Schema = self._idle.schema().data
        self.path = self._idle.path
        self.queue_id = self._idle.queue_id
        """Id of the queue that all offsets belong to: 32 hex digits."""

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Output records with offsets in ``[start, stop)``; footprints are passed over.

        Raises:
            OutOfRange: ``start`` is trimmed, or beyond the end.
            QueueReplaced: another queue stands there now.
        """
        with self._reader() as chain:
            if start > chain.end.offset:
                checked(Position(start), chain.bounds())
            if start >= chain.end.offset:
                return
            group: list[tuple[Frame, pa.Buffer]] = []
            # The first frame alone: it may be all that is asked for.
            records_room, bytes_room = 0, 0
            for frame in chain.frames(self._address_of(max(start, 0), chain)):
                header = frame.header
                if stop is not None and header.first_offset >= stop:
                    break
                records_room -= header.record_count
                bytes_room -= header.raw_bytes
                if group and (records_room < 0 or bytes_room < 0):
                    yield from self._output(chain, group, start, stop)
                    group = []
                    records_room = _GROUP_RECORDS - header.record_count
                    bytes_room = _GROUP_BYTES - header.raw_bytes
                self._last = frame
                group.append((frame, chain.body(frame)))
            if group:
                yield from self._output(chain, group, start, stop)

    def _address_of(self, start: int, chain: QueueChain) -> Address:
        """Return the address of the frame with this record, mostly where the last read ended."""
        last = self._last
        if last is not None and last.address.segment_id >= chain.segments[0]:
            if start == last.header.end_offset:
                return last.next_address
            if last.header.first_offset <= start < last.header.end_offset:
                return last.address
        frame = despite_trims(chain, lambda: chain.find_offset(start))
        assert frame is not None, "it is before the end"
        return frame.address

    def end(self) -> int:
        """The next unread offset at the durable end, as it is now."""
        with self._reader() as chain:
            return chain.end.offset

    @contextmanager
    def _reader(self) -> Iterator[QueueChain]:
        """One for each iterator at work, which sees all that is durable now."""
        chain, self._idle = self._idle, None
        if chain is None:
            chain, self._last = self._open(), None
            check_queue(self.queue_id, chain.path, chain.queue_id)
        else:
            chain.refresh()
        try:
            yield chain
        except GeneratorExit:
            self._idle = chain  # whoever asked needs no more for now
            raise
        self._idle = chain  # not after an error: what it knows then may be half of something

    def _output(
        self, chain: QueueChain, group: list[tuple[Frame, pa.Buffer]], start: int, stop: int | None
    ) -> Iterator[InputBatch]:
        """The output with offsets in ``[start, stop)`` of frames that follow on one another."""
        first_offset = group[0][0].header.first_offset
        records = chain.records_of(group)
        if stop is not None:
            records = records.slice(0, stop - first_offset)
        if start > first_offset:
            records = records.slice(start - first_offset)
            first_offset = start
        kinds = kinds_of(records)
        (rows,) = np.nonzero((kinds == RecordKind.DATA.value) | (kinds == RecordKind.RESULT.value))
        if len(rows):
            output = records if len(rows) == len(kinds) else records.take(pa.array(rows))
            times = values_of(output.column(TIMESTAMP), "i8")
            yield InputBatch(output.select(self.schema.names), first_offset + rows, times)


def steps_of(
    sources: Sequence[Source], start: Ints, stop: Ints | None, rows_max: int
) -> Iterator[Step]:
    """The rows of all sources as steps, merged; from ``start`` up to ``stop``, shape (inputs,).

    They are those that were taken before: nothing is held back. New ones are :class:`LiveInputs`'.
    """
    schemas = [source.schema for source in sources]
    return merge(reads_of(sources, start, stop, rows_max), start, schemas, rows_max)


def reads_of(
    sources: Sequence[Source], start: Ints, stop: Ints | None, rows_max: int
) -> list[Reading]:
    """The rows of each source from ``start`` up to ``stop``, shape (inputs,).

    It is the one place where inputs of steps are read. One of several sources is live unless it
    is read up to a stop or says that it has ended; a single one has nobody to wait for it.
    """
    ends = [None] * len(sources) if stop is None else stop.tolist()
    is_waited_for = stop is None and len(sources) > 1
    return [
        Reading(
            source.read(first, end),
            rows_max,
            is_live=is_waited_for and not getattr(source, "has_ended", False),
        )
        for source, first, end in zip(sources, start.tolist(), ends, strict=True)
    ]


def consumers_of(sources: Sequence[Source]) -> list[Consumer | None]:
    """Return each source's consumer. Raises ``ValueError`` where two sources have the same one."""
    consumers: list[Consumer | None] = [getattr(source, "consumer", None) for source in sources]
    named = [consumer for consumer in consumers if consumer is not None]
    if len(set(map(id, named))) < len(named):
        raise ValueError("two inputs have one consumer: register one for each")
    return consumers
