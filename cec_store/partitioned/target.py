"""A queue that tasks of many processes write batches to, as each of them knows it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from cec_store.format.schema import RecordSchema
from cec_store.partitioned.batches import BatchCommitter, Segment, write_segments
from cec_store.partitioned.by_reference.segment_objects import forget
from cec_store.partitioned.write_options import WriteOptions
from cec_store.storage.stores.folders import AnyFolder, folder_at, store_of
from cec_store.storage.stores.store import Store

_committers: dict[str, BatchCommitter] = {}
"""Committers by target, since each keeps what it knows of the queue. For one thread."""
_KEPT_MAX = 16


class BatchTarget:
    """May be pickled, and be unpickled by each task and for each commit."""

    def __init__(self, options: WriteOptions, schema: RecordSchema) -> None:
        self.schema = schema
        """The columns of the rows, in their order; once the queue is made those of the queue are
        written."""
        self._stored = schema
        self._options = options
        self._id = uuid.uuid4().hex

    def make(self) -> None:
        """Make the queue where there is none; raises as :class:`.batches.BatchCommitter`."""
        self._stored = self._committer().schema

    def _folder(self) -> AnyFolder:
        return folder_at(self._options.path, self._options.storage)

    def store(self) -> Store:
        """Return the store that the queue is in; tests put one that fails in its place."""
        store = store_of(self._folder())
        assert store is not None
        return store

    def _committer(self) -> BatchCommitter:
        if self._id not in _committers:
            if len(_committers) == _KEPT_MAX:
                _committers.clear()
            retention = self._options.retention
            made = BatchCommitter(self._folder(), self.store(), self.schema, retention)
            _committers[self._id] = made
        return _committers[self._id]

    def write(
        self, query: str, batch: int, partition: int, rows: Iterable[pa.RecordBatch]
    ) -> list[Segment]:
        """One task attempt; raises as :func:`.batches.write_segments`."""
        return write_segments(
            self.store(), self._stored, query, batch, partition, rows,
            segment_bytes=self._options.segment_bytes,
        )  # fmt: skip

    def commit(
        self, query: str, batch: int, segments: Sequence[Segment], *, is_retried: bool, advice: str,
        is_stream: bool = True,
    ) -> None:  # fmt: skip
        """Commit a batch: it is on disk on return. Raises as `BatchCommitter.commit`."""
        try:
            self._committer().commit(
                query, batch, segments, is_stream=is_stream, is_retried=is_retried, advice=advice
            )
        except BaseException:
            _committers.pop(self._id, None)  # whatever it has come to: look again
            raise

    def forget(self, segments: Iterable[Segment]) -> None:
        """Delete the objects of a batch that nobody has tried to commit.

        After an attempt its commit may name them, so they have to stay.
        """
        forget(self.store(), [segment["file"] for segment in segments])
