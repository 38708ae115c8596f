"""Clock times at which rows came, a step at a time: for a join that gives up waiting rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints

FIELDS = (pa.field("clocks", pa.list_(pa.int64())),)
"""(clock, next unread offset left, right) of the steps whose rows may still wait, one by one."""


class ArrivalClocks:
    """The steps whose rows may still wait, oldest first; rows of those given up are gone."""

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self._clocks_us: Ints = np.empty(0, np.int64)
        self._ends: Ints = np.empty((0, 2), np.int64)

    def give_up(self, clock_us: int) -> Ints | None:
        """Return by input the offset below which no row waits now; ``None`` if none is given up.

        A row is given up once it has waited for the timeout, before the step of this clock.
        """
        count = int(np.searchsorted(self._clocks_us, clock_us - self._timeout_us, side="right"))
        if not count:
            return None
        ends: Ints = self._ends[count - 1]
        self._clocks_us, self._ends = self._clocks_us[count:], self._ends[count:]
        return ends

    def came(self, clock_us: int, end: Ints) -> None:
        """A step was taken, up to these offsets."""
        if len(self._clocks_us) and self._clocks_us[-1] == clock_us:
            self._ends[-1] = end
            return
        self._clocks_us = np.append(self._clocks_us, clock_us)
        self._ends = np.concatenate([self._ends, [end]])

    def forget(self, lows: Ints) -> None:
        """Forget the steps of which no row waits: of each input those at ``lows`` and above do."""
        count = int(np.count_nonzero((self._ends <= lows).all(axis=1)))  # ends never fall
        self._clocks_us, self._ends = self._clocks_us[count:], self._ends[count:]

    def state(self) -> dict[str, list[int]]:
        """Return the columns of :data:`FIELDS`."""
        return {"clocks": np.column_stack([self._clocks_us, self._ends]).ravel().tolist()}

    def restore(self, clocks: list[int]) -> None:
        """The inverse of :meth:`state`."""
        rows = np.array(clocks, np.int64).reshape(-1, 3)
        self._clocks_us, self._ends = rows[:, 0].copy(), rows[:, 1:].copy()
