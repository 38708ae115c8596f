"""Deadlines of windows that wait too long: by the clock, whatever their rows say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints, values_of
from cec_store.operators.aggregate.slots import Slots
from cec_store.operators.aggregate.watermark_slots import WindowEnds
from cec_store.operators.keys.words import grown

DEADLINE = pa.field("deadline_us", pa.int64())


class Deadlines:
    """The moment at which the window of each slot has been open for too long.

    Windows that close by themselves leave their entry behind; it is passed over once it is due.
    Restored windows enter the queue at the next step: one that is followed is restored many times.
    """

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self._due = WindowEnds()
        self._of_slot: Ints = np.zeros(1, np.int64)
        self._is_stale = False
        """True after windows were restored, until ``_due`` is made anew."""

    def opened(self, slots: Ints, own_slots: int, clock_us: int) -> None:
        """Note windows that have opened by this clock; slots below ``own_slots`` are no windows."""
        windows = slots[slots >= own_slots]
        self._note(windows, np.full(len(windows), clock_us + self._timeout_us))
        self._due.push(self._of_slot[windows], windows)

    def take_due(self, slots: Slots, clock_us: int) -> Ints:
        """Slots of windows that are due: by deadline, row that opened it, and start."""
        if self._is_stale:
            self._make_due(slots)
        due = np.unique(self._due.pop(clock_us))
        due = due[(slots.rows[due] > 0) & (self._of_slot[due] <= clock_us)]
        return due[np.lexsort((slots.numbers[due], slots.opened[due], self._of_slot[due]))]

    def of(self, slots: Ints, own_slots: int) -> pa.Array:
        """The deadlines as a column of state."""
        is_window = slots >= own_slots
        known = np.where(slots < len(self._of_slot), slots, 0)
        return pa.array(self._of_slot[known], pa.int64(), mask=~is_window)

    def restore(self, slots: Ints, own_slots: int, column: pa.Array) -> None:
        """The inverse of :meth:`of`."""
        is_window = slots >= own_slots
        values = values_of(column.fill_null(0), "i8")
        self._note(slots[is_window], values[is_window])
        self._is_stale = True

    def _make_due(self, slots: Slots) -> None:
        """Make the queue anew, of the windows that are open now."""
        first = slots.own_slots
        windows = np.flatnonzero(slots.rows[first : slots.slot_bound]) + first
        self._due = WindowEnds()
        self._due.push(self._of_slot[windows], windows)
        self._is_stale = False

    def _note(self, slots: Ints, deadlines_us: Ints) -> None:
        size = int(slots.max(initial=0)) + 1
        if size > len(self._of_slot):
            self._of_slot = grown(self._of_slot, size)
        self._of_slot[slots] = deadlines_us
