"""The log of commits by reference: opened, followed and added to, on any store.

docs/format.md §11. Any number of processes may add to it at the same time: a number is given once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cec_store.errors import CorruptLog, NotAQueue, QueueReplaced, StorageError
from cec_store.format.by_reference.commits import ReferenceObject, floor_of
from cec_store.format.frame import SegmentHeader
from cec_store.ledger.ages import DOUBT_US
from cec_store.ledger.commit_mark import ADVICE
from cec_store.ledger.commit_objects import CommitObjects
from cec_store.ledger.queue_state import QueueState
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import (
    COMMITS_PER_FOLDER,
    LOG_FOLDER,
    commit_object_name,
    log_folder_name,
)
from cec_store.storage.stores.proving import prove_exclusive_creates
from cec_store.storage.stores.store import Store

_PROVEN_FOR_S = 60.0
"""Seconds after which a follower in a store proves its newest commit again."""
_LOOKS = 8
_PAUSE_S = 0.05
"""Between looks at a commit that may be a late writer's of another queue, which takes it back."""


class ReferenceLog(CommitObjects):
    """The commits of one queue. Keeps no state of the queue, so any thread may use it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._proven_s = time.monotonic()
        self._last: ReferenceObject | None = None
        """The last commit that was read or made, by which its double is known."""

    # -- reading ------------------------------------------------------------------------------

    def open(self) -> QueueState:
        """The queue as it is now: at most eight requests, however long the history.

        Raises:
            NotAQueue: there is no commit.
            CorruptLog: a commit is missing or damaged.
        """
        number = self._newest()
        try:
            state = self.at(number)
        except CorruptLog:
            # It may be a late writer's of another queue, which takes it back.
            time.sleep(_LOOKS * _PAUSE_S)
            newest = self._newest()
            if newest == number:
                raise
            state = self.at(newest)
        return self._upto_mark(state)

    def refresh(self, state: QueueState, *, proving: bool = False) -> QueueState:
        """The queue as it is now, from what it was: one request for each commit since, and one.

        Proves the commit that it began with: always on local disks; in a store where somebody is
        to commit behind it (``proving``), and once a minute.

        Raises:
            QueueReplaced: this queue, as it was, does not stand here any more.
            CorruptLog: a commit is missing or damaged.
        """
        if (anew := self._opened_anew(state)) is not None:
            return self._upto_mark(anew)
        newest = self._followed(state)
        is_due = time.monotonic() - self._proven_s > _PROVEN_FOR_S
        if self.store.appends or proving or is_due:
            self.prove(state)
        return self._upto_mark(newest)

    def young(self, state: QueueState) -> QueueState:
        """Return the state, or that of now where it was the newest an hour ago or longer.

        So commits behind it cannot be deleted yet. Raises as :meth:`refresh`.
        """
        return self.refresh(state) if state.look.age_us > DOUBT_US else state

    def _followed(self, state: QueueState) -> QueueState:
        looks = 0
        while True:
            try:
                name = commit_object_name(state.number + 1)
                data = self.store.read(name)
                commit = ReferenceObject.decode(
                    data, self._path(state.number + 1), state.number + 1, with_since=False
                )
            except FileNotFoundError:
                state.look.renew()
                return state
            if (commit.log_id, commit.after) == (state.log_id, (state.number, state.salt)):
                state = self._after(state, commit)
                self._keep(name, data, commit)
                continue
            self.prove(state)
            looks += 1
            if looks == _LOOKS:
                what = "a commit of another queue, or behind another than the one before it"
                raise self._inconsistent(commit.number, what)
            time.sleep(_PAUSE_S)

    def _opened_anew(self, state: QueueState) -> QueueState | None:
        """Return the queue as it is now, where commits behind this state may be deleted by now.

        They are a day older than a later one that says all; so nobody is asked where the state was
        the newest an hour ago.
        """
        if state.look.age_us <= DOUBT_US:
            return None
        newest = self._newest()
        header = self._header(state.number)
        is_same = header is None or (header.log_id, header.salt) == (state.log_id, state.salt)
        if floor_of(newest) <= state.number or not is_same:
            return None
        anew = self.at(newest)
        return anew if anew.log_id == state.log_id else None

    def _upto_mark(self, state: QueueState) -> QueueState:
        """The state once the commits are there that the mark names; raises `CorruptLog`."""
        before, mark = None, None
        while (mark := self._mark.newest(state.log_id)) and mark.segment_id > state.number:
            if before == (mark.segment_id, state.number):
                raise self._lost(state.number + 1, mark.segment_id)
            before = (mark.segment_id, state.number)
            state = self._followed(state)
        if mark is not None and mark.segment_id == state.number and mark.salt != state.salt:
            what = f"another commit than the one that {self._mark.path} names"
            raise CorruptLog(self._path(state.number), 0, what, ADVICE)
        return state

    def _lost(self, number: int, marked: int) -> CorruptLog:
        what = f"the commit is missing: {self._mark.path} says that the queue had {marked}"
        return CorruptLog(self._path(number), 0, what, ADVICE)

    def prove(self, state: QueueState) -> None:
        """See that the queue that had this state stands here: one request of 128 bytes.

        Raises:
            QueueReplaced: its commit is not here, or another in its place.
            CorruptLog: the commit is damaged, or it was lost.
        """
        path = self._path(state.number)
        header = self._header(state.number)
        if header is None:
            mark = self._mark.newest(state.log_id)
            if mark is not None and mark.segment_id >= state.number:
                raise self._lost(state.number, mark.segment_id)
            what = "it was removed, made anew, or replaced by an older copy"
        elif header.log_id != state.log_id:
            what = "another queue stands here now"
        elif self._is_double(header, state):
            what = f"another writer's is, behind the same commit; {self._two_winners(state.number)}"
        elif header.salt != state.salt:
            what = "a copy that has gone on otherwise stands here now"
        else:
            self._proven_s = time.monotonic()
            return
        raise QueueReplaced(
            f"{path}: commit {state.number} of the queue that was opened is not here any more: "
            f"{what}. Nothing was committed; open the queue again"
        )

    def _is_double(self, header: SegmentHeader, state: QueueState) -> bool:
        """Return whether a commit there goes on from where that of the state does."""
        last = self._last
        if last is None or (last.number, last.salt) != (state.number, state.salt):
            return False
        is_behind_same = (header.prev_segment, header.prev_salt) == last.after
        return header.salt != state.salt and is_behind_same and self.store.racing is not None

    def _two_winners(self, number: int) -> str:
        racing = self.store.racing
        server = self.store.url if racing is None else racing.server()
        return (
            f"the store has broken its promise: {server} let two writers make commit {number}, and "
            "what one of them was told is lost: stop all writers of this queue, and copy it to a "
            "store that makes each object once"
        )

    def _inconsistent(self, number: int, what: str) -> CorruptLog:
        """Return the error for commits that do not fit each other; servers cause it, too."""
        if self.store.racing is None:
            return CorruptLog(self._path(number), 0, what)
        reason = f"{what}; unless files were put here by hand"
        return CorruptLog(self._path(number), 0, reason, self._two_winners(number))

    def has(self, number: int, salt: int, floor: int = 0) -> bool:
        """Return whether commit ``number`` is there and has this salt: 128 bytes.

        One below the ``floor`` of the newest state that is not there is taken for deleted.
        """
        header = self._header(number)
        if header is None:
            return 0 < number < floor
        return header.salt == salt

    def _newest(self) -> int:
        newest = self.newest_number()
        if newest is not None:
            return newest
        if (mark := self._mark.newest()) is not None:
            raise self._lost(mark.segment_id, mark.segment_id)
        raise NotAQueue(f"{self.store.url}: no queue here (there is no commit in {LOG_FOLDER}/)")

    def at(self, number: int) -> QueueState:
        """The queue after an earlier commit; raises :class:`CorruptLog` as :meth:`open`."""
        state = self.kept_at(number, 0)
        assert state is not None, "none is below commit 0"
        return state

    def kept_at(self, number: int, floor: int) -> QueueState | None:
        """Return the same; ``None`` where one was deleted that says it: see :meth:`kept`."""
        parts: list[ReferenceObject] = []
        following: tuple[int, int | None] | None = (number, None)
        while following is not None:
            part = self._part(*following, floor)
            if part is None:
                return None
            parts.append(part)
            following = part.after if part.number else None
        parts.reverse()
        strangers = [part.number for part in parts if part.log_id != parts[-1].log_id]
        if strangers:
            raise CorruptLog(self._path(strangers[0]), 0, "a commit of another queue")
        try:
            state = QueueState.of(parts)
        except ValueError as error:
            raise self._inconsistent(number, str(error)) from error
        for part in parts:
            self._keep_ends(part)
        return state

    def _part(self, number: int, salt: int | None, floor: int) -> ReferenceObject | None:
        """Return the commit of this salt, with what came since an earlier one where it says that.

        ``salt`` is ``None``: whichever it is. Raises :class:`CorruptLog` for another; ``None``
        where it was deleted.
        """
        first = self.first
        is_handed_on = number == 0 and first is not None and first.salt == salt
        part = first if is_handed_on else self.kept(number, floor, keeping=True)
        if part is None:
            return None
        if number == 0:
            self.first = part
        if salt not in (None, part.salt):
            what = "another commit than the one that the queue has gone on from"
            raise self._inconsistent(number, what)
        if number and (part.after is None or part.after[0] != number - 1):
            raise CorruptLog(self._path(number), 0, "it does not name the commit before it")
        return part.at_once()

    def _after(self, state: QueueState, commit: ReferenceObject) -> QueueState:
        try:
            after = state.after(commit)
        except ValueError as error:
            raise self._inconsistent(commit.number, str(error)) from error
        self._last = commit
        return after

    # -- writing ------------------------------------------------------------------------------

    def prove_creates(self) -> None:
        """See that a number is given once; raises as :func:`.prove_exclusive_creates`."""
        prove_exclusive_creates(self.store)

    def make(self, first: ReferenceObject) -> QueueState:
        """Make the queue by its commit 0.

        Raises:
            FileExistsError: there is one.
            NoExclusiveCreate: the store lets two writers make the same object.
        """
        assert first.number == 0
        self.prove_creates()
        first = replace(first, salt=_salt(), after=None)
        self.store.create(commit_object_name(0), first.encode())
        state = QueueState.of([first])
        self.note(state)
        return state

    def forget_mark(self) -> None:
        """Delete the mark, durably: before commits that it names are deleted."""
        self._mark.remove()

    def note(self, state: QueueState) -> None:
        """Put the newest commit into the mark, of a queue that has none."""
        if self._mark.path is None:
            return
        size = self.store.size(commit_object_name(state.number))
        with self._mark.opened() as file:
            self.prove(state)
            if file is not None:
                self._mark.write(file, state.log_id, state.number, state.salt, size)

    def add(
        self, state: QueueState, next_after: Callable[[QueueState], ReferenceObject | None]
    ) -> QueueState:
        """Add a commit, and return the queue after it.

        ``next_after`` makes it for the queue as it then is, and is asked anew each time that
        somebody else was quicker; ``None``: there is nothing to commit (any more).

        Raises:
            QueueReplaced: this queue does not stand here any more; nothing was committed.
            NoExclusiveCreate: the store lets two writers make the same object.
            StorageError: it was not made, or nobody can say: open again and look.
        """
        self.prove_creates()
        while (commit := next_after(state)) is not None:
            assert commit.number == state.number + 1
            if state.look.age_us > DOUBT_US:
                state = self.refresh(state)
                continue
            commit = replace(commit, salt=_salt(), after=(state.number, state.salt))
            following = state.after(commit)
            commit = replace(commit, since=following.since())
            parts = commit.encode()
            if commit.inline:  # only now is it known where its frames stand
                following = state.after(commit.placed(sum(map(len, parts))))
            if not self._is_created(state, commit, parts):
                newer = self.refresh(state, proving=True)
                if newer.number == state.number:
                    path = self._path(commit.number)
                    raise StorageError(f"{path}: is there, and cannot be read")
                state = newer
                continue
            self._last, state = commit, following
            break
        return state

    def settle(self, state: QueueState) -> None:
        """Put the name of a commit on disk, and so of all before it, before anybody relies on them.

        Whoever made it may have died, or have failed, before it was.

        Raises:
            QueueReplaced: this queue does not stand here any more.
        """
        if not self.store.appends:
            return
        try:
            LocalFolder(f"{self.store.url}/{log_folder_name(state.number)}").sync_names()
        except FileNotFoundError:
            self.prove(state)
            raise

    def _is_created(
        self, state: QueueState, commit: ReferenceObject, parts: Sequence[bytes]
    ) -> bool:
        """Create the commit behind a state, proven; ``False``: the number is taken.

        The proof counts once the commit is there, since the queue may go until then. On local
        disks another one before costs little, and leaves a queue that is there undisturbed.
        """
        if self.store.appends:
            self.prove(state)
            if commit.number % COMMITS_PER_FOLDER == 0:
                self.settle(state)  # the one before is in another folder
        with self._mark.opened() as file:
            try:
                self.store.create(commit_object_name(commit.number), parts)
            except FileExistsError:
                return False
            if self._opened_anew(state) is not None:  # its number was free, as it was deleted
                self._take_back(commit)
                return False
            try:
                self.prove(state)
            except QueueReplaced:
                self._take_back(commit)
                raise
            if file is not None:
                size = sum(map(len, parts))
                self._mark.write(file, commit.log_id, commit.number, commit.salt, size)
        return True

    def _take_back(self, commit: ReferenceObject) -> None:
        """Delete a commit that has come into the place of its queue: nobody goes on from it."""
        header = self._header(commit.number)
        if header is not None and header.salt == commit.salt:
            self.store.delete([commit_object_name(commit.number)])


def _salt() -> int:
    return secrets.randbits(64)
