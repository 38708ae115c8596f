"""Offsets and positions of the footprints of open windows in a followed log."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.footprints import FootprintOrder
from cec_store.format.columns import Ints
from cec_store.operators.recovery import each_once


class FootprintLedger:
    """Offsets and positions of footprints, as a runner's checkpointer would have them."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._order = FootprintOrder()
        self._totals: list[int] = []
        self._positions: list[Ints] = []
        """Input positions of footprints, each once and in order; the totals are their sums."""

    @property
    def open_windows(self) -> int:
        """Windows that have a footprint."""
        return self._order.live

    def add(self, slots: Ints, offsets: Ints, positions: Ints) -> None:
        """Add the newest footprints of these windows, in the order of the log."""
        totals = positions.sum(axis=1)
        self._order.add(slots, offsets, totals)
        for position in each_once(positions):
            total = int(position.sum())
            if not self._totals or total > self._totals[-1]:
                self._totals.append(total)
                self._positions.append(position)
        self._forget()

    def remove(self, slots: Ints) -> None:
        """Remove windows that have a footprint here, and have closed."""
        self._order.remove(slots)

    def oldest(self, otherwise: Ints) -> Ints:
        """T: the position of the oldest footprint, shape (inputs,)."""
        self._forget()
        return self._positions[0] if self._order.live else otherwise

    def footprints(self) -> Ints:
        """The positions of all that count, and of some that do not; shape (…, inputs)."""
        self._forget()
        if not self._order.live:
            return np.empty((0, self._inputs), np.int64)
        return np.array(self._positions)

    def hand_over(self, checkpointer: Checkpointer) -> None:
        """Let a runner's checkpointer go on from here; this one is of no more use."""
        checkpointer.adopt(self._order)

    def _forget(self) -> None:
        first = self._order.first()
        if first is not None and self._totals[0] < first[1]:
            gone = bisect_left(self._totals, first[1])
            del self._totals[:gone], self._positions[:gone]
