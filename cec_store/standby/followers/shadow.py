"""Active standby: a second operator takes the same input, and holds its output back.

High-availability paper, 5.3: the secondary processes all that the primary does, and its output
queues are trimmed by what the primary has sent. Here that is what the primary's log has durably:
records say which input caused them, so the log's newest says what of the held output is there.

The footprints that a recovery would read are the primary's. Which of the shadow's windows have one,
and where, is learned by their keys; those that it has opened since then get theirs at the takeover.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.last_rows import last_rows
from cec_store.checkpoints.rebuild import rows_of
from cec_store.errors import OutOfRange, RecoveryError
from cec_store.format.columns import Ints, values_of
from cec_store.format.records import empty_batch
from cec_store.format.schema import KEY, KIND, STATE, RecordKind, RecordSchema
from cec_store.log.chain import QueueChain
from cec_store.log.frames import FrameMarks
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.contract import NO_SLOTS, Effects, Operator, Source, Step
from cec_store.operators.frame_builder import FrameBuilder
from cec_store.operators.inputs.live import LiveInputs
from cec_store.operators.inputs.sources import steps_of
from cec_store.operators.keys.words import grown
from cec_store.operators.recovery import Recovery, Restart, preload
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.standby.followers.followed_log import FollowedLog, LogFollower, NewRecords
from cec_store.standby.followers.footprint_ledger import FootprintLedger
from cec_store.standby.followers.held_output import HeldOutput


class ShadowDiffers(RecoveryError):
    """The primary has not done what the operator of this standby has done. Nothing was appended."""


class OrdersDiffer(OutOfRange):
    """The primary has taken rows of the inputs in another order than this operator."""


class Shadow(LogFollower):
    """An operator beside the primary's, which may be before or behind it."""

    def __init__(
        self,
        make: Callable[[], Operator],
        sources: Sequence[Source],
        chain: QueueChain,
        held: HeldOutput,
        step_rows_max: int,
        frame_bytes_max: int,
    ) -> None:
        self._make = make
        self._sources = sources
        self._step_rows_max = step_rows_max
        self._live = LiveInputs(sources, step_rows_max)
        self._frame_bytes_max = frame_bytes_max
        self._schema: RecordSchema = chain.schema()
        self._log = FollowedLog(chain)
        self.held = held
        self.operator = make()
        self._is_fresh = True
        self.is_begun = False
        self.taken_rows = 0
        self.made_rows = 0
        """Output that was made; what is not appended at a takeover was the primary's to write."""
        self._builder: FrameBuilder
        self._ledger: FootprintLedger
        self._position: Ints
        """Input below it was taken, shape (inputs,)."""
        self._timestamp_us = 0
        """Timestamp of the last row taken, in microseconds."""
        self._lacks = np.zeros(1024, np.bool_)
        """True by slot for an open window of which no footprint has been seen."""
        self._unsettled: deque[NewRecords] = deque()
        """Records of windows that have not been opened here yet."""
        self._needed_from: Ints | None = None

    def follow(self, steps_max: int) -> int:
        """Take what is new in the log, and so many steps of the input; how many rows these had."""
        try:
            return self._take_new(steps_max)
        except OutOfRange:
            # The log or the input was trimmed behind this position while this process was away, or
            # the primary has read its inputs in another order.
            self.is_begun = False
            return self._take_new(steps_max)

    def _take_new(self, steps_max: int) -> int:
        if not self.is_begun:
            self._begin()
        if not self.is_begun:
            return 0
        self._take_log()
        rows = 0
        for number, step in enumerate(self._live.steps(self._position), 1):
            self._take(step)
            rows += step.rows
            if number == steps_max:
                break
        self._settle()
        return rows

    def _begin(self) -> None:
        """Start as a recovery would, at the log's end; its first frame says where the input is."""
        checkpoint = self._log.begin()
        if checkpoint is None:
            return
        if not self._is_fresh:  # it may have taken a part, where this or a step has failed
            self.operator = self._make()
            self.held.close()
        self._is_fresh, operator = False, self.operator
        self._builder = FrameBuilder(operator, self._schema, self._frame_bytes_max)
        self._ledger = FootprintLedger(operator.inputs)
        self._lacks[:] = False
        self._unsettled.clear()
        slots = operator.restore(checkpoint.keys, checkpoint.states, checkpoint.positions)
        self._ledger.add(slots, checkpoint.offsets, checkpoint.positions)
        self._needed_from = operator.preload_start()
        if self._needed_from is not None:
            preload(operator, self._sources, self._needed_from, checkpoint.replay_from)
        self._position = checkpoint.replay_from
        for step in self._steps_between(checkpoint.replay_from, checkpoint.replay_upto):
            operator.catch_up(step)
            self.taken_rows += step.rows
        self._position = checkpoint.replay_upto
        self.is_begun = True

    def _steps_between(self, start: Ints, stop: Ints) -> Iterator[Step]:
        return steps_of(self._sources, start, stop, self._step_rows_max)

    # -- the primary's log --------------------------------------------------------------------

    def _take_log(self) -> None:
        for new in self._log.new():
            if KEY in new.records.column_names:
                self._unsettled.append(new)
        upto = self._log.upto
        if not (self._is_behind(upto) or (upto <= self._position).all()):
            raise OrdersDiffer(
                f"{self._log.chain.path}: the primary has taken its inputs up to {upto.tolist()}, "
                f"and this operator up to {self._position.tolist()}: neither is before the other"
            )
        self.held.trim(upto)

    def _is_behind(self, upto: Ints) -> bool:
        """True if this operator has taken no row from a position on, shape (inputs,)."""
        return bool((self._position <= upto).all())

    def _settle(self) -> None:
        """Learn where windows have their footprints, as far as this operator has come itself."""
        while self._unsettled and (self._unsettled[0].upto <= self._position).all():
            self._note_footprints(self._unsettled.popleft())

    def _note_footprints(self, new: NewRecords) -> None:
        kinds = values_of(new.records.column(KIND), "u1")
        (rows,) = np.nonzero(np.isin(kinds, (RecordKind.OPEN.value, RecordKind.CHECK.value)))
        if not len(rows):
            return
        rows = rows[last_rows(rows_of(new.records.column(KEY), rows))]
        keys, positions = rows_of(new.records.column(KEY), rows), new.positions[rows]
        slots = self.operator.find(keys, positions.sum(axis=1))
        # Windows that have closed here since need no footprint.
        is_open = slots >= 0
        slots, rows, positions = slots[is_open], rows[is_open], positions[is_open]
        if not len(slots):
            return
        self._ledger.add(slots, new.first_offset + rows, positions)
        self._mark(slots, False)
        if self.operator.preload_start() is not None:
            fresh = self._make()
            states = rows_of(new.records.column(STATE), rows)
            fresh.restore(rows_of(new.records.column(KEY), rows), states, positions)
            self._needed_from = fresh.preload_start()

    def _mark(self, slots: Ints, lacks: bool) -> NDArray[np.bool_]:
        """Set for these windows if they lack a footprint; return if they lacked one before, shape
        (slots,).
        """
        if len(slots) and int(slots.max()) >= len(self._lacks):
            self._lacks = grown(self._lacks, int(slots.max()) + 1)
        before: NDArray[np.bool_] = self._lacks[slots]
        self._lacks[slots] = lacks
        return before

    # -- the input ----------------------------------------------------------------------------

    def _take(self, step: Step) -> None:
        try:
            self._take_whole(step)
        except BaseException:
            self.is_begun = False
            raise

    def _take_whole(self, step: Step) -> None:
        effects = self.operator.apply(step)
        # A slot that lacks a footprint may have closed, and opened again.
        lacked = self._mark(effects.closed, False)
        self._ledger.remove(effects.closed[~lacked])
        self._mark(effects.opened, True)
        self._position = step.positions[-1]
        self._timestamp_us = int(step.timestamps_us[-1])
        self.taken_rows += step.rows
        self.made_rows += effects.rows.num_rows
        if self._is_behind(self._log.upto):
            return  # the primary was quicker, and its output is durable
        for records in self._builder.parts(step, effects, NO_SLOTS, NO_SLOTS):
            self.held.add(records)

    # -- takeover -----------------------------------------------------------------------------

    def complete(self, queue: AppendableQueue, restart: Restart) -> Recovery:
        """Append what the fenced primary has not written: a :class:`.recovery.Recovering`.

        Raises:
            OutOfRange: it was trimmed beyond where this one stood, or the primary has taken the
                inputs in another order: recover without it.
            ShadowDiffers: the primary has not done what this operator does.
            HeldOutputLost: its disk has failed; the queue may be left in the middle of a step.
        """
        began_s, frames, taken = time.perf_counter(), self._log.frames_read, self.taken_rows
        self._take_log()
        upto = self._log.upto
        start = self._position
        if self._is_behind(upto):
            for step in self._steps_between(start, upto):
                self._take(step)
            # The log's position may be ahead of the last step by rows that had no effect.
            self._position = np.maximum(self._position, upto)
        self._settle()
        replayed_s = time.perf_counter()
        appended = self._hand_over(queue, restart.checkpointer, restart.acknowledging)
        return Recovery(
            extent=self._log.extent(self._log.frames_read - frames),
            load_s=time.perf_counter() - replayed_s,
            replayed_rows=self.taken_rows - taken,
            replay_s=replayed_s - began_s,
            replay_from=tuple(start.tolist()),
            replay_upto=tuple(self._position.tolist()),
            dropped_rows=self.made_rows - appended,
            appended_rows=appended,
        )

    def _hand_over(
        self, queue: AppendableQueue, checkpointer: Checkpointer, acknowledging: Acknowledging
    ) -> int:
        """Append what is missing; how many rows of output these are."""
        lacking = np.flatnonzero(self._lacks)
        self._require_equal(len(lacking))
        footprints, end = self._ledger.footprints(), queue.end_offset
        self._ledger.hand_over(checkpointer)
        rows = self._append(queue, checkpointer, lacking)
        if len(lacking):
            footprints = np.concatenate([footprints, self._position[None]])
            if self._needed_from is None:
                self._needed_from = self.operator.preload_start()
        # Without windows, input beyond what the log reflects has left no trace in it, so that it
        # must not be acknowledged as saved.
        oldest = footprints[0] if len(footprints) else self._log.upto
        acknowledging.recovered(end, oldest, footprints, self._needed_from)
        return rows

    def _require_equal(self, lacking: int) -> None:
        known, has = self._ledger.open_windows + lacking, self.operator.open_windows
        if known != has:
            raise ShadowDiffers(
                f"{self._log.chain.path}: the primary's footprints and this operator's own windows "
                f"come to {known}, and {has} are open here: the two have not done the same"
            )

    def _append(self, queue: AppendableQueue, checkpointer: Checkpointer, lacking: Ints) -> int:
        """One step of all that is held, and a footprint of each window that lacks one."""
        upto = self._log.upto
        rows = self.held.rows_behind(upto)
        if not rows and not len(lacking):
            return 0
        first = queue.end_offset + rows
        position = int(self._position.sum())
        checkpointer.opened(lacking, first, position)
        marks = FrameMarks(
            checkpointer.open_windows, checkpointer.extent(first + len(lacking)), position
        )
        output = (records for records in self.held.behind(upto) if records.num_rows)
        queue.append_step(chained(output, self._footprints(lacking)), marks)
        queue.sync()
        return rows

    def _footprints(self, slots: Ints) -> Iterator[pa.RecordBatch]:
        if not len(slots):
            return
        now = Step(
            batches=(),
            source=np.zeros(1, np.int8),
            positions=self._position[None],
            timestamps_us=np.array([self._timestamp_us]),
        )
        nothing = Effects(empty_batch(self.operator.output_schema), None, NO_SLOTS)
        yield from self._builder.parts(now, nothing, slots, NO_SLOTS)
