"""Count windows: a key's window takes its next so many rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.slots import WINDOW_NUMBER, ClosedWindows, InputRows, Slots
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.keys.encoder import KeyEncoder
from cec_store.operators.keys.words import grown

_ROW_BITS = 32


class CountSlots(Slots):
    """Count windows: group ``g`` has the slots ``g * lanes`` to ``g * lanes + lanes - 1``."""

    def __init__(
        self, window: CountWindow, groups: list[pa.Field], accumulators: Accumulators
    ) -> None:
        number = [WINDOW_NUMBER] if window.lanes > 1 else []
        keys = KeyEncoder(pa.schema(groups))
        super().__init__(keys, pa.schema([*groups, *number]), accumulators)
        self.output_fields = tuple(field.with_name("window") for field in number)
        self._window = window
        self._seen: Ints | None = None
        """Rows of each group so far, where windows overlap; ``None`` before the first are taken."""

    def take(self, rows: InputRows) -> ClosedWindows:
        codes = self.keys.encode(rows.groups)
        self.reserve(self.slot_bound)
        packed = np.sort((codes << _ROW_BITS) | np.arange(len(codes)))
        codes, at = packed >> _ROW_BITS, packed & ((1 << _ROW_BITS) - 1)
        slots, at, place, numbers = self._entries(codes, at)

        # Entries of one window stand together, its first row first.
        begins = place == 0
        begins[:1] = True
        begins[1:] |= slots[1:] != slots[:-1]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(slots))[: len(first)] - 1
        of_window = np.cumsum(begins) - 1
        slots, numbers = slots[first], numbers[first]
        counts = place[last] + 1
        goes_on = np.flatnonzero(place[first])
        opened = rows.sums[at[first]]
        opened[goes_on] = self.opened[slots[goes_on]]
        arrays = self.accumulators.empty(len(first))
        for values, held in zip(arrays, self.arrays, strict=True):
            values[goes_on] = held[slots[goes_on]]
        self.accumulators.fold(arrays, of_window, at, rows.batch)

        is_full = counts == self._window.size
        causes = at[last]
        closing = _by_row(np.flatnonzero(is_full), causes, rows.batch.num_rows)
        staying = np.flatnonzero(~is_full)
        self.rows[slots[closing]] = 0
        kept = [values[staying] for values in arrays]
        self.fill(slots[staying], counts[staying], opened[staying], numbers[staying], kept)
        self.fresh.append(slots[staying[place[first[staying]] == 0]])
        self.open_count += len(first) - len(goes_on) - len(closing)
        done = [values[closing] for values in arrays]
        return ClosedWindows(
            slots[closing],
            causes[closing],
            counts[closing],
            opened[closing],
            numbers[closing],
            done,
        )

    def catch_up(self, rows: InputRows) -> None:
        codes = self.keys.lookup(rows.groups)
        lanes = self._window.lanes
        slots = np.where(codes >= 0, codes * lanes, -lanes)[:, None] + np.arange(lanes)
        at = np.repeat(np.arange(len(codes)), lanes)
        self.fold_restored(np.maximum(slots.ravel(), -1), at, rows)

    def trim(self) -> None:
        """Trim unless windows overlap: each key has a window then, at other slots than its code."""
        if self._window.lanes == 1:
            super().trim()

    def codes(self, slots: Ints) -> Ints:
        return slots // self._window.lanes

    def place(self, codes: Ints, numbers: Ints) -> Ints:
        return codes * self._window.lanes + numbers % self._window.lanes

    @property
    def slot_bound(self) -> int:
        return self.keys.bound * self._window.lanes

    def _entries(self, codes: Ints, at: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return which rows go to which windows: slots, rows, their places, the windows' ordinals.

        ``codes`` ascend, and ``at``, the rows, ascend within a code.
        """
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
        lengths = np.diff(starts, append=len(codes))
        groups = codes[starts]
        lanes = self._window.lanes
        if lanes == 1:
            seen = self.rows[groups]
        else:
            all_seen = self._seen_rows()
            seen = all_seen[groups]
            all_seen[groups] += lengths
        nth = np.arange(len(codes)) + np.repeat(seen - starts, lengths)
        if lanes == 1:
            _, place = self._window.place(0, nth)
            return codes, at, place, np.zeros_like(codes)
        lane = np.arange(lanes)[:, None]
        window, place = self._window.place(lane, nth)
        is_open = (window >= 0) & (place < self._window.size)
        wide_at = np.broadcast_to(at, place.shape)[is_open]
        slots = (codes * lanes + lane)[is_open]
        return slots, wide_at, place[is_open], (window * lanes + lane)[is_open]

    def _seen_rows(self) -> Ints:
        """Rows of each group so far, at first computed from its newest window."""
        bound, lanes = self.keys.bound, self._window.lanes
        if self._seen is None:
            rows, numbers = (
                values[: bound * lanes].reshape(bound, lanes)
                for values in (self.rows, self.numbers)
            )
            told = np.where(rows > 0, numbers * self._window.advance + rows, 0)
            self._seen = told.max(axis=1, initial=0)
        if len(self._seen) < bound:
            self._seen = grown(self._seen, bound)
        return self._seen


def _by_row(which: Ints, rows: Ints, row_count: int) -> Ints:
    """``which`` in the order of ``rows[which]``, all different. Faster than sorting them."""
    place = np.full(row_count, -1, np.int64)
    place[rows[which]] = which
    return place[place >= 0]
