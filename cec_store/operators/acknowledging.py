"""The input that an operator still needs; the rest is acknowledged to the inputs' consumers.

High-availability paper (Hwang and others, 2005), 5.2.2: input-tuple indicators, low watermarks that
never fall. They are kept for each frame, and for fewer of the older ones: in between, the one
before answers, which asks for more input than necessary and never for too little.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.errors import OutOfRange, RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.records import empty_batch
from cec_store.log.frames import FrameMarks
from cec_store.operators.contract import Effects, Operator, Step
from cec_store.operators.taxonomy import ALIGNING, Chance
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.queues.consumers import Consumer

_KEPT_MAX = 4096


class NeededInput:
    """Lows are input positions, shape (inputs,): all input from there on is needed."""

    def __init__(self, end_offset: int, low: Ints) -> None:
        """Output from ``end_offset`` on needs the input from ``low`` on."""
        self._ends = [end_offset]
        self._lows = [low]
        self._footprint_totals: list[int] = []
        self._footprint_lows: list[Ints] = []

    def add_footprints(self, position: Ints, preload: Ints | None = None) -> None:
        """Windows have footprints as of this position; a join needs input from ``preload`` on."""
        self._footprint_totals.append(int(position.sum()))
        self._footprint_lows.append(lower_position(position, preload))

    def low_of(self, total: int) -> Ints:
        """The low of footprints whose position sums up to this; totals asked for never fall."""
        at = bisect_left(self._footprint_totals, total)
        del self._footprint_totals[:at], self._footprint_lows[:at]
        assert self._footprint_totals[0] == total
        return self._footprint_lows[0]

    def note(self, end_offset: int, low: Ints) -> None:
        """The log ends at ``end_offset`` now; output from there on needs the input from ``low``."""
        if end_offset == self._ends[-1]:
            self._lows[-1] = low
            return
        if len(self._ends) == _KEPT_MAX:
            del self._ends[1:-1:2], self._lows[1:-1:2]
        self._ends.append(end_offset)
        self._lows.append(low)

    def cause(self, offset: int) -> Ints:
        """Return the position from which output from ``offset`` on needs input, shape (inputs,).

        Raises:
            OutOfRange: before the oldest frame that is remembered.
        """
        at = bisect_right(self._ends, offset) - 1
        if at < 0:
            raise OutOfRange(f"indicators are kept from offset {self._ends[0]} on, not {offset}")
        return self._lows[at]

    def forget_before(self, offset: int) -> Ints:
        """The cause of ``offset``, or of the oldest remembered; what is older is forgotten."""
        at = max(0, bisect_right(self._ends, offset) - 1)
        del self._ends[:at], self._lows[:at]
        return self._lows[0]


def lower_position(position: Ints, other: Ints | None) -> Ints:
    """A copy of the lower of both positions, for each input."""
    return np.array(position if other is None else np.minimum(position, other))


class Acknowledging:
    """Notes after each frame from where on input is needed, and acknowledges what is before.

    With checkpoints a recovery needs what footprints do not say. Without, it needs the input of
    output that is not durable yet: what is in the log counts as received, whoever has read it. An
    operator that does not align again from an empty state then needs all of its input. Nothing is
    noted where nobody could ask: without checkpoints and without a source that has a consumer.
    """

    def __init__(
        self,
        operator: Operator,
        queue: AppendableQueue,
        checkpointer: Checkpointer,
        consumers: list[Consumer | None],
        checkpoints: bool,
    ) -> None:
        self._operator = operator
        self._queue = queue
        self._checkpointer = checkpointer
        self._consumers = consumers
        self._checkpoints = checkpoints
        self._is_noting = checkpoints or any(consumers)
        self._can_begin_anew = operator.operator_type in ALIGNING or operator.key_schema is None
        """True if the operator can begin at any row, with an empty state."""
        self._needed: NeededInput

    def start(self, end_offset: int) -> Ints:
        """The position at which a queue without records starts, shape (inputs,).

        Raises:
            RecoveryError: a consumer was acknowledged what this queue does not have.
        """
        for consumer in filter(None, self._consumers):
            if self._checkpoints and consumer.effects_saved > consumer.start:
                raise RecoveryError(
                    f"{self._queue.folder.path}: has no records, but consumer {consumer.name!r} of "
                    f"its input was acknowledged as saved up to {consumer.effects_saved}; give it "
                    "back its records, or drop the consumer and register it anew"
                )
        saved = [consumer.effects_saved if consumer else 0 for consumer in self._consumers]
        position = np.array(saved, np.int64)
        self._needed = NeededInput(end_offset, position)
        return position

    def recovered(
        self, end_offset: int, replay_from: Ints, footprints: Ints, preload: Ints | None
    ) -> None:
        """The operator stands as the log does, which ends at ``end_offset``.

        Its windows have footprints as of these positions, each once and in order, shape (…,
        inputs), the oldest at ``replay_from``; a join needs its input from ``preload`` on.
        """
        self._needed = NeededInput(end_offset, lower_position(replay_from, preload))
        for position in footprints:
            self._needed.add_footprints(position, preload)

    def add_footprints(self, position: Ints) -> None:
        """The frame in progress holds footprints as of this position."""
        self._needed.add_footprints(position, self._operator.preload_start())

    def follow(self, effects: Effects, begin: Ints, end_offset: int) -> None:
        """Note which windows a step opens and closes, and their input, without checkpoints.

        ``begin`` is the step's first position, shape (inputs,): a window needs it all.
        """
        if not self._is_noting:
            return
        windows = np.concatenate([effects.opened, effects.renewed])
        self._checkpointer.closed(effects.closed)
        self._checkpointer.opened(windows, end_offset, int(begin.sum()))
        if len(windows):
            self._needed.add_footprints(begin)

    def note(self, step: Step, effects: Effects, end_offset: int) -> None:
        """A frame that ends here is in the log: what its successors need of the input."""
        if not self._is_noting:
            return
        position = step.end
        total = int(position.sum())
        if self._checkpointer.open_windows:
            low = self._needed.low_of(total - self._checkpointer.replay_rows(total))
        else:
            # With checkpoints the log's last record says where its input stood.
            is_said = not self._checkpoints or self._operator.chances is not Chance.NONE
            low = position if is_said else step.positions[effects.causes[-1]]
        preload = None if self._checkpoints else self._operator.preload_start()
        self._needed.note(end_offset, lower_position(low, preload))

    def cause(self, offset: int) -> tuple[int, ...]:
        """See :meth:`Runner.cause`."""
        if not self._is_noting:
            raise RecoveryError("no indicators are kept: give a source a consumer")
        return tuple(self._needed.cause(offset).tolist())

    def acknowledge(self, position: Ints, end_offset: int) -> None:
        """Acknowledge what was taken up to ``position``, where the log ends at ``end_offset``."""
        if not any(self._consumers):
            return
        if self._checkpoints:
            self._write_position(position, end_offset)
        self._queue.sync()
        low = np.zeros_like(position)
        if self._checkpoints or self._can_begin_anew:
            low = self._needed.forget_before(end_offset)
        for consumer, taken, saved in zip(self._consumers, position, low, strict=True):
            if consumer is not None:
                consumer.acknowledge(received=int(taken), effects_saved=int(saved))

    def _write_position(self, position: Ints, end_offset: int) -> None:
        """Say by a frame without records that input was taken which left no other trace."""
        low = self._needed.cause(end_offset)
        is_idle = len(low) == 1 and not self._checkpointer.open_windows
        if is_idle and position[0] > low[0]:
            nothing = empty_batch(self._queue.schema.arrow)
            self._queue.append_records(nothing, FrameMarks(input_upto=int(position[0])))
            self._needed.note(end_offset, lower_position(position, None))
