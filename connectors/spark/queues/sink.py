"""Writes a query's rows to a queue of many partitions, each batch once. docs/format.md §11."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.spark_types import fit, stored_schema
from cec_store.errors import CecError
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.batches import Segment
from cec_store.partitioned.target import BatchTarget
from cec_store.partitioned.write_options import WriteOptions, parse

_OTHER_NAME = "A new checkpoint, or a fork, needs a txnAppId of its own"
_OTHER_CHECKPOINT = "A copy of a checkpoint has its query's id: cec-store fork makes one of its own"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_Messages = Sequence[spark.WriterCommitMessage | None]


@dataclass
class Written(spark.WriterCommitMessage):
    """Message of one task to the driver: the segments that it wrote."""

    query: str
    batch: int
    segments: list[Segment]
    is_retried: bool


class _Sink:
    """Base of the sinks for batches and streams; pickled and sent to the executors."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        column, keys = options.timestamp_column, options.key_columns
        stored = RecordSchema(stored_schema(schema), timestamp_column=column, key_columns=keys)
        self._target = self._target_of(options, stored)
        self._target.make()

    def _target_of(self, options: WriteOptions, schema: RecordSchema) -> BatchTarget:
        return BatchTarget(options, schema)

    def _write(self, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Written:
        """One task attempt."""
        context = TaskContext.get()
        assert context is not None
        rows = (fit(record_batch, self._target.schema.data) for record_batch in batches)
        segments = self._target.write(query, batch, context.partitionId(), rows)
        return Written(query, batch, segments, context.attemptNumber() > 0)

    def _commit(self, messages: _Messages, advice: str, *, is_stream: bool) -> None:
        """Commit on the driver, once all tasks are done."""
        if written := _written(messages):
            self._target.commit(
                written[0].query, written[0].batch, [s for one in written for s in one.segments],
                is_retried=any(one.is_retried for one in written), advice=advice,
                is_stream=is_stream,
            )  # fmt: skip

    def _abort(self, messages: _Messages) -> None:
        """Forget on the driver what was written, unless a commit may have been tried.

        A commit is tried only once all tasks have got to their end.
        """
        if len(written := _written(messages)) < len(messages):
            self._target.forget(s for one in written for s in one.segments)


class StreamSink(_Sink, spark.DataSourceStreamArrowWriter):
    """``df.writeStream``: exactly once by query and batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(parse(options, is_stream=True), schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if query is None or batch is None:
            raise CecError("Spark does not say which query and batch this task belongs to")
        return self._write(query, int(batch), iterator)

    def commit(self, messages: _Messages, batchId: int) -> None:
        self._commit(messages, _OTHER_CHECKPOINT, is_stream=True)

    def abort(self, messages: _Messages, batchId: int) -> None:
        self._abort(messages)


class BatchSink(_Sink, spark.DataSourceArrowWriter):
    """``df.write`` with ``mode("append")``: all of it or nothing; with ``txnAppId`` once."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a queue is only appended to: mode('append')")
        write_options = parse(options, is_stream=False)
        self._is_stream = write_options.transaction is not None
        self._query, self._batch = write_options.transaction or (str(uuid.uuid4()), 0)
        super().__init__(write_options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write(self._query, self._batch, iterator)

    def commit(self, messages: _Messages) -> None:
        self._commit(messages, _OTHER_NAME, is_stream=self._is_stream)

    def abort(self, messages: _Messages) -> None:
        self._abort(messages)


def _written(messages: _Messages) -> list[Written]:
    """Return the messages of the tasks that finished."""
    return [one for one in messages if isinstance(one, Written)]
