"""Input and output of one step of an operator, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints
from cec_store.format.schema import RecordKind
from cec_store.operators.taxonomy import Chance, NetworkType


@dataclass(frozen=True)
class InputBatch:
    """Rows of one input, in its order.

    ``offsets[i]`` is the offset of row ``i`` in its input: strictly increasing, unique, not
    necessarily gap-free (control records of an upstream queue take offsets too).

    Examples:
        >>> batch = next(source.read(0))
        >>> batch.batch.num_rows, batch.timestamps_us.tolist()
        (4, [1, 2, 3, 4])
    """

    batch: pa.RecordBatch
    offsets: Ints
    timestamps_us: Ints


class Source(Protocol):
    """An input that can be read again from any offset.

    One that also has a ``consumer`` (:class:`cec_store.Consumer`) is acknowledged by the runner.
    One with ``has_ended``, which is true, gets no more rows than it has. All others are live: with
    no rows left to read they may get some later, and other inputs wait for these. One
    that is a queue has its ``queue_id`` (and ``path``): positions in the operator's log are of that
    queue alone.

    Examples:
        >>> source.schema.names
        ['item', 'price', 'at']
    """

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows that :meth:`read` yields."""

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Rows whose offset is in ``[start, stop)``; ``stop=None`` reads to the end."""


@dataclass(frozen=True)
class Choices:
    """Decisions of chance about a step, beside the order of its rows."""

    clock_us: int | None = None
    """Time of the step in microseconds since 1970, for operators that depend on the clock; it never
    falls from step to step."""
    seed: int | None = None
    """Seed of the step's random numbers, for operators that draw any; below 2**63."""


NO_CHOICES = Choices()


@dataclass(frozen=True)
class Step:
    """Rows that an operator takes at once; their effects land in the log all or none.

    Row ``i`` of the step is the next row of ``batches[source[i]]``. ``positions[i, j]`` is the
    *next unread* offset of input ``j`` once row ``i`` has been taken, so it never falls along
    ``i``, and the sum over ``j`` rises strictly.
    """

    batches: tuple[pa.RecordBatch, ...]
    source: NDArray[np.int8]
    positions: Ints
    """Shape (rows, inputs)."""
    timestamps_us: Ints
    """Shape (rows,)."""
    begin: Ints | None = None
    """The position before its first row, shape (inputs,); for operators that depend on chance."""
    choices: Choices = NO_CHOICES

    @property
    def end(self) -> Ints:
        """The position behind its last row, shape (inputs,). One without rows has a beginning."""
        if self.rows:
            last: Ints = self.positions[-1]
            return last
        assert self.begin is not None
        return self.begin

    @property
    def rows(self) -> int:
        return len(self.timestamps_us)

    def in_order(self) -> pa.RecordBatch:
        """All rows as one batch, in the step's order. The inputs must share a schema."""
        if len(self.batches) == 1:
            return self.batches[0]
        row_of = np.empty(self.rows, np.int64)
        row_of[np.argsort(self.source, kind="stable")] = np.arange(self.rows)
        return pa.concat_batches(self.batches).take(pa.array(row_of))


NO_SLOTS: Ints = np.empty(0, np.int64)


def _no_slots() -> Ints:
    return NO_SLOTS


