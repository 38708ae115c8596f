"""Finishes what the last committer of a queue of version 1 has begun, and hands the queue over.

docs/format.md §11. There may be committers of earlier releases, one at a time: each holds the lock
of ``commits/`` for the time of a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TypeVar

from cec_store.errors import CorruptLog, QueueLocked
from cec_store.format.commit import COMMIT_SCHEMA, Commit, Staged
from cec_store.format.manifest import BY_REFERENCE
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.epochs import supersede
from cec_store.log.writer import ClockAndEntropy
from cec_store.partitioned.commits import more_than_committed, newest
from cec_store.partitioned.kept_writers import KeptWriters, Part
from cec_store.partitioned.partitions import refuse_by_reference
from cec_store.partitioned.staging import StagedReader, staged_folder
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
_Answer = TypeVar("_Answer")


class Finisher:
    """Brings all partitions to where the newest commit ends them.

    For one thread. While a commit is applied, each thread of its pool owns the writer and the
    staged pieces of the partitions that it takes, and sets no field of this object.
    """

    def __init__(
        self,
        folder: FolderTree,
        schema: RecordSchema,
        *,
        segment_bytes: int = 64 << 20,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self._folder = folder
        self._clock_and_entropy = ClockAndEntropy(clock_us)
        self._writers = KeptWriters(folder, self._clock_and_entropy, segment_bytes)
        self._last = Commit()
        self.schema = schema

    def hand_over(self, go_on: Callable[[Commit], None]) -> None:
        """Finish the newest commit, keep those out who do not know version 2, and let it begin.

        ``go_on`` makes its first commit; until that is there the queue is one of version 1.
        """
        with self._locked():
            last = self._finish_last()
            self.close()
            supersede(self._folder.folder(COMMITS_FOLDER), BY_REFERENCE)
            go_on(last)

    def _forget(self, query: str, batch: int) -> None:
        """Remove what tasks of this query's batches have left, up to this one."""
        staged = self._folder.folder(STAGED_FOLDER)
        # A copy of a queue may lack the folder, as nothing need be in it.
        for name in staged.names() if staged.exists() else ():
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
            refuse_by_reference(self._folder)
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
