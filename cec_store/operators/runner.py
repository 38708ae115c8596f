"""Drives an operator over its inputs: steps in, frames out, and back to work after a crash.

CEC paper, III: foreground (apply), background (CHECKs, in the same thread) and recovery paths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.policy import Policy, Targets
from cec_store.checkpoints.rates import Rates
from cec_store.checkpoints.rebuild import EventualCheckpoint, rebuild
from cec_store.errors import RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.frame import NOT_COUNTED
from cec_store.format.schema import RecordSchema
from cec_store.log.writer import FrameMarks
from cec_store.operators.contract import Effects, Operator, Source, Step
from cec_store.operators.frame_builder import Stacker
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX, merge
from cec_store.operators.inputs.sources import consumers_of
from cec_store.operators.needed_input import NeededInput, lower
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.values import Extent


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
    a start from nothing, at what a source's consumer has not acknowledged.
    """

    def __init__(
        self,
        operator: Operator,
        sources: Sequence[Source],
        queue: AppendableQueue,
        policy: Policy | None = None,
        *,
        checkpoints: bool = True,
        rates: Rates | None = None,
        step_rows_max: int = BATCH_ROWS_MAX,
        acknowledge_interval_s: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``checkpoints=False`` writes output alone: nothing can then be recovered.

        :meth:`run` acknowledges sources that have a consumer every ``acknowledge_interval_s``.

        Raises:
            RecoveryError: a source's consumer was acknowledged what this queue does not have.
            ValueError: not one source for each input, or two with one consumer.
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
        self._stacker = Stacker(operator, self._schema)
        self._checkpoints = checkpoints
        self._step_rows_max = step_rows_max
        self.checkpointer = Checkpointer(policy or Targets(), rates, clock_s)
        self.checks_written = 0
        self.records_written = 0
        self._acknowledge_interval_s = acknowledge_interval_s
        self._clock_s = clock_s
        self._consumers = consumers_of(sources)
        self._has_indicators = checkpoints or any(self._consumers)
        queue.sync()
        self._end_offset = queue.end_offset
        is_new = queue.chain().end.seq == 0
        self._position: Ints = self._start() if is_new else np.zeros(operator.inputs, np.int64)
        self._indicators = NeededInput(self._end_offset, self._position)
        self.recovery: Recovery | None = None if is_new else self._recover()

    def _start(self) -> Ints:
        for consumer in filter(None, self._consumers):
            if self._checkpoints and consumer.effects_saved > consumer.start:
                raise RecoveryError(
                    f"{self.queue.folder.path}: has no records, but consumer {consumer.name!r} of "
                    f"its input was acknowledged as saved up to {consumer.effects_saved}; give it "
                    "back its records, or drop the consumer and register it anew"
                )
        return np.array([each.effects_saved if each else 0 for each in self._consumers], np.int64)

    # -- recovery -----------------------------------------------------------------------------

    def _recover(self) -> Recovery:
        if not self._checkpoints:
            raise RecoveryError(
                f"{self.queue.folder.path}: has records already, and going on after them needs "
                "checkpoints"
            )
        began = time.perf_counter()
        found = rebuild(self.queue.chain())
        slots = self.operator.restore(found.keys, found.states, found.positions)
        self.checkpointer.restored(slots, found.offsets, found.positions.sum(axis=1))
        load_s = time.perf_counter() - began
        self.checkpointer.rates.observe_load(found.extent.records, load_s)
        began = time.perf_counter()
        starts = self.operator.preload_start()
        self._indicators.note(self._end_offset, lower(found.replay_from, starts))
        for position in np.unique(found.positions, axis=0):
            self._indicators.place(position, starts)
        rows = self._preload(found, starts) + self._catch_up(found)
        self._position = found.replay_upto
        return Recovery(
            extent=found.extent,
            load_s=load_s,
            replayed_rows=rows,
            replay_s=time.perf_counter() - began,
            replay_from=tuple(found.replay_from.tolist()),
            replay_upto=tuple(found.replay_upto.tolist()),
        )

    def _preload(self, found: EventualCheckpoint, starts: Ints | None) -> int:
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
        acknowledged_s = self._clock_s()
        for step in self._steps(self._position):
            self.step(step)
            if progress is not None:
                progress(step.rows)
            if self._clock_s() - acknowledged_s >= self._acknowledge_interval_s:
                self.acknowledge()
                acknowledged_s = self._clock_s()
        self.queue.sync()
        self.acknowledge()

    def step(self, step: Step) -> None:
        """Take one step of input and append its effects as one frame."""
        began = time.perf_counter()
        effects = self.operator.apply(step)
        begin, self._position = self._position, step.positions[-1]
        records = effects.rows.num_rows + len(effects.opened)
        rates = self.checkpointer.rates
        rates.observe_step(step.rows, records, time.perf_counter() - began)
        if self._checkpoints:
            batch, marks = self._with_footprints(step, effects)
        else:
            batch = self._stacker.records(step, effects, None)
            if self._has_indicators:
                self._follow(effects, begin)
            marks = FrameMarks(open_windows=NOT_COUNTED, input_upto=int(self._position.sum()))
        if batch.num_rows:
            self.queue.append_records(batch, marks)
            self._end_offset += batch.num_rows
            self.records_written += batch.num_rows
        if self._has_indicators and (batch.num_rows or not self._checkpoints):
            self._indicators.note(self._end_offset, self._low(step, effects))

    def _with_footprints(self, step: Step, effects: Effects) -> tuple[pa.RecordBatch, FrameMarks]:
        position = int(self._position.sum())
        first_footprint = self._end_offset + effects.rows.num_rows
        self.checkpointer.closed(effects.closed)
        self.checkpointer.opened(effects.opened, first_footprint, position)
        end = first_footprint + len(effects.opened)
        # This thread's own time: what others take of the processor is not the CHECKs' doing.
        began = time.thread_time()
        checked = self.checkpointer.plan(end, position)
        self.checkpointer.opened(checked, end, position)
        checking_s = time.thread_time() - began
        if len(effects.opened) or len(checked):
            self._indicators.place(self._position, self.operator.preload_start())
        began = time.thread_time()
        batch = self._stacker.records(step, effects, checked)
        if len(checked):
            self.checks_written += len(checked)
            # Of making the frame, their share: the rest is spent with or without them.
            checking_s += (time.thread_time() - began) * len(checked) / batch.num_rows
            self.checkpointer.spent(len(checked), checking_s)
        end += len(checked)
        marks = FrameMarks(self.checkpointer.open_windows, self.checkpointer.extent(end), position)
        return batch, marks

    def _follow(self, effects: Effects, begin: Ints) -> None:
        """Without checkpoints: which windows are open, and from where on their input is needed."""
        windows = np.concatenate([effects.opened, effects.renewed])
        self.checkpointer.closed(effects.closed)
        self.checkpointer.opened(windows, self._end_offset, int(begin.sum()))
        if len(windows):
            self._indicators.place(begin)

    def _low(self, step: Step, effects: Effects) -> Ints:
        """From where on input is needed for what comes after this step."""
        total = int(self._position.sum())
        if self.checkpointer.open_windows:
            low = self._indicators.placed(total - self.checkpointer.replay_rows(total))
        else:
            # With checkpoints the log's last record says where its input stood.
            low = step.positions[effects.causes[-1]] if self._checkpoints else self._position
        return lower(low, None if self._checkpoints else self.operator.preload_start())

    # -- acknowledgements ---------------------------------------------------------------------

    def cause(self, offset: int) -> tuple[int, ...]:
        """For each input, the first row needed to make the output from ``offset`` on again.

        The cause function of the high-availability paper, 5.2.2; it never falls. With checkpoints
        it is where a recovery begins to read: footprints stand for the input before. Without, it
        is the earliest row that has gone into what the operator still remembered then.

        Raises:
            OutOfRange: earlier than what is remembered.
            RecoveryError: neither checkpoints nor a source with a consumer.
        """
        if not self._has_indicators:
            raise RecoveryError("no indicators are kept: give a source a consumer")
        return tuple(self._indicators.cause(offset).tolist())

    def acknowledge(self) -> None:
        """Tell the sources' consumers what was taken (level 0) and is no longer needed (level 1).

        With checkpoints a recovery needs what their footprints do not say. Without, that is not
        needed which made output that all consumers of this queue have received.
        """
        if not any(self._consumers):
            return
        if self._checkpoints:
            self._note_position()
            self.queue.sync()
            upto = self._end_offset
        else:
            upto = min((each.received for each in self.queue.consumers()), default=0)
        low = self._indicators.settle(upto)
        for consumer, taken, saved in zip(self._consumers, self._position, low, strict=True):
            if consumer is not None:
                consumer.acknowledge(received=int(taken), effects_saved=int(saved))

    def _note_position(self) -> None:
        """Say by a frame without records that input was taken which left no other trace."""
        low = self._indicators.cause(self._end_offset)
        is_idle = len(low) == 1 and not self.checkpointer.open_windows
        if is_idle and self._position[0] > low[0]:
            nothing = pa.RecordBatch.from_pylist([], self._schema.arrow)
            self.queue.append_records(nothing, FrameMarks(input_upto=int(self._position[0])))
            self._indicators.note(self._end_offset, lower(self._position, None))
