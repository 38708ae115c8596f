"""Baselines that the paper argues against, on the same queue: whole checkpoints and increments.

Every so many input rows the operator stands still until its state is on disk (the paper's CRB, I
and II.A). A whole checkpoint has a CHECK record for each open window; an increment, for each that
has changed since the last. Results are logged as they come, and OPEN records are not needed. A
recovery loads the newest checkpoint and takes the input after it again; of the output that comes of
it, what is in the log already is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store import OutputQueue
from cec_store.checkpoints.rebuild import rebuild
from cec_store.format.columns import Ints
from cec_store.log.frames import FrameMarks
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.contract import Effects, Source, Step
from cec_store.operators.frame_builder import FrameBuilder
from cec_store.operators.inputs.merge import merge

_NONE: Ints = np.empty(0, np.int64)


class ClockedAggregate(Aggregate):
    """Notes how long it stood still after each step, for all but the wait for input."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.rows_taken = 0
        self.pauses: list[tuple[int, float]] = []
        """Rows taken before, and seconds."""
        self._left_s = 0.0

    def apply(self, step: Step) -> Effects:
        effects = super().apply(step)
        self.rows_taken += step.rows
        self._left_s = time.perf_counter()
        return effects

    def ready(self) -> None:
        """The step's output is handed over: the next step could be taken."""
        self.pauses.append((self.rows_taken, time.perf_counter() - self._left_s))

    def longest_pause_s(self, after_rows: int = 0) -> float:
        return max(seconds for rows, seconds in self.pauses if rows >= after_rows)


def states_of(operator: Aggregate, slots: Ints) -> pa.Table:
    """The open windows in these slots, in the order of their keys."""
    keys, states = operator.snapshot(slots)
    columns = dict(zip(operator.key_schema.names, keys.flatten(), strict=True))
    columns |= {f"state.{i}": column for i, column in enumerate(states.flatten())}
    return pa.table(columns).sort_by([(name, "ascending") for name in operator.key_schema.names])


class PeriodicCheckpoints:
    """Drives an aggregate over count windows, with a checkpoint every ``every_rows``.

    Every ``whole_every``-th checkpoint is a whole one, those between are increments: 1 for the
    paper's CRB.
    """

    def __init__(
        self,
        operator: Aggregate,
        source: Source,
        queue: OutputQueue,
        every_rows: int,
        whole_every: int = 1,
    ) -> None:
        self.operator = operator
        self.checkpoint_s: list[tuple[int, float]] = []
        """Rows taken before each checkpoint, and how long the operator stood still for it."""
        self.checkpoint_windows: list[int] = []
        self._source = source
        self._queue = queue
        self._builder = FrameBuilder(operator, queue.schema, queue.options.frame_bytes_max)
        self._every_rows = every_rows
        self._whole_every = whole_every
        self._taken = 0
        self._end = 0
        self._is_open = np.zeros(1, np.bool_)
        self._footprint = np.zeros(1, np.int64)
        self._rows_then = np.zeros(1, np.int64)
        self._opened_then = np.zeros(1, np.int64)

    def run(self, progress: Any = None) -> None:
        due = self._every_rows
        steps = merge([self._source.read(0)], np.zeros(1, np.int64), [self._source.schema])
        for step in steps:
            effects = self.operator.apply(step)
            self._taken += step.rows
            self._follow(effects)
            results = self._builder.parts(step, effects, _NONE, _NONE)
            marks = FrameMarks(None, input_upto=self._taken)
            self._append(results, effects.rows.num_rows, marks)
            if self._taken >= due:
                due += self._every_rows
                self._checkpoint(step)
            if progress is not None:
                progress(step.rows)
        self._queue.sync()

    def open_slots(self) -> Ints:
        return np.flatnonzero(self._is_open)

    def _follow(self, effects: Effects) -> None:
        size = len(self.operator._slots.rows)
        if size > len(self._is_open):
            for name in ("_is_open", "_footprint", "_rows_then", "_opened_then"):
                held = getattr(self, name)
                setattr(self, name, np.concatenate([held, np.zeros(size - len(held), held.dtype)]))
        self._is_open[effects.closed] = False
        self._is_open[effects.opened] = True

    def _append(self, parts: Iterator[pa.RecordBatch], records: int, marks: FrameMarks) -> None:
        if records:
            self._queue.append_step(parts, marks)
            self._end += records

    def _checkpoint(self, step: Step) -> None:
        """Write the state, or what has changed of it, and return once it is on disk."""
        began = time.perf_counter()
        is_whole = len(self.checkpoint_s) % self._whole_every == 0
        slots = self.open_slots()
        open_windows = len(slots)
        if not is_whole:
            slots = slots[self._changed(slots)]
        self._footprint[slots] = self._end + np.arange(len(slots))
        end = self._end + len(slots)
        extent = end - int(self._footprint[self._is_open].min(initial=end))
        held = self.operator._slots
        self._rows_then[slots], self._opened_then[slots] = held.rows[slots], held.opened[slots]
        nothing = Effects(_no_rows(self.operator), None, _NONE, _NONE, _NONE)
        parts = self._builder.parts(step, nothing, _NONE, slots)
        self._append(parts, len(slots), FrameMarks(open_windows, extent, self._taken))
        self._queue.sync()
        self.checkpoint_s.append((self._taken, time.perf_counter() - began))
        self.checkpoint_windows.append(len(slots))

    def _changed(self, slots: Ints) -> NDArray[np.bool_]:
        held = self.operator._slots
        is_other: NDArray[np.bool_] = held.rows[slots] != self._rows_then[slots]
        is_new: NDArray[np.bool_] = held.opened[slots] != self._opened_then[slots]
        return is_other | is_new


