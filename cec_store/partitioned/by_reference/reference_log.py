"""The log of commits by reference: opened, followed and added to, on any store.

docs/format.md §12. Any number of processes may add to it at the same time: a number is given once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

from cec_store.errors import CorruptLog, NotAQueue, StorageError
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.frame import SEGMENT_HEADER_BYTES, BadHeader, decode_segment_header
from cec_store.partitioned.by_reference.queue_state import QueueState, summary_base
from cec_store.storage.names import (
    LOG_FOLDER,
    commit_number_of,
    commit_object_name,
    is_log_folder,
    summary_object_name,
)
from cec_store.storage.stores.store import Store, prove_exclusive_creates

_log = logging.getLogger(__name__)


class ReferenceLog:
    """The commits of one queue. Holds nothing but the store, so any thread may use it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- reading ------------------------------------------------------------------------------

    def open(self) -> QueueState:
        """The queue as it is now: at most nine requests, however long the history.

        Raises:
            NotAQueue: there is no commit.
            CorruptLog: a commit is missing or damaged.
        """
        return self.at(self._newest_number())

    def refresh(self, state: QueueState) -> QueueState:
        """The queue as it is now, from what it was: one request for each commit since, and one."""
        while True:
            try:
                commit = self._commit(state.number + 1)
            except FileNotFoundError:
                return state
            state = self._after(state, commit)

    def commit(self, number: int) -> ReferenceObject:
        """One commit; raises :class:`CorruptLog` where it is missing or damaged."""
        try:
            return self._commit(number)
        except FileNotFoundError:
            raise CorruptLog(self._path(number), 0, "a commit is missing") from None

    def first(self) -> ReferenceObject:
        """The commit that made the queue. Raises :class:`CorruptLog` where it is missing."""
        return self.commit(0)

    def created_us(self, number: int) -> int:
        """When a commit was made, by its writer's clock; raises :class:`CorruptLog`."""
        name = commit_object_name(number)
        try:
            return decode_segment_header(self._store.read(name, 0, SEGMENT_HEADER_BYTES)).created_us
        except FileNotFoundError:
            raise CorruptLog(self._path(number), 0, "a commit is missing") from None
        except BadHeader as error:
            raise CorruptLog(self._path(number), 0, str(error)) from None

    def _newest_number(self) -> int:
        folders = [entry.name for entry in self._store.list(LOG_FOLDER) if entry.is_folder]
        for folder in sorted(filter(is_log_folder, folders), reverse=True):
            entries = self._store.list(f"{LOG_FOLDER}/{folder}")
            numbers = [commit_number_of(entry.name) for entry in entries]
            newest = max((number for number in numbers if number is not None), default=None)
            if newest is not None:
                return newest
        raise NotAQueue(f"{self._store.url}: no queue here (there is no commit in {LOG_FOLDER}/)")

    def at(self, number: int) -> QueueState:
        """The queue after an earlier commit; raises :class:`CorruptLog` as :meth:`open`."""
        parts: list[ReferenceObject] = []
        at = number
        while True:
            part = self._summary(at) or self.commit(at)
            parts.append(part)
            base = summary_base(at) if part.is_summary else at - 1
            assert base is not None
            if at == 0 or (part.is_summary and base == 0):
                break
            at = base
        parts.reverse()
        strangers = [part.number for part in parts if part.log_id != parts[0].log_id]
        if strangers:
            raise CorruptLog(self._path(strangers[0]), 0, "a commit of another queue")
        try:
            return QueueState.of(parts)
        except ValueError as error:
            raise CorruptLog(self._path(number), 0, str(error)) from error

    def _after(self, state: QueueState, commit: ReferenceObject) -> QueueState:
        if commit.log_id != state.log_id:
            raise CorruptLog(self._path(commit.number), 0, "a commit of another queue")
        try:
            return state.after(commit)
        except ValueError as error:
            raise CorruptLog(self._path(commit.number), 0, str(error)) from error

    def _summary(self, number: int) -> ReferenceObject | None:
        """``None`` where none is due, or its writer did not come to it."""
        if summary_base(number) is None:
            return None
        name = summary_object_name(number)
        with suppress(FileNotFoundError):
            data = self._store.read(name)
            path = f"{self._store.url}/{name}"
            return ReferenceObject.decode(data, path, number, is_summary=True)
        return None

    def _commit(self, number: int) -> ReferenceObject:
        data = self._store.read(commit_object_name(number))
        return ReferenceObject.decode(data, self._path(number), number)

    def _path(self, number: int) -> str:
        return f"{self._store.url}/{commit_object_name(number)}"

    # -- writing ------------------------------------------------------------------------------

    def make(self, first: ReferenceObject) -> QueueState:
        """Make the queue by its commit 0.

        Raises:
            FileExistsError: there is one.
            NoExclusiveCreate: the store lets two writers make the same object.
        """
        assert first.number == 0
        prove_exclusive_creates(self._store)
        self._store.create(commit_object_name(0), first.encode(_salt()))
        return QueueState.of([first])

    def add(
        self, state: QueueState, next_after: Callable[[QueueState], ReferenceObject | None]
    ) -> QueueState:
        """Add a commit, and return the queue after it.

        ``next_after`` makes it for the queue as it then is, and is asked anew each time that
        somebody else was quicker; ``None``: there is nothing to commit (any more).

        Raises:
            StorageError: it was not made, or nobody can say: open again and look.
        """
        while (commit := next_after(state)) is not None:
            assert commit.number == state.number + 1
            try:
                self._store.create(commit_object_name(commit.number), commit.encode(_salt()))
            except FileExistsError:
                newer = self.refresh(state)
                if newer.number == state.number:
                    path = self._path(commit.number)
                    raise StorageError(f"{path}: is there, and cannot be read") from None
                state = newer
                continue
            state = self._after(state, commit)
            self._summarise(state, commit.created_us)
            break
        return state

    def _summarise(self, state: QueueState, created_us: int) -> None:
        summary = state.summary(created_us)
        if summary is None:
            return
        try:
            name = summary_object_name(state.number)
            self._store.create(name, summary.encode(_salt()))
        except (FileExistsError, StorageError) as error:
            _log.warning("%s: no summary: %s; readers do without", self._path(state.number), error)


def _salt() -> int:
    return secrets.randbits(64)
