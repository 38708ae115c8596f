"""Write side: which windows have their footprint where, and which are to be checked now.

CEC paper, III: open windows are ordered by their last footprint (the paper's tau_2), and the oldest
is always the next candidate, because it alone holds the extent open.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cec_store.policy import Policy, Rates

Ints = NDArray[np.int64]
_log = logging.getLogger("cec_store")
_LOOK_AHEAD = 256
_NO_ENTRY = -1


class FootprintOrder:
    """Open windows in the order of their last footprints.

    A ring of entries (slot, offset, input), numbered as they come; an entry is live while it is its
    slot's newest. Everything is done on arrays of slots: adding and removing cost O(how many),
    looking at the oldest costs O(how many, and the dead entries among them). While the extent keeps
    to a target the ring stays as it is; only where more than it holds are open, or dead ones pile
    up behind an old one, are the live ones packed anew.
    """

    def __init__(self) -> None:
        # An entry's numbers side by side: the ring grows into fresh memory at one place at a time.
        self._ring = np.empty((1024, 3), np.int64)
        # Marks in the ring's order: the oldest are found without a look at each one's slot.
        self._is_live = np.zeros(1024, np.bool_)
        self._entry_of = np.full(1024, _NO_ENTRY, np.int64)
        self._head = 0
        self._end = 0
        self.live = 0

    def add(self, slots: Ints, offsets: Ints, inputs: Ints | int) -> None:
        """These windows now have their newest footprint here; offsets rise."""
        if not len(slots):
            return
        self._make_room(len(slots), int(slots.max()))
        self._end_entries(slots)
        begin, self._end = self._end, self._end + len(slots)
        of_all = np.broadcast_to(inputs, slots.shape)
        for part, place in self._stretches(begin, self._end):
            self._ring[place, 0] = slots[part]
            self._ring[place, 1] = offsets[part]
            self._ring[place, 2] = of_all[part]
            self._is_live[place] = True
        self._entry_of[slots] = np.arange(begin, self._end)
        self.live += len(slots)

    def remove(self, slots: Ints) -> None:
        """These windows have closed."""
        self._end_entries(slots)
        self._entry_of[slots] = _NO_ENTRY

    def first(self) -> tuple[int, int] | None:
        """(offset, input) of the oldest footprint; ``None`` without open windows."""
        if not self.live:
            return None
        for _, place in self._stretches(self._head, self._end):
            is_live = self._is_live[place]
            dead = int(is_live.argmax())
            if is_live[dead]:
                self._head += dead
                break
            self._head += len(is_live)
        _, offset, taken = self._ring[self._head & self._mask].tolist()
        return offset, taken

    def oldest(self, count: int) -> tuple[Ints, Ints, Ints]:
        """(slots, offsets, inputs) of up to ``count`` windows, oldest footprint first."""
        looked_at = 4 * count + _LOOK_AHEAD
        entries = self._live(self._head + looked_at)
        while len(entries) < min(count, self.live):
            looked_at *= 4
            entries = self._live(self._head + looked_at)
        found = self._ring[entries[:count] & self._mask]
        return np.ascontiguousarray(found[:, 0]), found[:, 1], found[:, 2]

    @property
    def _mask(self) -> int:
        return len(self._ring) - 1

    def _stretches(self, begin: int, end: int) -> list[tuple[slice, slice]]:
        """Entries from number ``begin`` on: which of them, and where in the ring they stand."""
        size = len(self._ring)
        first, count = begin & self._mask, end - begin
        until_edge = min(count, size - first)
        stretches = [(slice(0, until_edge), slice(first, first + until_edge))]
        if until_edge < count:
            stretches.append((slice(until_edge, count), slice(0, count - until_edge)))
        return stretches

    def _live(self, stop: int) -> Ints:
        """Numbers of the live entries below ``stop``."""
        found = [
            np.flatnonzero(self._is_live[place]) + (self._head + part.start)
            for part, place in self._stretches(self._head, min(stop, self._end))
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _end_entries(self, slots: Ints) -> None:
        if not len(slots):
            return
        entries = self._entry_of[slots]
        if entries.max() == _NO_ENTRY:  # as of windows that open
            return
        if entries.min() == _NO_ENTRY:
            entries = entries[entries != _NO_ENTRY]
        self._is_live[entries & self._mask] = False
        self.live -= len(entries)

    def _make_room(self, count: int, slot_max: int) -> None:
        if slot_max >= len(self._entry_of):
            more = max(slot_max + 1, 2 * len(self._entry_of)) - len(self._entry_of)
            self._entry_of = np.concatenate([self._entry_of, np.full(more, _NO_ENTRY)])
        if self._end + count - self._head <= len(self._ring):
            return
        kept = self._ring[self._live(self._end) & self._mask]
        needed = max(len(kept) + count, 256)
        if not 2 * needed <= len(self._ring) <= 8 * needed:
            size = 1 << (3 * needed - 1).bit_length()
            self._ring = np.empty((size, 3), np.int64)
            self._is_live = np.empty(size, np.bool_)
        self._head, self._end = 0, len(kept)
        self._ring[: self._end] = kept
        self._is_live[:] = False
        self._is_live[: self._end] = True
        self._entry_of[kept[:, 0]] = np.arange(self._end)


class _Allowance:
    """How many CHECKs the time budget still has room for (CI of every CP)."""

    def __init__(self, policy: Policy, rates: Rates, clock_s: Callable[[], float]) -> None:
        self._budget = policy.budget
        self._rates = rates
        self._clock_s = clock_s
        self._period = -1
        self._spent_s = 0.0

    def checks(self) -> float:
        if self._budget is None:
            return math.inf
        period = int(self._clock_s() * 1000 / self._budget.period_ms)
        if period != self._period:
            self._period, self._spent_s = period, 0.0
        left_s = max(0.0, self._budget.interval_ms / 1000 - self._spent_s)
        # One is always tried: without any, a cost once overestimated would never be corrected.
        return max(float(not self._spent_s), left_s // self._rates.check_s_per_record)

    def spend(self, seconds: float) -> None:
        self._spent_s += seconds


class Checkpointer:
    """Keeps the footprints of an operator's windows and plans its CHECKs."""

    def __init__(
        self,
        policy: Policy,
        rates: Rates | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy
        self.rates = rates or Rates()
        self._order = FootprintOrder()
        self._allowance = _Allowance(policy, self.rates, clock_s)
        self._warned = False
        self._planned = 0

    @property
    def open_windows(self) -> int:
        """N."""
        return self._order.live

    def opened(self, slots: Ints, offset: int, position: int) -> None:
        """Windows whose OPEN or CHECK records stand at ``offset`` and the following places."""
        offsets = np.arange(offset, offset + len(slots))
        self._order.add(slots, offsets, position)

    def closed(self, slots: Ints) -> None:
        """Windows that had a footprint and have closed."""
        self._order.remove(slots)

    def restored(self, slots: Ints, offsets: Ints, positions: Ints) -> None:
        """Windows that an eventual checkpoint has brought back, in the order of their offsets."""
        self._order.add(slots, offsets, positions)

    def oldest(self, count: int) -> tuple[Ints, Ints, Ints]:
        """(slots, offsets, inputs) of up to ``count`` windows, oldest footprint first."""
        return self._order.oldest(count)

    def extent(self, end_offset: int) -> int:
        """q: records from the oldest footprint to the end; 0 without open windows."""
        first = self._order.first()
        return end_offset - first[0] if first else 0

    def replay_rows(self, position: int) -> int:
        """u: input rows after the oldest footprint; 0 without open windows."""
        first = self._order.first()
        return position - first[1] if first else 0

    def plan(self, end_offset: int, position: int) -> Ints:
        """Slots to check now: the fewest of the oldest that satisfy the policy.

        The log ends at ``end_offset`` before them; ``position`` is the input taken, summed over
        inputs. What the time budget does not allow waits for a later call.
        """
        none = np.empty(0, np.int64)
        first = self._order.first()
        if first is None:
            return none
        self._warn_once()
        q, u = np.array([end_offset - first[0]]), np.array([position - first[1]])
        if self.policy.acceptable(q, u, self.open_windows, self.rates)[0]:
            return none
        room = int(min(self._allowance.checks(), self.open_windows))
        # One step is like the next: a little more than last time is most likely enough.
        looked_at = max(_LOOK_AHEAD, self._planned + self._planned // 4)
        checks: int | None = None
        while checks is None and room:
            slots, offsets, inputs = self._order.oldest(min(looked_at, room))
            checks = self._fewest(offsets, inputs, end_offset, position)
            if checks is None and len(slots) == room:
                checks = room
            looked_at *= 4
        if not checks:
            return none
        self._planned = checks
        return slots[:checks]

    def _fewest(self, offsets: Ints, inputs: Ints, end_offset: int, position: int) -> int | None:
        """After checking the k oldest, window k is the oldest: the first k that is acceptable."""
        checks = np.arange(len(offsets))
        q, u = end_offset + checks - offsets, position - inputs
        if len(offsets) == self.open_windows:
            q, u = np.append(q, len(offsets)), np.append(u, 0)
        fits = self.policy.acceptable(q, u, self.open_windows, self.rates)
        return int(fits.argmax()) if fits.any() else None

    def spent(self, checks: int, seconds: float) -> None:
        """Writing that many CHECKs took this long."""
        self.rates.observe_checks(checks, seconds)
        self._allowance.spend(seconds)

    def _warn_once(self) -> None:
        unattainable = not self.policy.attainable(self.open_windows)
        if unattainable and not self._warned:
            _log.warning(
                "the extent target is below the %d open windows and cannot be met; "
                "using the open windows as the target",
                self.open_windows,
            )
        self._warned = unattainable
