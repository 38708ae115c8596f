"""Drives an operator over its inputs: steps in, frames out, and back to work after a crash.

CEC paper, III: foreground (apply), background (CHECKs, in the same thread) and recovery paths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.checkpoint import Checkpointer
from cec_store.errors import RecoveryError
from cec_store.frame import NOT_COUNTED
from cec_store.operators.effects import Effects, Ints, Operator, Source, Step
from cec_store.operators.merge import BATCH_ROWS_MAX, merge
from cec_store.policy import Policy, Rates, Targets
from cec_store.queue import Queue
from cec_store.rebuild import EventualCheckpoint, rebuild
from cec_store.records import KEY, STATE, TIMESTAMP_TYPE, RecordKind, RecordSchema
from cec_store.units import Extent
from cec_store.writer import FrameMarks


def record_schema(operator: Operator) -> RecordSchema:
    """The schema of the queue that this operator writes."""
    return RecordSchema(
        operator.output_schema, operator.key_schema, operator.state_schema, operator.inputs
    )


@dataclass(frozen=True)
class Recovery:
    """What getting the state back took."""

    extent: Extent
    load_s: float
    """Reading the extent and restoring the windows."""
    replayed_rows: int
    """Input rows taken again before output went on."""
    replay_s: float
    replay_from: tuple[int, ...]
    replay_upto: tuple[int, ...]


class Runner:
    """An operator, its inputs and its output queue.

    Making one recovers: it loads the eventual checkpoint of the queue's end and takes the input
    after it again, so that output goes on with no gap and no duplicate. On an empty queue that is
    a start from nothing.
    """

    def __init__(
        self,
        operator: Operator,
        sources: Sequence[Source],
        queue: Queue,
        policy: Policy | None = None,
        *,
        checkpoints: bool = True,
        rates: Rates | None = None,
        step_rows_max: int = BATCH_ROWS_MAX,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``checkpoints=False`` writes output alone: nothing can then be recovered.

        Raises:
            ValueError: not one source for each input.
            SchemaMismatch: the queue belongs to another operator.
        """
        if len(sources) != operator.inputs:
            raise ValueError(
                f"{len(sources)} sources for an operator with {operator.inputs} inputs"
            )
        self.operator = operator
        self.queue = queue
        self._sources = sources
        self._schema = queue.require_schema(record_schema(operator))
        self._types = {column.name: column.type for column in self._schema.arrow}
        self._checkpoints = checkpoints
        self._step_rows_max = step_rows_max
        self.checkpointer = Checkpointer(policy or Targets(), rates, clock_s)
        self.checks_written = 0
        self.records_written = 0
        self._end_offset = queue.end_offset
        self._position: Ints = np.zeros(operator.inputs, np.int64)
        self.recovery: Recovery | None = self._recover() if self._end_offset else None

    # -- recovery -----------------------------------------------------------------------------

    def _recover(self) -> Recovery:
        if not self._checkpoints:
            raise RecoveryError(
                f"{self.queue.folder.path}: has records already, and going on after them needs "
                "checkpoints"
            )
        self.queue.sync()
        began = time.perf_counter()
        found = rebuild(self.queue.chain())
        slots = self.operator.restore(found.keys, found.states, found.positions)
        self.checkpointer.restored(slots, found.offsets, found.positions.sum(axis=1))
        load_s = time.perf_counter() - began
        self.checkpointer.rates.observe_load(found.extent.records, load_s)
        began = time.perf_counter()
        rows = self._preload(found) + self._catch_up(found)
        self._position = found.replay_upto
        return Recovery(
            extent=found.extent,
            load_s=load_s,
            replayed_rows=rows,
            replay_s=time.perf_counter() - began,
            replay_from=tuple(found.replay_from.tolist()),
            replay_upto=tuple(found.replay_upto.tolist()),
        )

    def _preload(self, found: EventualCheckpoint) -> int:
        starts = self.operator.preload_start()
        if starts is None:
            return 0
        rows = 0
        for number, source in enumerate(self._sources):
            for batch in source.read(int(starts[number]), int(found.replay_from[number])):
                self.operator.preload(number, batch)
                rows += len(batch.offsets)
        return rows

    def _catch_up(self, found: EventualCheckpoint) -> int:
        rows = 0
        for step in self._steps(found.replay_from, found.replay_upto):
            self.operator.catch_up(step)
            rows += step.rows
        return rows

    def _steps(self, start: Ints, stop: Ints | None = None):  # type: ignore[no-untyped-def]
        ends = [None] * len(self._sources) if stop is None else stop.tolist()
        reads = [
            source.read(first, end)
            for source, first, end in zip(self._sources, start.tolist(), ends, strict=True)
        ]
        schemas = [source.schema for source in self._sources]
        return merge(reads, start, schemas, self._step_rows_max)

    # -- foreground ---------------------------------------------------------------------------

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Take all the input there is, and return once its output is durable.

        ``progress`` is called with the number of rows after each step.
        """
        for step in self._steps(self._position):
            self.step(step)
            if progress is not None:
                progress(step.rows)
        self.queue.sync()

    def step(self, step: Step) -> None:
        """Take one step of input and append its effects as one frame."""
        began = time.perf_counter()
        effects = self.operator.apply(step)
        self._position = step.positions[-1]
        records = effects.rows.num_rows + len(effects.opened)
        rates = self.checkpointer.rates
        rates.observe_step(step.rows, records, time.perf_counter() - began)
        if self._checkpoints:
            batch, marks = self._with_footprints(step, effects)
        else:
            batch = self._records(step, effects, None)
            marks = FrameMarks(open_windows=NOT_COUNTED, input_upto=int(self._position.sum()))
        if batch.num_rows:
            self.queue.append_records(batch, marks)
            self._end_offset += batch.num_rows
            self.records_written += batch.num_rows

    def _with_footprints(self, step: Step, effects: Effects) -> tuple[pa.RecordBatch, FrameMarks]:
        position = int(self._position.sum())
        first_footprint = self._end_offset + effects.rows.num_rows
        self.checkpointer.closed(effects.closed)
        self.checkpointer.opened(effects.opened, first_footprint, position)
        end = first_footprint + len(effects.opened)
        began = time.perf_counter()
        checked = self.checkpointer.plan(end, position)
        self.checkpointer.opened(checked, end, position)
        batch = self._records(step, effects, checked)
        if len(checked):
            self.checks_written += len(checked)
            self.checkpointer.spent(len(checked), time.perf_counter() - began)
        end += len(checked)
        marks = FrameMarks(self.checkpointer.open_windows, self.checkpointer.extent(end), position)
        return batch, marks

    def _records(self, step: Step, effects: Effects, checked: Ints | None) -> pa.RecordBatch:
        """Output rows, then OPEN, then CHECK, in the record schema."""
        opened = effects.opened if checked is not None else effects.opened[:0]
        footprints = np.concatenate([opened, checked]) if checked is not None else opened
        rows, more = effects.rows.num_rows, len(footprints)
        kinds = np.full(rows + more, self.operator.output_kind, np.uint8)
        kinds[rows : rows + len(opened)] = RecordKind.OPEN
        kinds[rows + len(opened) :] = RecordKind.CHECK
        cause = np.concatenate([effects.causes, np.full(more, step.rows - 1)])
        arrays = [
            pa.array(kinds),
            pa.array(step.timestamps_us[cause]).view(TIMESTAMP_TYPE),
            *(pa.array(step.positions[:, i][cause]) for i in range(self._schema.inputs)),
        ]
        keys, states = self.operator.snapshot(footprints) if more else (None, None)
        if KEY in self._types:
            arrays.append(self._stack(KEY, effects.keys, keys, rows, more))
        if STATE in self._types:
            arrays.append(self._stack(STATE, None, states, rows, more))
        arrays += [
            self._stack(name, effects.rows.column(name), None, rows, more)
            for name in self._schema.data.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _stack(self, name: str, above: pa.Array | None, below: pa.Array | None,
               rows: int, more: int) -> pa.Array:  # fmt: skip
        """One column of a frame: the output rows' part over the footprints', nulls for none."""
        kind = self._types[name]
        parts = []
        if rows:
            parts.append(pa.nulls(rows, kind) if above is None else above)
        if more:
            parts.append(pa.nulls(more, kind) if below is None else below)
        if not parts:
            return pa.nulls(0, kind)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