def _no_rows(operator: Aggregate) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], operator.output_schema)


@dataclass(frozen=True)
class Recovered:
    """Costs and outcome of a recovery from the newest checkpoint."""

    operator: Aggregate
    slots: Ints
    """Its open windows."""
    load_s: float
    replay_s: float
    extent: int
    replayed_rows: int


def recover(queue: OutputQueue, operator: Aggregate, source: Source, upto: int) -> Recovered:
    """The state after ``upto`` rows of input: the newest checkpoint, and the input after it.

    Raises:
        AssertionError: the input taken again gives other results than the log has.
    """
    began = time.perf_counter()
    chain = queue.chain()
    frame = chain.last()
    while frame is not None and not frame.header.is_counted:
        frame = chain.before(frame)
    assert frame is not None
    checkpoint = rebuild(chain, frame.header.seq)
    # What has not changed since its footprint is as it was then: the state is of one moment.
    position = frame.header.input_upto
    slots = operator.restore(
        checkpoint.keys, checkpoint.states, np.full_like(checkpoint.positions, position)
    )
    load_s = time.perf_counter() - began
    began = time.perf_counter()
    is_open = np.zeros(len(operator._slots.rows), np.bool_)
    is_open[slots] = True
    again = 0
    reading = source.read(position, upto)
    for step in merge([reading], np.array([position]), [source.schema]):
        effects = operator.apply(step)
        again += effects.rows.num_rows
        size = len(operator._slots.rows)
        is_open = np.concatenate([is_open, np.zeros(size - len(is_open), np.bool_)])
        is_open[effects.closed] = False
        is_open[effects.opened] = True
    logged = chain.end.offset - frame.header.end_offset
    if again != logged:
        raise AssertionError(f"{again} results come of input whose results in the log are {logged}")
    return Recovered(
        operator,
        np.flatnonzero(is_open),
        load_s,
        time.perf_counter() - began,
        checkpoint.extent.records,
        upto - position,
    )


def same_states(one: pa.Table, other: pa.Table) -> bool:
    """Return True if two operators hold the same windows in the same states."""
    equal = one.schema == other.schema and one.num_rows == other.num_rows
    return equal and all(
        bool(pc.all(pc.equal(one.column(name), other.column(name))).as_py())
        for name in one.column_names
    )
