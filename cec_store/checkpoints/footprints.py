"""Open windows in the order of their last footprints. CEC paper, III."""

from __future__ import annotations

import numpy as np

from cec_store.format.columns import Ints

LOOK_AHEAD = 256
"""Entries that are looked at in one go at least."""

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
        # One row for each entry, so that the ring grows into fresh memory at one place only.
        self._ring = np.empty((1024, 3), np.int64)
        # Marks in the ring's order, so that the oldest are found without reading their slots.
        self._is_live = np.zeros(1024, np.bool_)
        self._entry_of = np.full(1024, _NO_ENTRY, np.int64)
        self._head = 0
        self._end = 0
        self.live = 0

    def add(self, slots: Ints, offsets: Ints, inputs: Ints | int) -> None:
        """Add the newest footprints of these windows, at these offsets, which rise."""
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
        """Remove these windows, which have closed."""
        self._end_entries(slots)
        self._entry_of[slots] = _NO_ENTRY

    def first(self) -> tuple[int, int] | None:
        """(offset, input) of the oldest footprint; ``None`` without open windows."""
        if not self.live:
            return None
        # Asked for several times a step. To look at one entry does not let go of the GIL, for which
        # this thread would then wait until the one that writes has done its part of a frame.
        if not self._is_live[self._head & self._mask]:
            self._pass_dead()
        _, offset, taken = self._ring[self._head & self._mask].tolist()
        return offset, taken

    def _pass_dead(self) -> None:
        """Move the head to the first live entry."""
        for _, place in self._stretches(self._head, self._end):
            is_live = self._is_live[place]
            dead = int(is_live.argmax())
            if is_live[dead]:
                self._head += dead
                return
            self._head += len(is_live)

    def oldest(self, count: int) -> tuple[Ints, Ints, Ints]:
        """(slots, offsets, inputs) of up to ``count`` windows, oldest footprint first."""
        looked_at = 4 * count + LOOK_AHEAD
        entries = self._live(self._head + looked_at)
        while len(entries) < min(count, self.live):
            looked_at *= 4
            entries = self._live(self._head + looked_at)
        rows = self._ring[entries[:count] & self._mask]
        return np.ascontiguousarray(rows[:, 0]), rows[:, 1], rows[:, 2]

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
        stretches = [
            np.flatnonzero(self._is_live[place]) + (self._head + part.start)
            for part, place in self._stretches(self._head, min(stop, self._end))
        ]
        return stretches[0] if len(stretches) == 1 else np.concatenate(stretches)

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
