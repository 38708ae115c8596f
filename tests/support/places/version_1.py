"""Queues of version 1 as earlier releases wrote them: tasks stage, one committer takes in.

docs/format.md §11. The package reads such queues, and goes on with them by reference.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from cec_store.format.bodies import (
    RECORDS_BYTES_MAX,
    check_body_size,
    cut_to_frames,
    encode_body,
    encode_columns,
)
from cec_store.format.commit import COMMIT_SCHEMA, Commit, Staged
from cec_store.format.manifest import Manifest
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.retention import FOREVER, Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.creating import create
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.log.options import Compression
from cec_store.log.writer import ClockAndEntropy, Cursor, LogWriter, Predecessor
from cec_store.partitioned.finishing import Finisher, commits_locked
from cec_store.partitioned.making import refuse_what_is_there, require_schema
from cec_store.partitioned.partitions import is_partitioned
from cec_store.partitioned.staging import staged_folder
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.retention import warn_of_other_retention
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import COMMITS_FOLDER, STAGED_FOLDER, partition_name

_COMMITS_BYTES = 1 << 20
"""Size of a segment of the log of commits."""
_FRAME_ROWS = 65_536
_FRAME_BYTES = 4 << 20
_COMPRESSION_LEVEL = 1
_NO_LOG = bytes(16)


class Committer(Finisher):
    """The committing side of a queue of version 1, and the door for its tasks."""

    def __init__(
        self,
        folder: FolderTree,
        schema: RecordSchema,
        *,
        segment_bytes: int = 64 << 20,
        clock_us: Callable[[], int] = now_us,
        retention: Retention | None = None,
    ) -> None:
        """Make the queue where there is none, with this retention; nothing stays open."""
        super().__init__(folder, schema, segment_bytes=segment_bytes, clock_us=clock_us)
        if not is_partitioned(folder):
            self._make(retention or FOREVER)
        require_schema(folder, self.schema)
        if retention is not None:
            warn_of_other_retention(folder.folder(COMMITS_FOLDER), retention)

    def _make(self, retention: Retention) -> None:
        make_folders(self._folder)
        with commits_locked(self._folder):
            if not is_partitioned(self._folder):  # somebody may have been quicker
                make_logs(self._folder, self.schema, self._clock_and_entropy, retention)

    # -- tasks --------------------------------------------------------------------------------

    def stager(
        self, query: str, batch: int, number: int, compression: Compression = Compression.BODY
    ) -> Stager:
        """For one task attempt: what it writes of partition ``number`` of a batch."""
        clock_us = self._clock_and_entropy.clock_us
        return Stager(self._folder, self.schema, query, batch, number, clock_us, compression)

    # -- committing ---------------------------------------------------------------------------

    def commit(
        self, query: str, batch: int, staged: list[Staged], *, is_stream: bool = True
    ) -> bool:
        """Make a batch visible; ``False`` where the query had committed it before.

        Once this returns everything is on disk. Where it fails, the batch is visible as a whole
        once somebody commits again, or never: ask again to know.

        Raises:
            CorruptLog: a piece is not what its task wrote, or the queue is damaged.
            QueueLocked: somebody else is committing.
            StorageError: as by any append.
        """
        with self._locked():
            last = self._finish_last()
            is_new = not (is_stream and last.has(query, batch))
            if is_new and staged:
                pieces = tuple(sorted(staged, key=lambda piece: piece.partition))
                commit = last.following(query, batch, pieces, is_stream=is_stream)
                readers = [self._read(commit, piece) for piece in pieces]
                self._require_as_committed(last, commit.pieces)
                self._append(commit)
                self._apply(commit, dict(zip(pieces, readers, strict=True)))
            self._forget(query, batch)
        return is_new

    def abandon(self, query: str, batch: int) -> None:
        """Forget what the tasks of a batch have written, unless it is committed after all.

        For a batch that failed, perhaps in its commit: once that is on disk, it counts.
        """
        with self._locked():
            self._finish_last()
            self._forget(query, batch)

    def _append(self, commit: Commit) -> None:
        writer = self._writers.writer(COMMITS_FOLDER, COMMIT_SCHEMA)
        if writer.segment_bytes > _COMMITS_BYTES:
            writer.roll()
            # The newest commit stands in the segment before.
            writer.trim(writer.manifest.newest_segment - 1)
        batch = commit.as_batch()
        times = to_timestamps(pa.array([self._clock_and_entropy.clock_us()]))
        writer.append(encode_body(data_records(COMMIT_SCHEMA, batch, times), 1), FrameMarks())
        writer.sync()
        self._last = commit

    def _require_as_committed(self, last: Commit, numbers: Iterable[int]) -> None:
        """Partitions that a batch goes to hold what is committed and nothing else: rows of somebody
        else would pass for the batch's own, or stand before them."""
        parts = self._in_each(sorted(numbers), self._writers.part)
        self._require_none_ahead(last, parts)
        for number, part in parts.items():
            self._require(last.ends[number] if number < len(last.ends) else 0, number, part.written)


