"""Reads a queue, of many partitions or a plain one, as a batch or as a stream of Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.offsets import (
    Admission,
    AvailableOffsets,
    Offsets,
    Range,
    cut,
)
from cec_store.connectors.spark.queues.source_options import SourceOptions
from cec_store.connectors.spark.queues.spark_types import fit, spark_schema
from cec_store.errors import ConsumerInUse, OutOfRange
from cec_store.format.schema import KEY, KIND, STATE, TIMESTAMP, RecordKind
from cec_store.log.selection import METADATA_COLUMNS, PARTITION_COLUMN, Selection
from cec_store.partitioned.partitions import Partitions
from cec_store.queues.consumers import Consumer
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.retrying import retry_while_busy
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Position, to_timestamp_us

_RELEASE_S = 3.0
_log = logging.getLogger(__name__)
_KIND_NAMES = pa.array([None, *(kind.name.lower() for kind in RecordKind)])


def columns(options: SourceOptions) -> StructType:
    """What the source's rows consist of; raises :class:`NotAQueue` where there is none."""
    stored = Partitions(LocalFolder(options.path)).schema
    fields = list(stored.data)
    if options.has_control_records:
        fields += [column for column in stored.arrow if column.name in (KEY, STATE)]
    if options.include_metadata:
        timestamp, kind, offset = METADATA_COLUMNS
        fields += [PARTITION_COLUMN, offset, timestamp, kind.with_type(pa.string())]
    return spark_schema(pa.schema(fields))


@dataclass
class Slice(InputPartition):
    """What one task reads."""

    range: Range


class _Reader:
    """What batches and streams have in common; pickled and sent to the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    @cached_property
    def _partitions(self) -> Partitions:
        """On the driver."""
        return Partitions(LocalFolder(self._options.path))

    def __getstate__(self) -> dict[str, object]:
        """Executors open the queue themselves."""
        return {name: value for name, value in vars(self).items() if name != "_partitions"}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one slice, in order."""
        if not isinstance(partition, Slice):
            return  # what Spark passes where there are no partitions
        piece, options = partition.range, self._options
        selection = Selection(
            Position(piece.start), Position(piece.stop), options.kinds,
            options.include_metadata, options.has_control_records,
        )  # fmt: skip
        with closing(Partitions(LocalFolder(options.path))) as partitions:
            for batch in partitions.replay(piece.partition, selection):
                if options.include_metadata:
                    batch = _with_kind_names(batch)
                yield fit(batch.select(self._wanted.names), self._wanted)

    def _available(self) -> AvailableOffsets:
        partitions = self._partitions
        ends = partitions.ends()
        firsts = {number: partitions.first(number) for number in ends}
        return AvailableOffsets(firsts, ends, partitions.offset_at, self._options.fail_on_data_loss)

    def _slices(self, ranges: Iterable[Range]) -> list[Slice]:
        options = self._options
        pieces = cut(list(ranges), options.min_partitions, options.max_records_per_partition)
        return [Slice(piece) for piece in pieces]


