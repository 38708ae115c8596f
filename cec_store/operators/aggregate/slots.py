"""The open windows of an aggregate, a slot each, and what rows do to them.

A slot is a place in arrays that hold the state of all windows. Taking rows is a bounded number
of passes over arrays; which rows share a step changes nothing but the number of calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints
from cec_store.operators.aggregate.accumulators import Accumulators, Arrays
from cec_store.operators.keys.encoder import KeyEncoder
from cec_store.operators.keys.words import grown

NO_SLOTS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Rows:
    """Rows for the windows to take, in order."""

    batch: pa.RecordBatch
    groups: list[pa.Array]
    sums: Ints
    """Scalar position after each row: the sum of its next-unread offsets. Rises strictly."""
    times_us: Ints
    """What time windows go by; read where ``has_time`` only."""
    has_time: NDArray[np.bool_] | None
    """``None`` where all rows have a time."""
    taken: tuple[NDArray[np.int8], Ints]
    """For each row its input, and the next unread offset of that input after it."""

    def part(self, start: int, stop: int) -> Rows:
        rows = slice(start, stop)
        return Rows(
            self.batch.slice(start, stop - start),
            [column.slice(start, stop - start) for column in self.groups],
            self.sums[rows],
            self.times_us[rows],
            None if self.has_time is None else self.has_time[rows],
            (self.taken[0][rows], self.taken[1][rows]),
        )


@dataclass(frozen=True)
class Closed:
    """Windows that have closed, in the order in which their results leave."""

    slots: Ints
    causes: Ints
    """The row that closed each; never falls."""
    rows: Ints
    opened: Ints
    numbers: Ints
    arrays: Arrays


class Slots:
    """State by slot. The arrays grow by doubling; slots are handed out by the key encoder."""

    def __init__(self, keys: KeyEncoder, accumulators: Accumulators) -> None:
        self.keys = keys
        self.accumulators = accumulators
        self.rows: Ints = np.zeros(1, np.int64)
        """Rows that the slot's window has taken; 0 where none is open."""
        self.opened: Ints = np.zeros(1, np.int64)
        """Scalar position after the row that opened it: the paper's tau_1."""
        self.numbers: Ints = np.zeros(1, np.int64)
        """Start of a time window in microseconds, ordinal of a count window."""
        self.arrays = accumulators.empty(1)
        self.open_count = 0
        self.fresh: list[Ints] = []
        """Slots of windows that opened in this step; some may have closed again."""
        self.restored: Ints | None = None
        """Position of each slot's footprint, shape (slots, inputs), while catching up."""

    def reserve(self, size: int) -> None:
        if size > len(self.rows):
            self.rows = grown(self.rows, size)
            self.opened = grown(self.opened, size)
            self.numbers = grown(self.numbers, size)
            self.arrays = [grown(values, size) for values in self.arrays]

    def fill(self, slots: Ints, rows: Ints, opened: Ints, numbers: Ints, arrays: Arrays) -> None:
        """Set the state of these slots' windows."""
        self.rows[slots] = rows
        self.opened[slots] = opened
        self.numbers[slots] = numbers
        for held, values in zip(self.arrays, arrays, strict=True):
            held[slots] = values

    def fold_restored(self, slots: Ints, at: Ints, rows: Rows) -> None:
        """Let open windows take those of the rows that lie at or after their position.

        Row ``at[i]`` is for the window in ``slots[i]``, -1 for none.
        """
        if self.restored is None:
            return
        source, after = (values[at] for values in rows.taken)
        is_due = (slots >= 0) & (self.rows[slots] > 0)
        is_due &= after > self.restored[slots, source]
        slots, at = slots[is_due], at[is_due]
        np.add.at(self.rows, slots, 1)
        self.accumulators.fold(self.arrays, slots, at, rows.batch)
