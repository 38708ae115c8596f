"""Commits what tasks have staged to a queue of many partitions: all of a batch, once, or nothing.

docs/format.md §11. There may be several committers, in several processes, one at a time: each holds
the lock of ``commits/`` for the time of a commit, and keeps its files open for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

import pyarrow as pa

from cec_store.errors import CorruptLog, NotAQueue, QueueLocked, SchemaMismatch
from cec_store.format.bodies import encode_body
from cec_store.format.commit import COMMIT_SCHEMA, Commit, Staged
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import create
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.partitioned.commits import newest
from cec_store.partitioned.kept_writers import KeptWriters
from cec_store.partitioned.partitions import is_partitioned
from cec_store.partitioned.staging import StagedReader, Stager, staged_folder
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.folder import FolderTree, Lock
from cec_store.storage.names import (
    COMMITS_FOLDER,
    STAGED_FOLDER,
    WRITER_LOCK,
    partition_name,
)
from cec_store.storage.retrying import retry_while_busy

_AT_ONCE = 8
"""Partitions that are written at the same time; their syncs overlap."""
_LOCK_WAIT_S = 60.0
"""Another query may be committing to the same queue."""
_COMMITS_BYTES = 1 << 20
"""Size of a segment of the log of commits."""


class Committer:
    """The committing side of a queue of many partitions, and the door for its tasks.

    One thread at a time may use it. While a commit is applied, each thread of its pool owns the
    writer and the staged pieces of the partitions that it takes, and sets no field of this object.
    """

    def __init__(
        self,
        folder: FolderTree,
        schema: RecordSchema,
        *,
        segment_bytes: int = 64 << 20,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        """Make the queue where there is none; nothing stays open.

        Raises:
            SchemaMismatch: there is one with other columns.
            NotAQueue: something else is in the folder.
        """
        self._folder = folder
        self._clock_and_entropy = ClockAndEntropy(clock_us)
        self._writers = KeptWriters(folder, self._clock_and_entropy, segment_bytes)
        self._last = Commit()
        self.schema = schema
        if not is_partitioned(folder):
            self._make()
        self._check_schema()

    # -- making -------------------------------------------------------------------------------

    def _make(self) -> None:
        folder = self._folder
        known = {COMMITS_FOLDER, STAGED_FOLDER, partition_name(0)}
        foreign = sorted(set(folder.names()) - known) if folder.exists() else []
        if foreign:
            what = "a queue without partitions" if newest_epoch(folder) is not None else "no queue"
            raise NotAQueue(f"{folder.path}: {what}, and not empty either: {foreign[:3]}")
        folder.make()
        for name in (STAGED_FOLDER, COMMITS_FOLDER):
            folder.folder(name).make()
        with commits_locked(folder):
            if is_partitioned(folder):
                return  # somebody was quicker
            for name, schema in ((partition_name(0), self.schema), (COMMITS_FOLDER, COMMIT_SCHEMA)):
                part = folder.folder(name)
                part.make()
                if newest_epoch(part) is None:
                    create(part, schema, self._clock_and_entropy).close()
            folder.sync_names()

    def _check_schema(self) -> None:
        stored = Chain(self._folder.folder(partition_name(0))).schema()
        if not stored.is_as(self.schema):
            raise SchemaMismatch(
                f"{self._folder.path}: the queue's columns are\n{_described(stored)}\nnot\n"
                f"{_described(self.schema)}"
            )

    # -- tasks --------------------------------------------------------------------------------

    def stager(self, query: str, batch: int, number: int) -> Stager:
        """For one task attempt: what it writes of partition ``number`` of a batch."""
        clock_us = self._clock_and_entropy.clock_us
        return Stager(self._folder, self.schema, query, batch, number, clock_us)

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

    def _forget(self, query: str, batch: int) -> None:
        """Remove what tasks of this query's batches have left, up to this one."""
        staged = self._folder.folder(STAGED_FOLDER)
        for name in staged.names():
            owner, _, number = name.rpartition("-")
            if owner == query and number.isdigit() and int(number) <= batch:
                staged.folder(name).remove()

    def close(self) -> None:
        """Close the files."""
        self._writers.close()

    def _finish_last(self) -> Commit:
        """The newest commit, taken in by all partitions even if a crash has been in the way."""
        before = self._writers.kept(COMMITS_FOLDER)
        if self._writers.writer(COMMITS_FOLDER, COMMIT_SCHEMA) is not before:
            self._last = newest(Chain(self._folder.folder(COMMITS_FOLDER)))
            self._apply(self._last, {})
            self._forget(self._last.query, self._last.batch)
        return self._last

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

    def _apply(self, commit: Commit, readers: dict[Staged, StagedReader]) -> None:
        """Bring every partition to where the commit ends it, from wherever it stands."""
        numbers = {piece.partition for piece in commit.staged}
        if not readers:
            # After a crash, an earlier batch may be on disk with nothing that vouches for it.
            numbers = {n for n, end in enumerate(commit.ends) if self._visible_end(n) < end}
        numbers |= {n for n, end in enumerate(commit.ends) if not end}  # so that they are there
        with ThreadPoolExecutor(_AT_ONCE, "cec-commit") as pool:
            list(pool.map(partial(self._apply_to, commit, readers), sorted(numbers)))

    def _visible_end(self, number: int) -> int:
        try:
            return Chain(self._folder.folder(partition_name(number))).end.offset
        except NotAQueue:
            return 0

    def _apply_to(self, commit: Commit, readers: dict[Staged, StagedReader], number: int) -> None:
        name = partition_name(number)
        writer = self._writers.writer(name, self.schema)
        for piece in commit.staged:
            start = commit.start(piece)
            if piece.partition != number or writer.cursor.offset >= start + piece.records:
                continue
            self._require(start, number, writer)
            reader = readers.get(piece) or self._read(commit, piece)
            for body in reader.bodies(writer.cursor.offset - start):
                self._writers.append(writer, body)
        self._require(commit.ends[number], number, writer)
        writer.sync()

    def _require(self, offset: int, number: int, writer: LogWriter) -> None:
        if writer.cursor.offset < offset:
            path = f"{self._folder.path}/{partition_name(number)}"
            what = f"it ends with record {writer.cursor.offset}, of {offset} that are committed"
            raise CorruptLog(path, 0, what)

    def _read(self, commit: Commit, piece: Staged) -> StagedReader:
        return StagedReader(
            staged_folder(self._folder, commit.query, commit.batch), piece, self.schema
        )

    # -- files --------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the queue; the files are closed if what is done then fails."""
        with commits_locked(self._folder):
            try:
                yield
            except BaseException:
                self.close()
                raise


def commits_locked(folder: FolderTree) -> AbstractContextManager[Lock]:
    """Keeps all others from writing to a queue of many partitions.

    Raises:
        QueueLocked: somebody has been committing for a minute.
    """
    commits = folder.folder(COMMITS_FOLDER)
    return closing(retry_while_busy(lambda: commits.lock(WRITER_LOCK), QueueLocked, _LOCK_WAIT_S))


def _described(schema: RecordSchema) -> str:
    column = schema.timestamp_column
    keys = ", ".join(schema.key_columns)
    columns = schema.data.remove_metadata()
    return f"{columns}\n(timestampColumn {column or 'none'}; keyColumns {keys or 'none'})"
