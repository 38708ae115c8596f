"""Sessions in time: the open ones of each group, and which of them rows join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cec_store.format.columns import Ints
from cec_store.operators.contract import NO_SLOTS
from cec_store.operators.keys.words import grown


class SessionChains:
    """The open sessions of each group, as chains of slots from the newest one on.

    A batch looks at the sessions of its groups that its rows can reach, and at no others. Slot 0 is
    no session's and ends a chain.
    """

    def __init__(self) -> None:
        self._newest: Ints = np.zeros(1, np.int64)
        """Slot of the youngest session, by group."""
        self._older: Ints = np.zeros(1, np.int64)
        """Slot of the next older session of the group, by slot."""

    def reserve_groups(self, size: int) -> None:
        if size > len(self._newest):
            self._newest = grown(self._newest, size)

    def reserve_slots(self, size: int) -> None:
        if size > len(self._older):
            self._older = grown(self._older, size)

    def clear(self) -> None:
        """Empty all chains."""
        self._newest[:] = 0

    def live_groups(self, bound: int) -> Ints:
        """Groups below ``bound`` that have a session, ascending."""
        return np.flatnonzero(self._newest[:bound])

    def near(self, groups: Ints, reach_us: Ints, lasts_us: Ints) -> tuple[Ints, Ints, Ints]:
        """The sessions of these groups whose last row is at or behind ``reach_us`` of the group.

        Returns their slots, the place of each one's group in ``groups``, and the slot at which each
        group's chain goes on behind them. ``lasts_us`` is by slot.
        """
        rest = self._newest[groups]
        slots, of_group = [NO_SLOTS], [NO_SLOTS]
        place, current = np.arange(len(groups)), rest
        # Each round is a step along all chains that have not ended: sessions of a group that are
        # open at once are few, unless the watermark's delay is many times the gap.
        while len(place):
            is_near = (current > 0) & (lasts_us[current] >= reach_us[place])
            place, current = place[is_near], current[is_near]
            slots.append(current)
            of_group.append(place)
            current = self._older[current]
            rest[place] = current
        return np.concatenate(slots), np.concatenate(of_group), rest

    def link(self, groups: Ints, of_group: Ints, slots: Ints, rest: Ints) -> None:
        """Let the chains of these groups be the given slots, and ``rest`` behind them.

        ``of_group`` is the place of each slot's group; the slots stand by group and time.
        """
        self._newest[groups] = rest
        if not len(slots):
            return
        is_first = np.append(True, of_group[1:] != of_group[:-1])
        older = np.append(0, slots[:-1])
        self._older[slots] = np.where(is_first, rest[of_group], older)
        is_last = np.append(is_first[1:], True)
        self._newest[groups[of_group[is_last]]] = slots[is_last]


@dataclass(frozen=True)
class Stretches:
    """Rows and sessions of a group that hang together, by group and time.

    Arrays by row and by session name the stretch of each.
    """

    groups: Ints
    """Place of each one's group."""
    spans: Ints
    """First and last time of each in microseconds, shape (stretches, 2)."""
    of_rows: Ints
    of_sessions: Ints
    first_rows: Ints
    """First row of each in the order of the rows; of one without rows, anything."""
    slots: Ints
    """Filled in by whoever gives each a slot."""

    @property
    def count(self) -> int:
        """Number of stretches."""
        return len(self.groups)


def stretches_of(
    times_us: Ints, groups: Ints, spans: Ints, session_groups: Ints, gap_us: int
) -> Stretches:
    """Put together what lies within ``gap_us`` of one another in a group.

    Rows by time and group; sessions by first and last time, shape (sessions, 2), and group.
    """
    rows, sessions = len(times_us), len(spans)
    times = np.concatenate([times_us, spans[:, 0], spans[:, 1]])
    of_group = np.concatenate([groups, session_groups, session_groups])
    depth = np.concatenate(
        [np.zeros(rows, np.int8), np.ones(sessions, np.int8), np.full(sessions, -1, np.int8)]
    )
    order = np.lexsort((-depth, times, of_group))
    times, of_group = times[order], of_group[order]
    inside = np.cumsum(depth[order], dtype=np.int64)[:-1] > 0
    begins = np.ones(len(order), np.bool_)
    begins[1:] = of_group[1:] != of_group[:-1]
    begins[1:] |= _exceeds(times, gap_us) & ~inside
    number = np.cumsum(begins) - 1
    stretch = np.empty(len(order), np.int64)
    stretch[order] = number
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    of_rows = stretch[:rows]
    first_rows = np.zeros(len(first), np.int64)
    first_rows[of_rows[::-1]] = np.arange(rows)[::-1]
    return Stretches(
        groups=of_group[first],
        spans=np.stack([times[first], times[last]], axis=1),
        of_rows=of_rows,
        of_sessions=stretch[rows : rows + sessions],
        first_rows=first_rows,
        slots=np.zeros(len(first), np.int64),
    )


def _exceeds(times: Ints, gap_us: int) -> NDArray[np.bool_]:
    """Return True where the next time is more than the gap later, if it is not earlier."""
    # A difference of two int64 may need 64 bits without a sign.
    exceeds: NDArray[np.bool_] = np.diff(times.view(np.uint64)) > np.uint64(gap_us)
    return exceeds