def _with_kind_names(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = _KIND_NAMES.take(batch.column(KIND))
    return batch.set_column(batch.schema.get_field_index(KIND), KIND, kinds)


class BatchSource(_Reader, DataSourceReader):
    """``spark.read.format("cec")``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._span_us = (MIN_TIMESTAMP_US, MAX_TIMESTAMP_US)
        # Spark refuses a reader that takes filters where the user has not allowed it. Ours keeps
        # all rows that match and lets Spark filter again: nothing is lost where it is not called.
        self.pushFilters = _FilterPushdown(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> None:
        """Narrow the moments of interest by the filters on time."""
        stored = self._partitions.schema
        times = {TIMESTAMP} if self._options.include_metadata else set()
        if stored.timestamp_column is not None:
            times.add(stored.timestamp_column)
        low, high = self._span_us
        for one in filters:
            if not isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan,
                                    LessThanOrEqual)):  # fmt: skip
                continue
            if len(one.attribute) != 1 or one.attribute[0] not in times:
                continue
            try:
                moment_us = to_timestamp_us(one.value)
            except (TypeError, ValueError):
                continue
            if not isinstance(one, (LessThan, LessThanOrEqual)):
                low = max(low, moment_us)
            if not isinstance(one, (GreaterThan, GreaterThanOrEqual)):
                high = min(high, moment_us)
        self._span_us = (low, high)

    def partitions(self) -> Sequence[InputPartition]:
        """On the driver: the slices, of what is there now."""
        available, options = self._available(), self._options
        starts = available.starting(options)
        ends = available.ending(options.ending)
        return self._slices(
            Range(number, *self._partitions.narrowed(number, start, ends[number], *self._span_us))
            for number, start in sorted(starts.items())
        )


class _FilterPushdown:
    """What Spark calls with the filters of a query. It gives all back: Spark filters again."""

    def __init__(self, reader: BatchSource) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.push(filters)
        return filters


class StreamSource(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("cec")``. Offsets are ``{"<partition>": next unread offset}``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: Offsets | None = None
        self._consumers: dict[int, Consumer] = {}
        self._admission = Admission(
            options.min_offsets_per_trigger, options.max_offsets_per_trigger,
            options.max_trigger_delay_s, time.monotonic,
        )  # fmt: skip

    def initialOffset(self) -> dict[str, int]:
        """Of a new query; one that is restarted goes on where its checkpoint says."""
        start = self._available().starting(self._options)
        self._hold(start)
        return _for_spark(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """As the options say. Spark passes another limit where it wants all."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is for the next run."""
        self._target = self._partitions.ends()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Where the next batch ends."""
        ends = self._partitions.ends()
        # Spark asks once the batch before is in its checkpoint: after the last one of a run, and
        # while it waits, as well. It calls commit() only when the next batch has rows.
        self.commit(start)
        begin = self._begin(_from_spark(start), ends)
        self._hold(begin)
        if self._target is not None:
            ends = {number: self._target.get(number, begin[number]) for number in ends}
        # Offsets must not go back, even where the queue has lost records: partitions() tells then.
        ends = {number: max(end, begin[number]) for number, end in ends.items()}
        if isinstance(limit, ReadAllAvailable):
            return _for_spark(ends)
        is_bounded = self._target is not None
        return _for_spark(self._admission.next(begin, ends, is_bounded=is_bounded))

    def reportLatestOffset(self) -> dict[str, int]:
        """For the query's progress."""
        return _for_spark(self._partitions.ends())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """On the driver: the slices of one batch."""
        available, ends = self._available(), _from_spark(end)
        begin = self._begin(_from_spark(start), ends)
        return self._slices(
            Range(number, available.kept(number, begin[number]), available.kept(number, stop))
            for number, stop in sorted(ends.items())
        )

    def commit(self, end: dict[str, int]) -> None:
        """Everything below has been processed, and its effects are in the query's checkpoint."""
        for number, offset in _from_spark(end).items():
            if number in self._consumers:
                self._consumers[number].acknowledge(effects_saved=offset)

    def stop(self) -> None:
        """The query has ended; the queue keeps what the consumer has not acknowledged."""
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.close()
        if "_partitions" in vars(self):
            self._partitions.close()

    def _hold(self, start: Offsets) -> None:
        """Act as the consumer that the options name, in every partition there is.

        Raises:
            ConsumerInUse: another query does.
        """
        name = self._options.consumer
        for number in sorted(start.keys() - self._consumers.keys()) if name is not None else ():
            offset = max(start[number], self._partitions.first(number))
            queue = self._partitions.queue(number)
            register = partial(self._register, queue, name or "", offset)
            # A query that has just been stopped may not have let go yet.
            self._consumers[number] = retry_while_busy(register, ConsumerInUse, _RELEASE_S)

    def _register(self, queue: OutputQueue, name: str, start: int) -> Consumer:
        """As the consumer of this name; anew where what it had asked for is gone.

        Raises:
            OutOfRange: it is gone, and ``failOnDataLoss`` is on.
        """
        try:
            return queue.consumer(name, start=start)
        except OutOfRange as error:
            if self._options.fail_on_data_loss:
                raise
            _log.warning("%s; going on without what is missing", error)
            queue.drop_consumer(name)
            return queue.consumer(name, start=start)

    def _begin(self, start: Offsets, ends: Offsets) -> Offsets:
        """``start``, with partitions that were added since, from their beginning."""
        first = self._partitions.first
        return {number: start[number] if number in start else first(number) for number in ends}


def _for_spark(offsets: Offsets) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(offsets.items())}


def _from_spark(offsets: dict[str, int]) -> Offsets:
    return {int(number): offset for number, offset in offsets.items()}