class Stager:
    """Writes one piece. Rows become visible with the commit that names it, or never."""

    def __init__(
        self,
        queue: FolderTree,
        schema: RecordSchema,
        query: str,
        batch: int,
        partition: int,
        clock_us: Callable[[], int] = now_us,
        compression: Compression = Compression.BODY,
    ) -> None:
        """For one task attempt of a query's batch; nothing is written before the first row."""
        self._folder = staged_folder(queue, query, batch)
        self._partition = partition
        self._schema = schema
        self._clock_us = clock_us
        self._encode = encode_columns if compression is Compression.COLUMNS else encode_body
        self._segment_id = secrets.randbits(63)
        self._writer: LogWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0
        self._frames = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows, in order. Small batches share a frame.

        Raises:
            SchemaMismatch: columns of another type, or a null where the timestamp should be.
            FrameTooLarge: a single row that does not fit in a frame.
        """
        if batch.num_rows == 0:
            return
        timestamps = self._timestamps(batch)
        self._gathered.append(data_records(self._schema, batch, timestamps))
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _FRAME_ROWS or self._gathered_bytes >= _FRAME_BYTES:
            self._flush()

    def _timestamps(self, batch: pa.RecordBatch) -> pa.Array:
        if self._schema.timestamp_column is not None:
            return to_timestamps(batch.column(self._schema.timestamp_column))
        return to_timestamps(pa.array(np.full(batch.num_rows, self._clock_us(), np.int64)))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._gathered_rows = self._gathered_bytes = 0
        if gathered:
            table = pa.Table.from_batches(gathered).combine_chunks()
            for records in table.to_batches():
                self._write(records)

    def _write(self, records: pa.RecordBatch) -> None:
        for part in cut_to_frames(records, RECORDS_BYTES_MAX):
            check_body_size(part, self._folder.path)
            if self._writer is None:
                self._writer = self._begin()
            self._writer.append(self._encode(part, _COMPRESSION_LEVEL), FrameMarks())
            self._frames += 1

    def _begin(self) -> LogWriter:
        self._folder.make()
        manifest = Manifest(0, _NO_LOG, self._segment_id, self._segment_id)
        clock_and_entropy = ClockAndEntropy(self._clock_us)
        writer = LogWriter(self._folder, manifest, self._schema, Cursor(), clock_and_entropy)
        writer.begin_segment(Predecessor(), self._segment_id)
        return writer

    def finish(self) -> Staged | None:
        """Put it on disk, name included; ``None`` where there were no rows."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.complete()
        self._folder.sync_names()
        records = self._writer.cursor.offset
        self.close()
        return Staged(self._partition, self._segment_id, self._frames, records)

    def close(self) -> None:
        """Close the file, finished or not."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def make_folders(folder: FolderTree) -> None:
    """The folders of a new queue.

    Raises:
        NotAQueue: something else is in the folder.
    """
    refuse_what_is_there(folder, {COMMITS_FOLDER, STAGED_FOLDER, partition_name(0)})
    folder.make()
    for name in (STAGED_FOLDER, COMMITS_FOLDER):
        folder.folder(name).make()


def make_logs(
    folder: FolderTree,
    schema: RecordSchema,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention,
) -> None:
    """The first partition, then the log of commits: with that it is a queue."""
    for name, columns, kept in (
        (partition_name(0), schema, FOREVER),
        (COMMITS_FOLDER, COMMIT_SCHEMA, retention),
    ):
        part = folder.folder(name)
        part.make()
        if newest_epoch(part) is None:
            create(part, columns, clock_and_entropy, kept).close()
    folder.sync_names()
