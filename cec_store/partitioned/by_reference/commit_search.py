"""Finds the commit that holds the last record before a position. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import Behind


class CommitSearch:
    """Begins where it ended, so that a reader that goes on asks for none or few. For one thread.

    Ends never fall from one commit to the next, so the first one that reaches a position is found
    by halves: in the steps of a reader that follows, without a request.
    """

    def __init__(self, log: ReferenceLog) -> None:
        self._log = log
        self._known: set[int] = set()
        """Commits between which the last position was found."""

    def behind(self, state: QueueState, offsets: Mapping[int, int]) -> Behind:
        """Return the first commit up to ``state`` with every record below these offsets.

        That is the first one that is left, where it was deleted.
        """
        salts = {state.number: state.salt}

        def is_reached(number: int) -> bool:
            commit = self._log.ends(number, state.floor)
            if commit is None:
                return False  # of one that was deleted it is not known
            salts[number] = commit.salt
            return all(
                offset <= (commit.ends[n] if n < len(commit.ends) else 0)
                for n, offset in offsets.items()
            )

        known = [n for n in self._known if n < state.number]
        low = max((n for n in known if not is_reached(n)), default=-1)
        high = min((n for n in known if n > low), default=state.number)
        is_known_below, step = low >= 0, 1
        # A reader that goes on is near the last position, a new one near the end.
        while low < (middle := low + step if is_known_below else high - step) < high:
            is_it = is_reached(middle)
            low, high = (low, middle) if is_it else (middle, high)
            if is_it == is_known_below:
                break
            step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_reached(middle) else (middle, high)
        self._known = {low, high} - {-1}
        return Behind(high, salts[high])

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
        commit = self._log.ends(number, state.floor)
        return None if commit is None else commit.ends


def _has_more(ends: Sequence[int], offsets: Mapping[int, int]) -> bool:
    return any(end > offsets.get(n, 0) for n, end in enumerate(ends))
