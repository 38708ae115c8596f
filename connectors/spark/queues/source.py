"""Reads a queue, of many partitions or a plain one, as a batch or as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import datasource as limits
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.spark_types import check_nulls, fit
from cec_store.log.positions import Range
from cec_store.partitioned.offsets import Positions
from cec_store.partitioned.read_options import ReadOptions
from cec_store.partitioned.reading import ALL_MOMENTS_US, QueueReader, StreamReader, read

_Said = dict[str, Any]
_LOW = (spark.EqualTo, spark.GreaterThan, spark.GreaterThanOrEqual)
_HIGH = (spark.EqualTo, spark.LessThan, spark.LessThanOrEqual)


@dataclass
class Slice(spark.InputPartition):
    """Range that one task reads."""

    range: Range
    queue_id: str


class _Rows:
    """Base of the sources for batches and streams; pickled and sent to the executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    def __getstate__(self) -> dict[str, object]:
        """Executors open the queue themselves."""
        return {name: value for name, value in vars(self).items() if name != "_reader"}

    def read(self, partition: spark.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one slice in order, on an executor."""
        if isinstance(partition, Slice):  # Spark passes something else where there are none
            for batch in read(self._options, partition.range, partition.queue_id):
                rows = fit(batch.select(self._wanted.names), self._wanted)
                check_nulls(rows, partition.range.partition)
                yield rows


class BatchSource(_Rows, spark.DataSourceReader):
    """``spark.read``."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._span_us = ALL_MOMENTS_US
        # Spark refuses a reader that takes filters where the user has not allowed it. Ours keeps
        # all rows that match and lets Spark filter again: nothing is lost where it is not called.
        self.pushFilters = _FilterPushdown(self)  # type: ignore[method-assign]

    @cached_property
    def _reader(self) -> QueueReader:
        return QueueReader(self._options)

    def push(self, filters: list[spark.Filter]) -> None:
        """Narrow the moments of interest by the filters on time."""
        for one in filters:
            if isinstance(one, (*_LOW, *_HIGH)) and len(one.attribute) == 1:
                is_least, is_greatest = isinstance(one, _LOW), isinstance(one, _HIGH)
                self._span_us = self._reader.narrowed(
                    self._span_us, one.attribute[0], one.value, is_least, is_greatest
                )

    def partitions(self) -> Sequence[Slice]:
        """Return the slices of all that is there now, on the driver."""
        queue_id = self._reader.queue.queue_id
        return [
            Slice(record_range, queue_id) for record_range in self._reader.ranges(self._span_us)
        ]


class _FilterPushdown:
    """Callable that Spark calls with a query's filters; it returns all: Spark filters again."""

    def __init__(self, reader: BatchSource) -> None:
        self.__func__ = spark.DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[spark.Filter]) -> Iterable[spark.Filter]:
        self._reader.push(filters)
        return filters


class StreamSource(_Rows, spark.DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """``spark.readStream``. See :class:`.Positions` for what its offsets are."""

    @cached_property
    def _reader(self) -> StreamReader:
        return StreamReader(self._options)

    def initialOffset(self) -> _Said:
        return self._reader.begin().said()

    def getDefaultReadLimit(self) -> limits.ReadLimit:
        """Return the limit of the options; Spark passes another limit where it wants all rows."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(options.min_offsets_per_trigger)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._reader.end_here()

    def latestOffset(self, start: _Said, limit: limits.ReadLimit) -> _Said:
        # Spark asks once the batch before is in its checkpoint: after the last one of a run, and
        # while it waits, as well. It calls commit() only when the next batch has rows.
        takes_all = isinstance(limit, limits.ReadAllAvailable)
        return self._reader.next_end(Positions.of(start), takes_all=takes_all).said()

    def reportLatestOffset(self) -> _Said:
        """Return the end of the queue as an offset, for the query's progress."""
        return self._reader.reached().said()

    def partitions(self, start: _Said, end: _Said) -> Sequence[Slice]:
        ranges = self._reader.batch(Positions.of(start), Positions.of(end))
        queue_id = self._reader.queue.queue_id
        return [Slice(record_range, queue_id) for record_range in ranges]

    def commit(self, end: _Said) -> None:
        self._reader.acknowledge(Positions.of(end))

    def stop(self) -> None:
        if "_reader" in vars(self):
            self._reader.close()
