"""Reading a queue as numbered partitions, whether it has many or is a plain one. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import pyarrow as pa

from cec_store.errors import CorruptLog, NotAQueue, ReadOnly
from cec_store.format.commit import Commit
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_epoch, queue_of_part
from cec_store.log.positions import Behind
from cec_store.log.selection import PARTITION_COLUMN, Selection
from cec_store.partitioned.commits import more_than_committed, newest_first
from cec_store.partitioned.staging import staged_folder
from cec_store.queues.output_queue import OutputQueue
from cec_store.queues.retention import read_retention
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.names import (
    COMMITS_FOLDER,
    commit_object_name,
    partition_name,
    segment_name,
)
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

_QUEUES_OPEN_MAX = 32
"""So many partitions may have an index open, which is a descriptor and a mapping for each."""


class Partitions:
    """The partitions of one queue; a plain queue is its own partition 0.

    Queues and chains are opened when first asked for; the queues last used stay open. One thread
    at a time may use it.
    """

    def __init__(self, folder: FolderTree) -> None:
        """Raises :class:`NotAQueue` where there is neither kind."""
        self.folder = folder
        self._queues: dict[int, OutputQueue] = {}
        self._chains: dict[int, Chain] = {}
        self._commits: Chain | None = None
        self._shown: tuple[int, ...] = ()
        if is_partitioned(folder):
            refuse_by_reference(folder)
            self._commits = Chain(folder.folder(COMMITS_FOLDER))
        elif newest_epoch(folder) is None:
            raise NotAQueue(f"{folder.path}: no queue here")
        self.schema: RecordSchema = self.queue(0).schema

    @property
    def path(self) -> str:
        return self.folder.path

    @property
    def queue_id(self) -> str:
        """Its id: 32 hex digits."""
        return (self._commits or self._chains.get(0) or self._chain(0)).queue_id

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a queue of many partitions, though there may be one only as yet."""
        return self._commits is not None

    @property
    def retention(self) -> Retention:
        """What is deleted without being asked; raises :class:`CorruptLog` where it is damaged."""
        return read_retention(self.folder if self._commits is None else self._commits.folder)

    def queue(self, number: int) -> OutputQueue:
        """One partition, open for reading."""
        queue = self._queues.pop(number, None) or OutputQueue(self._folder_of(number), "r")
        self._queues[number] = queue  # the last one used stands last
        while len(self._queues) > _QUEUES_OPEN_MAX:
            self._queues.pop(next(iter(self._queues))).close()
        return queue

    def close(self) -> None:
        """Close the indexes; replays that are under way go on without."""
        while self._queues:
            self._queues.popitem()[1].close()

    def _folder_of(self, number: int) -> FolderTree:
        return self.folder if self._commits is None else self.folder.folder(partition_name(number))

    def first(self, number: int) -> int:
        """Oldest offset that is left of a partition."""
        return self._chain(number).first_offset()

    def ends(self) -> dict[int, int]:
        """Next unread offset of each partition now, with every commit in all of them or in none.

        Raises:
            CorruptLog: damage where the queue was acknowledged; a partition that holds less than
                is committed and nowhere staged, or more.
            NotAQueue: it goes on as a queue of version 2.
        """
        if self._commits is None:
            return {0: self._chain(0).end.offset}
        refuse_by_reference(self.folder)
        while True:
            looked_at = self._commits.refresh().offset
            commits = newest_first(self._commits)
            newest = next(commits, Commit())
            shown = self._shown_of(newest, commits)
            ahead = self._ahead(newest.ends)
            # A record that no header vouches for after a power cut may be why a partition is ahead.
            if ahead is None or self._commits.written_offset > self._commits.end.offset:
                break
            if self._commits.refresh().offset == looked_at:  # else they were committed meanwhile
                raise ahead
        self._shown = shown
        return dict(enumerate(shown))

    def written(self) -> dict[int, int]:
        """Where whole records end in each partition, of which a writer has yet to show some."""
        return self.ends() if self._commits is not None else {0: self._chain(0).written_offset}

    def _shown_of(self, newest: Commit, older: Iterator[Commit]) -> tuple[int, ...]:
        """Where the newest commit ends that all partitions show."""
        if newest.ends == self._shown or self._reach(newest.ends):
            return newest.ends
        self._require_staged(newest)
        oldest = newest
        for commit in older:
            self._require(commit.ends)  # for another commit came after it
            if commit.ends == self._shown or self._reach(commit.ends):
                return commit.ends
            oldest = commit
        ends = oldest.starts
        while len(ends) > 1 and not ends[-1]:
            ends = ends[:-1]  # may have been added by it
        self._require(ends)
        return ends

    def _reach(self, ends: tuple[int, ...]) -> bool:
        """Whether all partitions show that much."""
        for number, end in enumerate(ends):
            if number >= len(self._shown) or end > self._shown[number]:
                try:
                    if self._chain(number).end.offset < end:
                        return False
                except NotAQueue:
                    return False  # the committer is about to make it
        return True

    def _require(self, ends: tuple[int, ...]) -> None:
        """All partitions must hold that much, though after a power cut they may not show it."""
        for number, end in enumerate(ends):
            if number >= len(self._shown) or end > self._shown[number]:
                self._require_end(number, end)

    def _require_end(self, number: int, end: int) -> None:
        try:
            written = self._chain(number).written_offset
        except NotAQueue:
            written = 0
        if written < end:
            what = f"it ends with record {written}, of {end} that are committed"
            raise CorruptLog(self._folder_of(number).path, 0, what)

    def _require_staged(self, commit: Commit) -> None:
        """What a commit adds must be in its partitions, or still be staged for whoever commits
        next: a committer removes what was staged once all partitions hold it."""
        # Listed first: what has gone from there is in the partitions, which are looked at after.
        names: set[str] = set()
        with suppress(FileNotFoundError):  # all of it has been removed
            names = set(staged_folder(self.folder, commit.query, commit.batch).names())
        self._require(commit.starts)
        for number, pieces in commit.pieces.items():
            lost = [at + p.records for p, at in pieces if segment_name(p.segment_id) not in names]
            if lost:
                self._require_end(number, max(lost))

    def _ahead(self, ends: tuple[int, ...]) -> CorruptLog | None:
        """The error for a partition that shows more than is committed, as far as looked at."""
        for number, chain in self._chains.items():
            due = ends[number] if number < len(ends) else 0
            if chain.end.offset > due:
                return more_than_committed(chain.folder.path, chain.end.offset, due)
        return None

    def _chain(self, number: int) -> Chain:
        """A partition as it is now."""
        chain = self._chains.get(number)
        if chain is None:
            chain = self._chains[number] = Chain(self._folder_of(number))
        else:
            chain.refresh()
        return chain

    def behind(self, offsets: Mapping[int, int]) -> Behind | None:
        """Return nothing: a queue that is a log itself has no commits."""
        return None

    def has_behind(self, behind: Behind) -> bool:
        """Return false: the position is one of a queue with commits."""
        return False

    def offset_at(self, number: int, timestamp_us: int) -> int | None:
        """Earliest record of a partition at or after the moment; ``None`` where there is none."""
        offset = self.queue(number).position_at(timestamp_us).offset
        return offset if offset < self.ends().get(number, 0) else None

    def narrowed(
        self, number: int, start: int, stop: int, low_us: int, high_us: int
    ) -> tuple[int, int]:
        """The part of ``[start, stop)`` outside of which no record is of ``low_us … high_us``.

        The index finds its beginning; its end is found by the headers, for moments may go back.
        """
        if low_us > MIN_TIMESTAMP_US:
            start = max(start, self.queue(number).position_at(low_us).offset)
        if high_us < MAX_TIMESTAMP_US and start < stop:
            chain = self._chain(number)
            first = chain.find_offset(start)
            last = start
            for frame in chain.frames(first.address) if first else ():
                if frame.header.first_offset >= stop:
                    break
                if frame.header.min_timestamp_us <= high_us:
                    last = frame.header.end_offset
            stop = min(stop, last)
        return start, max(start, stop)

    def replay(self, number: int, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Batches of a partition, as ``OutputQueue.replay``; metadata has ``_partition`` too."""
        replay = self.queue(number).select(selection)
        if not selection.include_metadata:
            return replay
        cell = pa.scalar(number, PARTITION_COLUMN.type)
        return (
            batch.append_column(PARTITION_COLUMN, pa.repeat(cell, batch.num_rows))
            for batch in replay
        )


def refuse_part_of_another(folder: Folder) -> None:
    """Only a committer appends to the parts of a queue: rows of others would hide committed ones.

    Raises:
        ReadOnly: the folder is a partition of a queue of many, or its log of commits.
    """
    outer = queue_of_part(folder)
    if outer is not None:
        raise ReadOnly(
            f"{folder.path}: a part of {outer.path}, a queue of many partitions, to which only "
            "commits append: write to that by Spark's sink, or copy this folder elsewhere"
        )


def refuse_by_reference(folder: FolderTree) -> None:
    """What was written as version 1 may go on as version 2 at any moment.

    Raises:
        NotAQueue: it does.
    """
    outer, _, name = commit_object_name(0).rpartition("/")
    first, last = outer.split("/")
    try:
        folder.folder(first).folder(last).size(name)
    except FileNotFoundError:
        return
    raise NotAQueue(f"{folder.path}: goes on as a queue of version 2, by reference: open it again")


def is_partitioned(folder: FolderTree) -> bool:
    """Whether there is a queue of many partitions here (docs/format.md §11)."""
    return newest_epoch(folder.folder(COMMITS_FOLDER)) is not None
