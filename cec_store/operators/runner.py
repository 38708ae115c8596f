"""Drives an operator over its inputs: steps in, frames out, and back to work after a crash.

CEC paper, III: foreground (apply), background (CHECKs, in the same thread) and recovery paths.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakSet

import numpy as np

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.policy import Policy, Targets
from cec_store.checkpoints.rates import Rates
from cec_store.errors import OutOfRange, ended_by
from cec_store.format.columns import Ints
from cec_store.format.schema import RecordSchema
from cec_store.log.frames import FrameMarks
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.choosing import Choosing, Luck
from cec_store.operators.contract import NO_SLOTS, Effects, Operator, Source, Step
from cec_store.operators.frame_builder import Footprinting, FrameBuilder
from cec_store.operators.inputs.input_queues import note_input_queues
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX
from cec_store.operators.inputs.sources import consumers_of
from cec_store.operators.recovery import Recovering, Recovery, Restart, recover
from cec_store.operators.reprocessing import process_again
from cec_store.operators.taxonomy import Chance
from cec_store.queues.appendable_queue import AppendableQueue

_log = logging.getLogger(__name__)


def record_schema(operator: Operator) -> RecordSchema:
    """The schema of the queue that this operator writes.

    Examples:
        >>> open_queue("sums", "x", schema=record_schema(averages())).close()
    """
    return RecordSchema(
        operator.output_schema,
        operator.key_schema,
        operator.state_schema,
        operator.inputs,
        determinants=operator.chances is not Chance.NONE,
    )


_taken: WeakSet[Operator] = WeakSet()
"""Operators with state that runners have, or have had: each may have windows in it."""


def _taken_once(operator: Operator) -> Operator:
    if operator.key_schema is not None:
        if operator in _taken:
            raise ValueError("this operator has windows of an earlier runner; make a new one")
        _taken.add(operator)
    return operator


class Runner:
    """An operator, its inputs and its output queue.

    Making one recovers: it loads the eventual checkpoint of the queue's end and takes the input
    after it again, so that output goes on with no gap and no duplicate. On an empty queue that is
    a start from nothing, at what a source's consumer has not acknowledged.

    One thread, the caller's, does all of it; only the queue writes in a thread of its own. After an
    error, or an interrupt, it is of no more use: the operator may have taken a part of a step, and
    what that put out may not be in the log.

    Examples:
        >>> with open_queue("averages", "a") as queue:
        ...     Runner(averages(), [source], queue).run()
        ...     queue.replay().read_all().to_pylist()
        [{'item': 1, 'mean': 15.0}]
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
        recovering: Recovering | None = None,
        step_rows_max: int = BATCH_ROWS_MAX,
        acknowledge_interval_s: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
        luck: Luck | None = None,
    ) -> None:
        """``checkpoints=False`` writes output alone. A runner that goes on after one of these takes
        the input again from what the sources' consumers were acknowledged (without one, all of it),
        and drops the output that is there; by ``recovering`` a standby gets its state otherwise.

        :meth:`run` acknowledges sources that have a consumer every ``acknowledge_interval_s``.
        ``luck`` is where an operator's chances come from; what it says is logged.

        Raises:
            RecoveryError: a source's consumer was acknowledged what this queue does not have, or
                the queue was written with checkpoints and is to go on without, or the other way.
            ValueError: not one source for each input, two with one consumer, or an operator with
                state that another runner has had.
            SchemaMismatch: the queue belongs to another operator.
            QueueReplaced: a source is another queue than the one that the log's positions are of.
        """
        if len(sources) != operator.inputs:
            raise ValueError(f"{len(sources)} sources for an operator of {operator.inputs} inputs")
        self.operator = _taken_once(operator)
        self.queue = queue
        self._sources = sources
        schema = queue.require_schema(record_schema(operator))
        self._builder = FrameBuilder(operator, schema, queue.options.frame_bytes_max)
        self._step_rows_max = step_rows_max
        self._acknowledge_interval_s = acknowledge_interval_s
        self._clock_s = clock_s
        self._unfinished: BaseException | None = None
        """During a step or an acknowledgement, and after one that failed: what has ended it."""
        self.checkpointer = Checkpointer(policy or Targets(), rates, clock_s)
        self.records_written = 0
        self._acknowledging = Acknowledging(
            operator, queue, self.checkpointer, consumers_of(sources), checkpoints
        )
        self._choosing = Choosing(operator, sources, step_rows_max, luck or Luck())
        self._footprinting: Footprinting | None = None
        if checkpoints:
            self._footprinting = Footprinting(self._builder, self.checkpointer, self._acknowledging)
        queue.sync()
        self._end_offset = queue.end_offset
        self._position: Ints
        self.recovery: Recovery | None = None
        note_input_queues(queue.folder, sources)
        chain = queue.chain()
        if chain.end.seq == 0 and recovering is None:
            self._position = self._acknowledging.start(self._end_offset)
        else:
            get_back = recovering or (recover if checkpoints else process_again)
            _log.info("%s: recovery begins, at offset %d", queue.folder.path, self._end_offset)
            restart = Restart(
                operator, sources, chain, self.checkpointer, self._acknowledging, step_rows_max
            )
            self.recovery = get_back(restart)
            _log.info("%s: %s", queue.folder.path, self.recovery.summary)
            self._position = np.array(self.recovery.replay_upto)
            self._choosing.go_on(chain)
            self._end_offset = queue.end_offset

    @property
    def sources(self) -> Sequence[Source]:
        """The inputs, in the order of the operator's."""
        return self._sources

    @property
    def checks_written(self) -> int:
        """CHECK records written since this was made."""
        return self._footprinting.checks_written if self._footprinting is not None else 0

    @property
    def waits_for(self) -> tuple[int, ...]:
        """Numbers of the inputs without rows for which the last :meth:`run` held others' rows back.

        Empty where nothing waits. An input that gets no more rows has to say so (``has_ended``),
        or the operator for how long to wait for it (``idle_timeout_us``).
        """
        return self._choosing.waits_for

    def _steps(self, start: Ints) -> Iterator[Step]:
        return self._choosing.steps(start)

    def _steps_unless_fenced(self) -> Iterator[Step]:
        try:
            yield from self._steps(self._position)
        except OutOfRange:
            # Whoever has taken over needs less of the input than this one, and let go of the rest.
            self.queue.check_writer()
            raise

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Take all the input there is, and return once its output is durable.

        Of several inputs by time that is all up to the least of the newest timestamps of those that
        have not ended: rows behind it are held back until the others have come so far
        (:attr:`waits_for`), and are taken by a later call.

        ``progress`` is called with the number of rows after each step.

        Raises:
            Fenced: another runner has taken over; said by every later call too.
            Poisoned: an earlier one has failed or was interrupted; make a new runner.
        """
        self._refuse_if_unfinished()
        acknowledged_s = self._clock_s()
        for step in self._steps_unless_fenced():
            self.step(step)
            if progress is not None:
                progress(step.rows)
            if self._clock_s() - acknowledged_s >= self._acknowledge_interval_s:
                self.acknowledge()
                acknowledged_s = self._clock_s()
        self.queue.sync()
        self.acknowledge()

    def step(self, step: Step) -> None:
        """Take one step of input and append its effects, all or none of which will count.

        Raises:
            Fenced: another runner has taken over; said by every later call too.
            Poisoned: an earlier one has failed or was interrupted; make a new runner.
        """
        with self._busy():
            self._take(step)

    def tick(self) -> None:
        """Take a step without input: by the clock, what has waited too long is given up.

        For whoever waits for input, between two :meth:`run`; of an operator that does not depend
        on the clock nothing comes of it. Where nothing has waited too long, nothing is logged.

        Raises:
            Fenced: another runner has taken over; said by every later call too.
            Poisoned: an earlier one has failed or was interrupted; make a new runner.
        """
        if Chance.CLOCK in self.operator.chances:
            self.step(self._choosing.tick(self._position))

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._refuse_if_unfinished()
        self._unfinished = InterruptedError("interrupted")
        try:
            yield
        except BaseException as error:
            self._unfinished = error
            raise
        self._unfinished = None

    def _refuse_if_unfinished(self) -> None:
        if self._unfinished is not None:
            advice = (
                f"{self.queue.folder.path}: this runner has left a step unfinished; open the queue "
                "again, and make a new operator and a new runner, which recover from it"
            )
            raise ended_by(self._unfinished, advice) from self._unfinished

    def _take(self, step: Step) -> None:
        effects = self._apply(step)
        if not step.rows and effects.are_none:
            return  # a tick at which nothing was due: otherwise an idle runner would fill its log
        if self._footprinting is not None:
            parts, records, marks = self._footprinting.frames(step, effects, self._end_offset)
        else:
            # Without footprints there is no record of a window that MERGED would take back.
            parts = self._builder.parts(step, replace(effects, merged=None), NO_SLOTS, NO_SLOTS)
            records = effects.rows.num_rows + self._builder.determinants
            self._acknowledging.follow(effects, self._position, self._end_offset)
            upto = int(step.end.sum())
            marks = FrameMarks(open_windows=None, input_upto=upto)
        self._position = step.end
        if records:
            self.queue.append_step(parts, marks)
            self._end_offset += records
            self.records_written += records
        if records or self._footprinting is None:
            self._acknowledging.note(step, effects, self._end_offset)

    def _apply(self, step: Step) -> Effects:
        """Let the operator take the step, and tell the rates how long that took."""
        began = time.perf_counter()
        effects = self.operator.apply(step)
        records = effects.rows.num_rows + len(effects.opened)
        seconds = time.perf_counter() - began
        self.checkpointer.rates.observe_step(step.rows, records, seconds)
        return effects

    def cause(self, offset: int) -> tuple[int, ...]:
        """Return for each input the first row needed to make the output from ``offset`` on again.

        The cause function of the high-availability paper, 5.2.2; it never falls. With checkpoints
        it is where a recovery begins to read: footprints stand for the input before. Without, it
        is the earliest row that has gone into what the operator still remembered then.

        Raises:
            OutOfRange: earlier than what is remembered.
            RecoveryError: neither checkpoints nor a source with a consumer.
        """
        return self._acknowledging.cause(offset)

    def acknowledge(self) -> None:
        """Tell the sources' consumers what was taken (level 0) and is no longer needed (level 1).

        With checkpoints a recovery needs what their footprints do not say. Without, it needs what
        made output that is not on disk yet; and all, where windows of another beginning do not
        align again (:attr:`.Operator.operator_type`).

        Raises:
            Fenced: another runner has taken over; said by every later call too.
            Poisoned: an earlier one has failed or was interrupted; make a new runner.
        """
        with self._busy():
            self._acknowledging.acknowledge(self._position, self._end_offset)
