"""Writes a query's rows to a queue of many partitions, each batch once. docs/format.md §11.

Tasks stage what they have, each in a file of its own; the driver commits the batch. Spark makes a
new writer for each of these calls, in processes that it uses again and that run one call at a time.
So committers with open files are kept in a dictionary of this module, without a lock.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.repeated import say_repeated
from cec_store.connectors.spark.queues.source_options import by_lower_name
from cec_store.connectors.spark.queues.spark_types import fit, stored_schema
from cec_store.errors import CecError
from cec_store.format.commit import Staged
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.committer import Committer
from cec_store.partitioned.staging import Stager
from cec_store.storage.local import LocalFolder

_OPTIONS = ("path", "timestampColumn", "keyColumns", "segmentBytes", "retention")
_TRANSACTION = ("txnAppId", "txnVersion")
_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SEGMENT_BYTES = (4 << 10, 64 << 20, 1 << 30)
"""Least, default and most."""
_OTHER_NAME = "A new checkpoint, or a fork, needs a txnAppId of its own"
_OTHER_CHECKPOINT = "A copy of a checkpoint has its query's id: cec-store fork makes one of its own"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_committers: dict[tuple[str, str], Committer] = {}
"""Those with open files, in the process that Spark runs commits in."""


@dataclass
class Written(WriterCommitMessage):
    """What one task tells the driver."""

    query: str
    batch: int
    staged: Staged | None


@dataclass(frozen=True)
class Target:
    """The queue that is written, as far as the options and the query say."""

    path: str
    schema: RecordSchema
    segment_bytes: int
    retention: Retention | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> Target:
        """Raises ``ValueError`` for options, :class:`SchemaMismatch` for columns."""
        keys = tuple(
            name.strip() for name in given.get("keycolumns", "").split(",") if name.strip()
        )
        column = given.get("timestampcolumn")
        stored = RecordSchema(stored_schema(schema), timestamp_column=column, key_columns=keys)
        retention = given.get("retention")
        return cls(
            given["path"],
            stored,
            _segment_bytes(given.get("segmentbytes")),
            None if retention is None else Retention.of(retention),
        )

    def folder(self) -> LocalFolder:
        """Where the queue is; tests put a folder that fails in its place."""
        return LocalFolder(self.path)

    def committer(self) -> Committer:
        """Makes the queue where there is none; refuses one that does not fit."""
        return Committer(
            self.folder(),
            self.schema,
            segment_bytes=self.segment_bytes,
            retention=self.retention,
        )

    def kept_committer(self) -> Committer:
        """The one of this process, with the files of the last commit open."""
        name = (self.path, str(self.schema))
        if name not in _committers:
            _committers[name] = self.committer()
        return _committers[name]

    def commit(
        self,
        query: str,
        batch: int,
        written: Sequence[Written],
        advice: str,
        is_stream: bool = True,
    ) -> None:
        """On the driver: the batch is in the queue, once. Rows that it has no use for are told."""
        staged = [one.staged for one in written if one.staged is not None]
        if not self.kept_committer().commit(query, batch, staged, is_stream=is_stream):
            say_repeated(self.folder(), query, batch, staged, advice)

    def write(self, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Written:
        """One task attempt: stage all rows of a partition."""
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        with closing(Stager(self.folder(), self.schema, query, batch, number)) as stager:
            for rows in batches:
                stager.append(fit(rows, self.schema.data))
            return Written(query, batch, stager.finish())


def _segment_bytes(text: str | None) -> int:
    least, default, most = _SEGMENT_BYTES
    if text is None:
        return default
    if not text.strip().isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"segmentBytes is {least} to {most}, in bytes, not {text!r}")
    return int(text)


class StreamSink(DataSourceStreamArrowWriter):
    """``df.writeStream.format("cec")``: exactly once by query and batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._target = Target.of(by_lower_name(options, _OPTIONS), schema)
        self._target.committer()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor."""
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if query is None or batch is None:
            raise CecError("Spark does not say which query and batch this task belongs to")
        return self._target.write(query, int(batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, once all tasks are done. Once it returns the batch is on disk."""
        written = _written(messages)
        if written:
            self._target.commit(written[0].query, batchId, written, _OTHER_CHECKPOINT)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver. What a commit may have named stays; other leftovers go with the next."""
        written = _written(messages)
        if written:
            self._target.kept_committer().abandon(written[0].query, batchId)


class BatchSink(DataSourceArrowWriter):
    """``df.write.format("cec").mode("append")``: all of it or nothing.

    In ``foreachBatch``, ``txnAppId`` and ``txnVersion`` (the batch's id) make it exactly once.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a queue is only appended to: mode('append')")
        given = by_lower_name(options, _OPTIONS + _TRANSACTION)
        self._target = Target.of(given, schema)
        transaction = _transaction(given)
        self._is_stream = transaction is not None
        self._query, self._batch = transaction or (str(uuid.uuid4()), 0)
        self._target.committer()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor."""
        return self._target.write(self._query, self._batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, once all tasks are done."""
        written = _written(messages)
        self._target.commit(self._query, self._batch, written, _OTHER_NAME, self._is_stream)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: forget what the tasks have written."""
        self._target.kept_committer().abandon(self._query, self._batch)


def _transaction(given: Mapping[str, str]) -> tuple[str, int] | None:
    """Who writes and which of its batches this is, where the caller says so."""
    app, version = (given.get(name.lower()) for name in _TRANSACTION)
    if app is None and version is None:
        return None
    if app is None or not _APP_ID.fullmatch(app) or version is None or not version.isdecimal():
        raise ValueError(
            "txnAppId (up to 64 letters, digits, '.', '_', '-') and txnVersion (the batch's id) "
            f"go together, not {app!r} and {version!r}"
        )
    return app, int(version)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Of the tasks that got to their end."""
    return [one for one in messages if isinstance(one, Written)]
