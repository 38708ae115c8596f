"""Windows by time: a watermark decides what closes and what is late, and has slot 0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints, flags_of
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.slots import WINDOW_NUMBER, InputRows, Slots
from cec_store.operators.contract import NO_SLOTS
from cec_store.operators.keys.encoder import KeyEncoder

TIME = pa.timestamp("us", "UTC")


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
        return self.pop_entries(watermark_us)[1]

    def pop_entries(self, watermark_us: int) -> tuple[Ints, Ints]:
        """Do as :meth:`pop`, and return the ends that were pushed and the slots."""
        due = [(NO_SLOTS, NO_SLOTS)]
        kept = []
        for ends_us, slots in self._runs:
            count = int(np.searchsorted(ends_us, watermark_us, side="right"))
            due.append((ends_us[:count], slots[:count]))
            if count < len(slots):
                kept.append((ends_us[count:], slots[count:]))
        self._runs = kept
        ends, due_slots = zip(*due, strict=True)
        return np.concatenate(ends), np.concatenate(due_slots)


class WatermarkSlots(Slots):
    """Slot 0 is the watermark's; key ``k`` (group and a time) has slot ``k + 1``."""

    goes_by_time = True
    own_slots = 1

    def __init__(self, groups: list[pa.Field], accumulators: Accumulators) -> None:
        key_schema = pa.schema([*groups, WINDOW_NUMBER])
        super().__init__(KeyEncoder(key_schema), key_schema, accumulators)
        self.watermark_us: int | None = None

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        is_mark = np.equal(slots, 0)
        windows = slots[~is_mark]
        keys, states = super().snapshot(windows)
        if is_mark.any():
            # The watermark stands after the windows, and is taken from there to its place.
            mark = {"watermark": self.watermark_us}
            states = pa.concat_arrays([states, pa.array([mark], states.type)])
            place = np.where(is_mark, len(windows), np.cumsum(~is_mark) - 1)
            keys = keys.take(pa.array(place, mask=is_mark))
            states = states.take(pa.array(place))
        return keys, states

    def restore(self, keys: pa.StructArray, states: pa.StructArray) -> Ints:
        is_mark = flags_of(keys.is_null())
        if is_mark.any():
            self.watermark_us = states.field("watermark")[int(np.flatnonzero(is_mark)[0])].as_py()
            self.open_count += int(self.rows[0] == 0)
            self.rows[0] = 1
        windows = pa.array(np.flatnonzero(~is_mark))
        slots = np.zeros(len(keys), np.int64)
        slots[~is_mark] = super().restore(keys.take(windows), states.take(windows))
        return slots

    def codes(self, slots: Ints) -> Ints:
        return slots - 1

    def place(self, codes: Ints, numbers: Ints) -> Ints:
        return codes + 1

    @property
    def slot_bound(self) -> int:
        return self.keys.bound + 1

    def find(self, keys: pa.StructArray) -> Ints:
        is_mark = flags_of(keys.is_null())
        if not is_mark.any():
            return super().find(keys)
        slots = np.full(len(keys), int(self.rows[0]) - 1, np.int64)
        slots[~is_mark] = super().find(keys.take(pa.array(np.flatnonzero(~is_mark))))
        return slots

    def _raise_watermark(self, watermark_us: int) -> None:
        """Set the watermark, whose own window opens at the first row with a time."""
        if self.watermark_us is None:
            self.open_count += 1
            self.rows[0] = 1
            self.fresh.append(np.zeros(1, np.int64))
        self.watermark_us = watermark_us

    def _timed(self, rows: InputRows) -> tuple[Ints, Ints]:
        """The rows that have a time, and their times."""
        if rows.has_time is None:
            return np.arange(len(rows.times_us)), rows.times_us
        timed = np.flatnonzero(rows.has_time)
        self.untimed_rows += len(rows.times_us) - len(timed)
        return timed, rows.times_us[timed]
