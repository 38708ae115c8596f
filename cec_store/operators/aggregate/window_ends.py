"""When the open time windows end."""

from __future__ import annotations

import numpy as np

from cec_store.format.columns import Ints


class WindowEnds:
    """Slots by the time at which their windows end: a priority queue on whole arrays.

    Kept as sorted runs, each less than half as long as the one before it, so a slot is merged
    O(log n) times and what is due is the front of O(log n) runs.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Ints, Ints]] = []

    def push(self, ends_us: Ints, slots: Ints) -> None:
        if not len(slots):
            return
        while self._runs and len(self._runs[-1][0]) < 2 * len(slots):
            held_ends, held_slots = self._runs.pop()
            ends_us = np.concatenate([held_ends, ends_us])
            slots = np.concatenate([held_slots, slots])
        order = np.argsort(ends_us, kind="stable")
        self._runs.append((ends_us[order], slots[order]))

    def pop(self, watermark_us: int) -> Ints:
        """Take out the slots whose windows end at or before the watermark."""
        due = []
        kept = []
        for ends_us, slots in self._runs:
            count = int(np.searchsorted(ends_us, watermark_us, side="right"))
            due.append(slots[:count])
            if count < len(slots):
                kept.append((ends_us[count:], slots[count:]))
        self._runs = kept
        return np.concatenate(due) if due else np.empty(0, np.int64)