@dataclass(frozen=True)
class Effects:
    """Effects of a step. Slots name open windows: small integers that the operator reuses."""

    rows: pa.RecordBatch
    """Output rows in the order of the input rows that caused them."""
    keys: pa.StructArray | None
    """Window key of each output row where they are results; ``None`` for data rows."""
    causes: Ints
    """Row of the step that caused each output row; never falls. −1: the clock,
    before the first row."""
    closed: Ints = field(default_factory=_no_slots)
    """Slots closed in this step that were open before it."""
    opened: Ints = field(default_factory=_no_slots)
    """Slots opened in this step and still open at its end (may name a slot just closed)."""
    merged: pa.StructArray | None = None
    """Keys of the windows among ``closed`` that have no result, as they went into other windows."""
    grown: Ints = field(default_factory=_no_slots)
    """Slots open before it and at its end into which such windows went: each needs a footprint of
    this step, as its older ones do not have what the others had taken. Or any one such slot, where
    a recovery must not end before the step's last row."""
    renewed: Ints = field(default_factory=_no_slots)
    """Slots open before it whose state no longer goes back to input from before it (a watermark
    that has risen), but to that from :meth:`Operator.preload_start` on."""

    @property
    def merges(self) -> int:
        """Number of windows that went into others and had a footprint."""
        return 0 if self.merged is None else len(self.merged)

    @property
    def are_none(self) -> bool:
        """True if nothing has left, and no window has opened, closed, grown or been renewed."""
        slots = (self.closed, self.opened, self.grown, self.renewed)
        return not self.rows.num_rows and not self.merges and not any(map(len, slots))


class Operator(Protocol):
    """A stream operator whose state is split by window (design: CEC paper, II.B and III).

    Examples:
        >>> averages().key_schema.names, averages().open_windows
        (['item'], 0)
    """

    output_schema: pa.Schema
    output_kind: RecordKind
    inputs: int
    key_schema: pa.Schema | None
    """Fields of a window key; ``None`` where the operator keeps no state."""
    state_schema: pa.Schema | None
    """Fields of a window's state."""
    operator_type: NetworkType = NetworkType.ARBITRARY
    """Class of what it does when it is run again; ``operators.checking`` holds it to that."""
    chances: Chance = Chance.NONE
    """Chance that its output depends on. It is given in each :class:`Step` and logged,
    so that taking the same steps again does the same."""
    idle_timeout_us: int | None = None
    """Microseconds for which other inputs wait for one without rows; ``None``: for ever. It needs
    :attr:`.Chance.ARRIVALS`, as the order of the rows then depends on when they come."""
    can_be_followed: bool = False
    """True if it can be kept close to another one's log: :meth:`restore` may be called again, and
    :meth:`let_go` and :meth:`find` are there."""
    can_run_ahead: bool = True
    """False if which windows are open at once depends on where the input is cut into steps: one of
    the log may then be none of a second operator that has taken the same input in other steps."""

    @property
    def open_windows(self) -> int:
        """N: the windows open now."""

    def apply(self, step: Step) -> Effects:
        """Take the rows, change the state, and say what happened.

        A step without rows whose effects are none has changed no state: it is not logged.
        """

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        """Keys and states of these open windows as they are now."""

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        """Load open windows into a fresh operator and return the slot of each.

        ``positions`` has shape (windows, inputs): window ``i`` has taken every input row below
        ``positions[i]``. One that can be followed takes more of them until its first step: a window
        that it has gets the newer state.
        """

    def let_go(self, keys: pa.StructArray) -> Ints:
        """Forget the restored windows of these keys, which have closed, and return their slots.

        Keys of other windows are passed over.
        """
        raise AssertionError("only of an operator that can be followed")

    def find(self, keys: pa.StructArray, upto: Ints) -> Ints:
        """The slot of each key's open window, -1 where there is none that is so old.

        The window was open after the input below ``upto``, summed over the inputs, shape (keys,).
        """
        raise AssertionError("only of an operator that can be followed")

    def preload_start(self) -> Ints | None:
        """Offsets from which raw input must be loaded again to restore the state, or ``None``.

        After :meth:`restore` that of the footprints, afterwards that of one made now. Only an
        operator whose state *is* its input (the join) returns offsets, and they never fall.
        """
        return None

    def preload(self, source: int, batch: InputBatch) -> None:
        """Load rows below the restored position again, with no output."""
        raise AssertionError("an operator asks for no input before its positions")

    def catch_up(self, step: Step) -> None:
        """Take rows that were taken before the crash, and emit nothing.

        Applied to rows from T up to the position that the log's end reflects. A row changes a
        window only if that window was restored and the row lies at or after its position; no
        window opens or closes: whatever is open at the end has been restored.
        """
