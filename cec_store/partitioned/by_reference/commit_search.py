"""Finds the commit that holds the last record before a position. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import Behind

_KNOWN_MAX = 64
"""Commits that are remembered: a search by halves asks for fewer, and readers go on from there."""


class _Known(NamedTuple):
    """A commit that is remembered."""

    salt: int
    ends: Sequence[int]


class CommitSearch:
    """Remembers a few commits, so that a reader that goes on asks for none or few. For one thread.

    Ends never fall from one commit to the next, so the first one that reaches a position is found
    by halves: in the steps of a reader that follows, without a request.
    """

    def __init__(self, log: ReferenceLog) -> None:
        self._log = log
        self._known: dict[int, _Known] = {}

    def behind(self, state: QueueState, offsets: Mapping[int, int]) -> Behind:
        """Return the first commit up to ``state`` with every record below these offsets.

        That is the first one that is left, where it was deleted.
        """
        self._remember(state.number, _Known(state.salt, state.commit.ends))
        below = [n for n, known in self._known.items() if not _reaches(known.ends, offsets)]
        low = max((n for n in below if n < state.number), default=-1)
        high = min((n for n in self._known if low < n <= state.number), default=state.number)
        is_known_below, step = low >= 0, 1
        # A reader that goes on is near the last position, a new one near the end.
        while low < (middle := low + step if is_known_below else high - step) < high:
            is_reached = self._is_reached(middle, state, offsets)
            low, high = (low, middle) if is_reached else (middle, high)
            if is_reached == is_known_below:
                break
            step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            is_reached = self._is_reached(middle, state, offsets)
            low, high = (low, middle) if is_reached else (middle, high)
        commit = self._commit(high, state)
        assert commit is not None, "no commit before the one found is asked for again"
        return Behind(high, commit.salt)

    def _is_reached(self, number: int, state: QueueState, offsets: Mapping[int, int]) -> bool:
        """Return whether a commit has these records; of one that was deleted it is not known."""
        commit = self._commit(number, state)
        return commit is not None and _reaches(commit.ends, offsets)

    def first_beyond(self, state: QueueState, offsets: Mapping[int, int]) -> int:
        """Return the first commit with a record at or beyond one of the offsets of its partition.

        The number behind ``state`` where there is none. Of those that were deleted it is not known:
        the first one that is left has their records, too.
        """
        low, high, step = -1, state.number + 1, 1
        while high - low > 1:
            # A reader that follows is near the end.
            middle = max(high - step, (low + high) // 2 if low >= 0 else 0)
            if _has_more(self.ends(state, middle) or (), offsets):
                high, step = middle, 2 * step
            else:
                low = middle
        return high

    def ends(self, state: QueueState, number: int) -> Sequence[int] | None:
        """Return the next offset of each partition after a commit; ``None``: it was deleted."""
        commit = self._commit(number, state)
        return None if commit is None else commit.ends

    def _commit(self, number: int, state: QueueState) -> _Known | None:
        if number not in self._known and (followed := self._log.followed(number)) is not None:
            self._remember(number, _Known(*followed))
        if number not in self._known:
            part = self._log.kept(number, state.floor)
            if part is None:
                return None
            self._remember(number, _Known(part.salt, part.commit.ends))
        return self._known[number]

    def _remember(self, number: int, commit: _Known) -> None:
        """Keep a commit, and let go of the one that was kept first where there are many."""
        if number not in self._known and len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[number] = commit


def _has_more(ends: Sequence[int], offsets: Mapping[int, int]) -> bool:
    return any(end > offsets.get(n, 0) for n, end in enumerate(ends))


def _reaches(ends: Sequence[int], offsets: Mapping[int, int]) -> bool:
    return all(offset <= (ends[n] if n < len(ends) else 0) for n, offset in offsets.items())
