"""The open windows of an aggregate, a slot each: what is the same for all kinds of windows.

A slot is a place in arrays that hold the state of all windows. Taking rows is a bounded number
of passes over arrays; which rows share a step changes nothing but the number of calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, values_of
from cec_store.operators.aggregate.accumulators import Accumulators, Arrays
from cec_store.operators.contract import NO_SLOTS
from cec_store.operators.keys.encoder import KeyEncoder
from cec_store.operators.keys.words import grown

WINDOW_NUMBER = pa.field("_window", pa.int64())


@dataclass(frozen=True)
class InputRows:
    """Rows for the windows to take, in order."""

    batch: pa.RecordBatch
    groups: list[pa.Array]
    sums: Ints
    """Scalar position after each row: the sum of its next-unread offsets. Rises strictly."""
    times_us: Ints
    """Times that windows go by; read where ``has_time`` only."""
    has_time: NDArray[np.bool_] | None
    """``None`` where all rows have a time."""
    taken: tuple[NDArray[np.int8], Ints]
    """Input of each row, and the next unread offset of that input after it."""

    def part(self, start: int, stop: int) -> InputRows:
        rows = slice(start, stop)
        return InputRows(
            self.batch.slice(start, stop - start),
            [column.slice(start, stop - start) for column in self.groups],
            self.sums[rows],
            self.times_us[rows],
            None if self.has_time is None else self.has_time[rows],
            (self.taken[0][rows], self.taken[1][rows]),
        )


@dataclass(frozen=True)
class ClosedWindows:
    """Windows that have closed, in the order in which their results leave."""

    slots: Ints
    causes: Ints
    """The row that closed each; never falls."""
    rows: Ints
    opened: Ints
    numbers: Ints
    arrays: Arrays
    spans: Ints | None = None
    """Times of the first and the last row of sessions in microseconds, shape (windows, 2)."""


class Slots(ABC):
    """State by slot. The arrays grow by doubling; slots are handed out by the key encoder."""

    goes_by_time = False
    output_fields: tuple[pa.Field, ...] = ()
    """Columns by which a row names its window; none where a key has one window at a time."""
    own_fields: tuple[pa.Field, ...] = ()
    """State beside what windows of all kinds have, or beside that of windows, null in theirs."""
    own_slots = 0
    """Number of slots of that state, before those of windows."""
    late_rows = 0
    """Rows that came too late for at least one of their windows."""
    closes_early = False
    """True where :meth:`close` closes windows before their rows say so."""
    depends_on_cuts = False
    """True where windows that are open within a step may be none at its end, and leave no record.
    A recovery up to a place between the two would lose their rows."""
    untimed_rows = 0
    """Rows without a time, which belong to no window."""

    def __init__(self, keys: KeyEncoder, key_schema: pa.Schema, accumulators: Accumulators) -> None:
        """``keys`` encodes the columns of ``key_schema``, or all but the window's number."""
        self.keys = keys
        self.key_schema = key_schema
        self.accumulators = accumulators
        state = [pa.field("rows", pa.int64()), pa.field("opened", pa.int64()), *self.own_fields]
        self.state_schema = pa.schema([*state, *accumulators.state_fields])
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

    @abstractmethod
    def take(self, rows: InputRows) -> ClosedWindows:
        """Let windows open, take the rows, and close."""

    @abstractmethod
    def catch_up(self, rows: InputRows) -> None:
        """Let restored windows take the rows that lie after their positions."""

    @abstractmethod
    def codes(self, slots: Ints) -> Ints:
        """The key code of each slot."""

    @abstractmethod
    def place(self, codes: Ints, numbers: Ints) -> Ints:
        """The slot of each key's window."""

    @property
    @abstractmethod
    def slot_bound(self) -> int:
        """Every slot of a key that has a code is below it."""

    def output_columns(self, closed: ClosedWindows) -> list[pa.Array]:
        """The columns of ``output_fields`` for these windows."""
        return [pa.array(closed.numbers)] if self.output_fields else []

    def own_columns(self, slots: Ints) -> list[pa.Array]:
        """The columns of ``own_fields`` for these slots' windows."""
        return [pa.nulls(len(slots), field.type) for field in self.own_fields]

    def begin_step(self) -> None:
        """Forget what the last step opened, and restored positions: catching up is over."""
        self.restored = None
        self.fresh = []

    def renewed(self) -> Ints:
        """See :attr:`Effects.renewed`."""
        return NO_SLOTS

    def merged(self) -> tuple[Ints, Ints]:
        """Slots of windows that went into others in this step, and slots of those others."""
        return NO_SLOTS, NO_SLOTS

    def still_open(self) -> Ints:
        """Slots of the windows that opened in this step and have not closed in it."""
        fresh = self.fresh
        slots = fresh[0] if len(fresh) == 1 else np.unique(np.concatenate([NO_SLOTS, *fresh]))
        return slots[self.rows[slots] > 0]

    def trim(self) -> None:
        """Forget the keys of closed windows where that pays."""
        if self.keys.wants_trim(self.open_count - self.own_slots):
            is_open = self.rows[self.own_slots : self.own_slots + self.keys.bound] > 0
            self.keys.trim(np.flatnonzero(is_open))

    def keys_of(self, slots: Ints, numbers: Ints | None = None) -> pa.StructArray:
        """Keys of these slots' windows; of windows that have closed, with their ``numbers``."""
        keys = self.keys.keys(self.codes(slots))
        if len(keys.type) == len(self.key_schema):
            return keys
        if numbers is None:
            numbers = self.numbers[slots]
        columns = [keys.field(place) for place in range(len(keys.type))]
        return pa.StructArray.from_arrays(
            [*columns, pa.array(numbers)], fields=list(self.key_schema)
        )

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        """Keys and states of these slots' windows."""
        columns = [pa.array(self.rows[slots]), pa.array(self.opened[slots])]
        columns += self.own_columns(slots)
        columns += self.accumulators.states([values[slots] for values in self.arrays])
        states = pa.StructArray.from_arrays(columns, fields=list(self.state_schema))
        return self.keys_of(slots), states

    def restore(self, keys: pa.StructArray, states: pa.StructArray) -> Ints:
        """The inverse of :meth:`snapshot`; the slot of each window, which may have been open."""
        columns = [keys.field(place) for place in range(len(self.key_schema))]
        numbers = np.zeros(len(keys), np.int64)
        if self.output_fields:
            numbers = np.array(values_of(columns[-1], "i8"))
        slots = self.place(self.keys.encode(columns[: len(self.keys.schema)]), numbers)
        self.reserve(self.slot_bound)
        rows, opened = (values_of(states.field(name), "i8") for name in ("rows", "opened"))
        first = len(self.state_schema) - len(self.accumulators.state_fields)
        accumulated = [states.field(place) for place in range(first, len(self.state_schema))]
        self.open_count += int(np.count_nonzero(self.rows[slots] == 0))
        self.fill(slots, rows, opened, numbers, self.accumulators.from_states(accumulated))
        return slots

    def note_restored(self, slots: Ints, positions: Ints) -> None:
        """The windows of these slots have taken the input below their positions."""
        before = self.restored
        if before is None or len(before) < len(self.rows):
            self.restored = np.zeros((len(self.rows), positions.shape[1]), np.int64)
            if before is not None:
                self.restored[: len(before)] = before
        assert self.restored is not None
        self.restored[slots] = positions

    def find(self, keys: pa.StructArray) -> Ints:
        """The slot of each key's open window, -1 where there is none."""
        columns = [keys.field(place) for place in range(len(self.key_schema))]
        codes = self.keys.lookup(columns[: len(self.keys.schema)])
        numbers = np.zeros(len(keys), np.int64)
        if self.output_fields:
            numbers = values_of(columns[-1], "i8")
        slots = np.where(codes >= 0, self.place(np.maximum(codes, 0), numbers), 0)
        is_open = (codes >= 0) & (self.rows[slots] > 0)
        if self.output_fields:
            is_open &= self.numbers[slots] == numbers
        return np.where(is_open, slots, -1)

    def let_go(self, slots: Ints) -> None:
        """The windows of these slots have closed elsewhere; they leave no result."""
        self.rows[slots] = 0
        self.open_count -= len(slots)
        self.trim()

    def close(self, slots: Ints, causes: Ints) -> ClosedWindows:
        """Close the windows of these slots, at these rows."""
        arrays = [values[slots] for values in self.arrays]
        done = ClosedWindows(
            slots, causes, self.rows[slots], self.opened[slots], self.numbers[slots], arrays
        )
        self.rows[slots] = 0
        self.open_count -= len(slots)
        return done

    def reserve(self, size: int) -> None:
        if size > len(self.rows):
            self.rows = grown(self.rows, size)
            self.opened = grown(self.opened, size)
            self.numbers = grown(self.numbers, size)
            self.arrays = [grown(values, size) for values in self.arrays]

    def fill(
        self, slots: Ints, rows: Ints | int, opened: Ints, numbers: Ints, arrays: Arrays
    ) -> None:
        """Set the state of these slots' windows."""
        self.rows[slots] = rows
        self.opened[slots] = opened
        self.numbers[slots] = numbers
        for held, values in zip(self.arrays, arrays, strict=True):
            held[slots] = values

    def fold_restored(self, slots: Ints, at: Ints, rows: InputRows) -> None:
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
