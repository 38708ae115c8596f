"""Time windows: a key's rows by their time, until a watermark has passed the window's end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import SchemaMismatch
from cec_store.format.columns import Ints
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.slots import ClosedWindows, InputRows
from cec_store.operators.aggregate.watermark_slots import TIME, WatermarkSlots, WindowEnds
from cec_store.operators.aggregate.windows import TimeWindow
from cec_store.operators.contract import NO_SLOTS
from cec_store.operators.keys.encoder import KeyWords
from cec_store.operators.keys.words import WordTable
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US


class TimeSlots(WatermarkSlots):
    """Time windows; the time in a key is the window's start.

    A window closes at the first row at or after which the watermark, the largest time seen so
    far, has reached its end. From that row on it is closed for good: later rows of it are late.
    """

    output_fields = (pa.field("window_start", TIME), pa.field("window_end", TIME))
    own_fields = (pa.field("watermark", pa.int64()),)

    def __init__(
        self, window: TimeWindow, groups: list[pa.Field], accumulators: Accumulators
    ) -> None:
        super().__init__(groups, accumulators)
        self._window = window
        self._ends = WindowEnds()
        self._watermark_before_us: int | None = None
        """The watermark when the step began."""

    def begin_step(self) -> None:
        if self.restored is not None:
            self._find_ends()
        super().begin_step()
        self._watermark_before_us = self.watermark_us

    def renewed(self) -> Ints:
        """The watermark's slot, if it has risen and was open before."""
        is_same = self._watermark_before_us in (None, self.watermark_us)
        return NO_SLOTS if is_same else np.zeros(1, np.int64)

    def output_columns(self, closed: ClosedWindows) -> list[pa.Array]:
        starts_us = pa.array(closed.numbers)
        ends_us = pa.array(closed.numbers + self._window.size_us)
        return [starts_us.cast(TIME), ends_us.cast(TIME)]

    def take(self, rows: InputRows) -> ClosedWindows:
        timed, times_us = self._timed(rows)
        if not len(timed):
            return self.close(NO_SLOTS, NO_SLOTS)
        self._check_ends(times_us)
        if self.watermark_us is not None:
            times_us = np.append(self.watermark_us, times_us)
        marks_us = np.maximum.accumulate(times_us)[-len(timed) :]
        times_us = times_us[-len(timed) :]
        self._raise_watermark(int(marks_us[-1]))

        starts_us, is_open = self._entries(times_us, marks_us)
        groups = self.keys.words(rows.groups)
        if rows.has_time is not None:
            groups = groups.take(timed)
        slots = self._slots_of(groups, starts_us, is_open)
        at, starts_us = _open_entries(timed, starts_us, is_open)
        self.reserve(self.slot_bound)
        self._open(slots, rows.sums[at], starts_us)
        np.add.at(self.rows, slots, 1)
        self.accumulators.fold(self.arrays, slots, at, rows.batch)

        due = self._due(int(marks_us[-1]))
        ends_us = self.numbers[due] + self._window.size_us
        causes = timed[np.searchsorted(marks_us, ends_us)]
        order = np.lexsort((self.opened[due], ends_us, causes))
        return self.close(due[order], causes[order])

    def catch_up(self, rows: InputRows) -> None:
        timed, times_us = self._timed(rows)
        if not len(timed) or self.watermark_us is None:
            return
        # Rows below the watermark's own position are in it already: the maximum is the same.
        self.watermark_us = max(self.watermark_us, int(times_us.max()))
        at, starts_us = _open_entries(timed, *self._entries(times_us))
        key = self.keys.words(rows.groups, insert=False).take(at).with_word(starts_us)
        codes = self.keys.lookup_words(key)
        self.fold_restored(np.where(codes >= 0, codes + 1, -1), at, rows)

    def _check_ends(self, times_us: Ints) -> None:
        """Raise :class:`SchemaMismatch` where a window would reach beyond 64 bits."""
        reach_us = self._window.size_us + self._window.advance_us
        low, high = MIN_TIMESTAMP_US + reach_us, MAX_TIMESTAMP_US - reach_us
        if int(times_us.min()) < low or int(times_us.max()) > high:
            raise SchemaMismatch(
                "event time: the windows of a time reach beyond 64 bits of microseconds since "
                "1970; mend the row, or make it null, which leaves it out of all windows"
            )

    def _due(self, watermark_us: int) -> Ints:
        """Slots of open windows that end at or before the watermark."""
        due = self._ends.pop(watermark_us)
        if not self.closes_early:
            return due
        # One that was closed early has left its end here, and its slot may have another window.
        due = np.unique(due)
        ends_us = self.numbers[due] + self._window.size_us
        return due[(self.rows[due] > 0) & (ends_us <= watermark_us)]

    def _find_ends(self) -> None:
        """Collect the ends of the open windows, after each time that windows are restored."""
        slots = np.flatnonzero(self.rows[1 : self.slot_bound]) + 1
        self._ends = WindowEnds()
        self._ends.push(self.numbers[slots] + self._window.size_us, slots)

    def _entries(
        self, times_us: Ints, marks_us: Ints | None = None
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The starts of each row's windows, and which of them it is in and not late for.

        Shapes (rows, lanes). Without watermarks no row is late.
        """
        starts_us, holds = self._window.starts_us(times_us)
        is_open = np.ones(starts_us.shape, np.bool_) if holds is None else holds
        if marks_us is not None:
            is_late = is_open & (starts_us + self._window.size_us <= marks_us[:, None])
            self.late_rows += int(is_late.any(axis=1).sum())
            is_open = is_open & ~is_late
        return starts_us, is_open

    def _slots_of(self, groups: KeyWords, starts_us: Ints, is_open: NDArray[np.bool_]) -> Ints:
        """The slot of each entry that is open, row by row; new keys get one."""
        if self._window.lanes == 1:
            rows = np.flatnonzero(is_open)
            return self.keys.encode_words(groups.take(rows).with_word(starts_us[rows, 0])) + 1
        # Rows of one group with one newest window have all their windows in common. In most
        # steps they are many: each window is then looked up once for all of them.
        alike = WordTable(len(groups.words) + 1)
        kind = alike.encode([*groups.words, starts_us[:, 0]], groups.nulls)
        first = np.empty(alike.bound, np.int64)
        first[kind[::-1]] = np.arange(len(kind))[::-1]
        row, lane = np.nonzero(is_open)
        is_wanted = np.zeros((alike.bound, self._window.lanes), np.bool_)
        is_wanted[kind[row], lane] = True
        which, lanes = np.nonzero(is_wanted)
        key = groups.take(first[which]).with_word(starts_us[first[which], lanes])
        slots = np.zeros(is_wanted.shape, np.int64)
        slots[which, lanes] = self.keys.encode_words(key) + 1
        return slots[kind[row], lane]

    def _open(self, slots: Ints, sums: Ints, starts_us: Ints) -> None:
        """Open a window in each slot that has none, at the first entry that names it."""
        entries = np.flatnonzero(self.rows[slots] == 0)
        new = slots[entries]
        self.opened[new[::-1]] = entries[::-1]
        first = entries[self.opened[new] == entries]
        new = slots[first]
        self.fill(new, 0, sums[first], starts_us[first], self.accumulators.empty(len(new)))
        self._ends.push(starts_us[first] + self._window.size_us, new)
        self.fresh.append(new)
        self.open_count += len(new)


def _open_entries(rows: Ints, starts_us: Ints, is_open: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The row and the window's start of each entry that is open, row by row."""
    return np.broadcast_to(rows[:, None], starts_us.shape)[is_open], starts_us[is_open]
