"""Commits what tasks have staged to a queue of many partitions: all of a batch, once, or nothing.

docs/format.md §11. There may be several committers, in several processes, one at a time: each holds
the lock of ``commits/`` for the time of a commit, and keeps its files open for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TypeVar

import pyarrow as pa

from cec_store.errors import CorruptLog, QueueLocked
from cec_store.format.bodies import encode_body
from cec_store.format.commit import COMMIT_SCHEMA, Commit, Staged
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.retention import FOREVER, Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.frames import FrameMarks
from cec_store.log.options import Compression
from cec_store.log.writer import ClockAndEntropy
from cec_store.partitioned.commits import more_than_committed, newest
from cec_store.partitioned.kept_writers import KeptWriters, Part
from cec_store.partitioned.making import make_folders, make_logs, require_schema
from cec_store.partitioned.partitions import is_partitioned
from cec_store.partitioned.staging import StagedReader, Stager, staged_folder
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.retention import warn_of_other_retention
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
_Answer = TypeVar("_Answer")


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
        retention: Retention | None = None,
    ) -> None:
        """Make the queue where there is none, with this retention; nothing stays open.

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
        numbers = {*commit.pieces}
        if not readers:
            numbers, readers = self._unfinished(commit)
        numbers |= {n for n, end in enumerate(commit.ends) if not end}  # so that they are there
        self._in_each(sorted(numbers), partial(self._apply_to, commit, readers))

    def _in_each(
        self, numbers: Sequence[int], work: Callable[[int], _Answer]
    ) -> dict[int, _Answer]:
        with ThreadPoolExecutor(_AT_ONCE, "cec-commit") as pool:
            return dict(zip(numbers, pool.map(work, numbers), strict=True))

    def _unfinished(self, commit: Commit) -> tuple[set[int], dict[Staged, StagedReader]]:
        """Partitions that do not show all of a commit, and the pieces that they lack. After a
        crash, that may be an earlier batch, which is on disk with nothing that vouches for it.

        Raises:
            CorruptLog: one holds more than is committed, or less than can be finished.
        """
        parts = self._in_each(range(len(commit.ends)), self._writers.part)
        self._require_none_ahead(commit, parts)
        readers = {}
        for number, part in parts.items():
            self._require(commit.starts[number], number, part.written)
            for piece, start in commit.pieces.get(number, ()):
                end = start + piece.records
                if part.written < end:
                    try:
                        readers[piece] = self._read(commit, piece)
                    except CorruptLog as error:
                        what = f"it ends with record {part.written}, of {end} that are committed"
                        what += f"; what was staged is damaged too: {error.path}: {error.reason}"
                        raise CorruptLog(self._path_of(number), 0, what) from error
        return {n for n, end in enumerate(commit.ends) if parts[n].visible < end}, readers

    def _require_none_ahead(self, commit: Commit, parts: Mapping[int, Part]) -> None:
        for number, part in parts.items():
            due = commit.ends[number] if number < len(commit.ends) else 0
            if part.written > due:
                raise more_than_committed(self._path_of(number), part.written, due)

    def _require_as_committed(self, last: Commit, numbers: Iterable[int]) -> None:
        """Partitions that a batch goes to hold what is committed and nothing else: rows of somebody
        else would pass for the batch's own, or stand before them."""
        parts = self._in_each(sorted(numbers), self._writers.part)
        self._require_none_ahead(last, parts)
        for number, part in parts.items():
            self._require(last.ends[number] if number < len(last.ends) else 0, number, part.written)

    def _apply_to(self, commit: Commit, readers: dict[Staged, StagedReader], number: int) -> None:
        writer = self._writers.writer(partition_name(number), self.schema)
        for piece, start in commit.pieces.get(number, ()):
            here = writer.cursor.offset
            if here >= start + piece.records:
                continue
            self._require(start, number, here)
            reader = readers.get(piece) or self._read(commit, piece)
            if here > start:
                self._require_same(reader, number, start)
            for body in reader.bodies(here - start):
                self._writers.append(writer, body)
        if writer.cursor.offset > commit.ends[number]:
            ends = (writer.cursor.offset, commit.ends[number])
            raise more_than_committed(self._path_of(number), *ends)
        self._require(commit.ends[number], number, writer.cursor.offset)
        writer.sync()
        self._writers.rest(writer)

    def _require(self, offset: int, number: int, end: int) -> None:
        if end < offset:
            what = f"it ends with record {end}, of {offset} that are committed"
            raise CorruptLog(self._path_of(number), 0, what)

    def _require_same(self, reader: StagedReader, number: int, start: int) -> None:
        """What a crash has left of a piece in its partition, beginning at ``start``."""
        chain = Chain(self._folder.folder(partition_name(number)))
        first = chain.find_offset(start)
        found = chain.frames(first.address) if first is not None else ()
        if not reader.begins_with(frame.header for frame in found):
            raise more_than_committed(self._path_of(number), chain.end.offset, start)

    def _path_of(self, number: int) -> str:
        return f"{self._folder.path}/{partition_name(number)}"

    def _read(self, commit: Commit, piece: Staged) -> StagedReader:
        return StagedReader(
            staged_folder(self._folder, commit.query, commit.batch), piece, self.schema
        )

    # -- files --------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the queue; the files are closed if what is done then fails."""
        with commits_locked(self._folder):
            self._writers.look_again()
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
