"""The objects of `log/`: which are there, and what is in each. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

import pyarrow.compute as pc

from cec_store.errors import CorruptLog
from cec_store.format.by_reference.commits import WRITER_SETTING, ReferenceObject
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    SegmentHeader,
    decode_segment_header,
)
from cec_store.format.scan import refusal
from cec_store.format.schema import RecordSchema
from cec_store.ledger.commit_mark import CommitMark
from cec_store.ledger.queue_state import QueueState
from cec_store.storage.names import (
    COMMITS_PER_FOLDER,
    LOG_FOLDER,
    commit_number_of,
    commit_object_name,
    is_log_folder,
)
from cec_store.storage.stores.store import Store
from cec_store.values import MIN_TIMESTAMP_US

_KEPT_BYTES_MAX = 8 << 20
"""Bytes of commits that are kept for who reads their rows: many groups of 1 MiB."""
_ENDS_MAX = 4096
"""Commits of which salt and ends are remembered."""


class CommitEnds(NamedTuple):
    """A commit of a history that is known, without its segments."""

    salt: int
    ends: tuple[int, ...]
    """Next offset of each partition."""


class CommitObjects:
    """The commits of one queue, one by one. Any thread may use it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._mark = CommitMark(store)
        self.first: ReferenceObject | None = None
        """Commit 0, where it was read."""
        self._kept: dict[str, bytes] = {}
        """The last commits that were read and hold rows, the oldest read first."""
        self._ends: dict[int, CommitEnds] = {}
        """The last commits that were opened, followed or searched, by number."""
        self._keeping = Lock()
        """Held by whoever adds to these two."""

    # -- which are there ----------------------------------------------------------------------

    def is_there(self) -> bool:
        """Return True if a queue by commits is here, or the mark of one that was lost.

        Commit 0 is read for it, and handed on to who opens the queue next.
        """
        try:
            self.first = self._commit(0)
        except FileNotFoundError:
            self.first = None
            return self._mark.newest() is not None
        return True

    @property
    def has_one_writer(self) -> bool:
        """Return True if commit 0, as it was read, makes a queue of one writer."""
        return self.first is not None and WRITER_SETTING in self.first.commit.settings

    def numbers_below(self, stop: int) -> list[int]:
        """Return the numbers of the commits that are there and below this one, in their order."""
        numbers = [n for inside in self._by_folder(stop) for n in inside if n < stop]
        return sorted(numbers)

    def newest_number(self) -> int | None:
        """Return the number of the newest commit; ``None`` where there is none."""
        return next((max(inside) for inside in self._by_folder() if inside), None)

    def _by_folder(self, stop: int | None = None) -> Iterator[list[int]]:
        """Yield the numbers in each folder of commits, those of the newest first."""
        folders = [entry.name for entry in self.store.list(LOG_FOLDER) if entry.is_folder]
        for folder in sorted(filter(is_log_folder, folders), reverse=True):
            if stop is None or int(folder) * COMMITS_PER_FOLDER < stop:
                entries = self.store.list(f"{LOG_FOLDER}/{folder}")
                numbers = [commit_number_of(entry.name) for entry in entries]
                yield [number for number in numbers if number is not None]

    # -- one of them --------------------------------------------------------------------------

    def kept(self, number: int, floor: int, *, keeping: bool = False) -> ReferenceObject | None:
        """Return a commit; ``None`` where it was deleted, being below the newest state's ``floor``.

        Raises:
            CorruptLog: it is missing, or damaged.
        """
        try:
            return self._commit(number, keeping=keeping)
        except FileNotFoundError:
            if 0 < number < floor:
                return None
            raise CorruptLog(self._path(number), 0, "a commit is missing") from None

    def commit(self, number: int) -> ReferenceObject:
        """One commit; raises :class:`CorruptLog` where it is missing or damaged."""
        commit = self.kept(number, 0)
        assert commit is not None, "none is below commit 0"
        return commit

    def schema(self, state: QueueState) -> RecordSchema:
        """Return the columns of the queue that had this state.

        Raises:
            CorruptLog: commit 0 is missing, or does not say them.
        """
        if self.first is None or self.first.log_id != state.log_id:
            self.first = self.commit(0)
        schema = self.first.commit.schema
        if schema is None:
            what = "the commit that makes the queue says nothing of its columns"
            raise CorruptLog(self._path(0), 0, what)
        return schema

    def made_us(self, number: int, floor: int = 0) -> int:
        """Return when a commit was made, by the store's clock: microseconds since 1970.

        The least there is for one that was deleted, being below the newest state's ``floor``.

        Raises:
            CorruptLog: the commit is missing.
        """
        try:
            return self.store.modified_us(commit_object_name(number))
        except FileNotFoundError:
            if 0 < number < floor:
                return MIN_TIMESTAMP_US
            raise CorruptLog(self._path(number), 0, "a commit is missing") from None

    def _header(self, number: int) -> SegmentHeader | None:
        try:
            data = self.store.read(commit_object_name(number), 0, SEGMENT_HEADER_BYTES)
            return decode_segment_header(data)
        except FileNotFoundError:
            return None
        except BadHeader as error:
            raise refusal(self._path(number), 0, error) from None

    def _commit(self, number: int, *, keeping: bool = False) -> ReferenceObject:
        name = commit_object_name(number)
        data = self.store.read(name)
        commit = ReferenceObject.decode(data, self._path(number), number)
        if keeping:
            self._keep_rows(name, data, commit)
        return commit

    def _keep(self, name: str, data: bytes, commit: ReferenceObject) -> None:
        """Keep a commit that is followed, for who looks for positions or reads its rows next."""
        self._keep_ends(commit)
        self._keep_rows(name, data, commit)

    def _keep_ends(self, commit: ReferenceObject) -> CommitEnds:
        kept = CommitEnds(commit.salt, commit.commit.ends)
        with self._keeping:
            self._ends[commit.number] = kept
            if len(self._ends) > _ENDS_MAX:
                del self._ends[next(iter(self._ends))]
        return kept

    def _keep_rows(self, name: str, data: bytes, commit: ReferenceObject) -> None:
        if not pc.any(pc.equal(commit.segments.column("file"), name)).as_py():
            return
        with self._keeping:
            self._kept[name] = data
            while sum(map(len, self._kept.values())) > _KEPT_BYTES_MAX:
                del self._kept[next(iter(self._kept))]

    def ends(self, number: int, floor: int) -> CommitEnds | None:
        """Return salt and ends of a commit, mostly without a request; raises as :meth:`kept`.

        ``None`` where it was deleted. It is one up to a state of this queue.
        """
        may_be_deleted = 0 < number < floor
        known = None if may_be_deleted else self._ends.get(number)
        if known is None and (commit := self.kept(number, floor)) is not None:
            known = self._keep_ends(commit)
        return known

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Return bytes of an object of the queue, without a request where a follower has read it.

        Raises as :meth:`Store.read`.
        """
        data = self._kept.get(name)
        if data is None:
            return self.store.read(name, byte, size)
        return data[byte : byte + size]

    def _path(self, number: int) -> str:
        return f"{self.store.url}/{commit_object_name(number)}"
