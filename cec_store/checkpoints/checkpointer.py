"""Write side: which windows have their footprint where, and which are to be checked now.

CEC paper, III: open windows are ordered by their last footprint (the paper's tau_2), and the oldest
is always the next candidate, because the extent begins at it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import numpy as np

from cec_store.checkpoints.footprints import LOOK_AHEAD, FootprintOrder
from cec_store.checkpoints.policy import Policy
from cec_store.checkpoints.rates import Rates
from cec_store.format.columns import Ints

_log = logging.getLogger(__name__)


class _CheckBudget:
    """CHECKs for which the time budget still has room (CI of every CP)."""

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
        # Allow at least one a period: without any, an estimate that is too high would never fall.
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
        self._budget_left = _CheckBudget(policy, self.rates, clock_s)
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

    def adopt(self, order: FootprintOrder) -> None:
        """The windows, as somebody has kept them in order who followed this log."""
        self._order = order

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
        room = int(min(self._budget_left.checks(), self.open_windows))
        # A step needs about as many CHECKs as the one before it: look at a quarter more.
        looked_at = max(LOOK_AHEAD, self._planned + self._planned // 4)
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
        """Return how many of these oldest windows to check; ``None`` where all are too few.

        After checking the k oldest, window k is the oldest: the first k that is acceptable counts.
        """
        checks = np.arange(len(offsets))
        q, u = end_offset + checks - offsets, position - inputs
        if len(offsets) == self.open_windows:
            q, u = np.append(q, len(offsets)), np.append(u, 0)
        fits = self.policy.acceptable(q, u, self.open_windows, self.rates)
        return int(fits.argmax()) if fits.any() else None

    def spent(self, checks: int, seconds: float) -> None:
        """Writing that many CHECKs took this long."""
        self.rates.observe_checks(checks, seconds)
        self._budget_left.spend(seconds)

    def _warn_once(self) -> None:
        unattainable = not self.policy.attainable(self.open_windows)
        if unattainable and not self._warned:
            _log.warning(
                "the extent target is below the %d open windows and cannot be met; "
                "using the open windows as the target",
                self.open_windows,
            )
        self._warned = unattainable
