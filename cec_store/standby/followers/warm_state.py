"""Passive standby: an operator that is kept close to its log, by the footprints in it.

High-availability paper, 5.1: the primary sends what has changed since the last checkpoint. Here it
is in the log anyway, as the footprints of single windows, so that nothing extra is written or sent;
and what has changed after a window's footprint is taken from the input again, at a takeover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.determinants import determinants_since
from cec_store.checkpoints.last_rows import last_rows
from cec_store.checkpoints.rebuild import rows_of
from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.columns import Ints, values_of
from cec_store.format.records import closes, of_windows
from cec_store.format.schema import KEY, KIND, STATE
from cec_store.log.chain import QueueChain
from cec_store.log.reader import LogReader
from cec_store.operators.choosing import steps_again
from cec_store.operators.contract import Operator, Source, Step
from cec_store.operators.inputs.sources import steps_of
from cec_store.operators.recovery import Restored, preload
from cec_store.operators.taxonomy import Chance
from cec_store.standby.followers.followed_log import FollowedLog, LogFollower, NewRecords
from cec_store.standby.followers.footprint_ledger import FootprintLedger


class WarmState(LogFollower):
    """An operator with the windows that are open at the log's end, each as of its footprint.

    With ``replays_ahead`` it takes its input along: a takeover has then only the newest to replay.
    An operator whose state is its input (the join) does so anyway.
    """

    def __init__(
        self,
        make: Callable[[], Operator],
        sources: Sequence[Source],
        chain: QueueChain,
        step_rows_max: int,
        replays_ahead: bool,
    ) -> None:
        self._make = make
        self._sources = sources
        self._step_rows_max = step_rows_max
        self._replays_ahead = replays_ahead
        self._log = FollowedLog(chain)
        self.operator = make()
        self._ledger: FootprintLedger
        self._is_begun = False
        self._needed_from: Ints | None = None
        self._taken_upto: Ints
        """Input below it is in the windows, whatever their footprints say."""
        self.replayed_rows = 0
        """Input rows that were taken ahead of a takeover."""

    @property
    def is_begun(self) -> bool:
        """True once there was a log to follow."""
        return self._is_begun

    def follow(self) -> int:
        """Take what is new in the log; how many frames that were."""
        before = self._log.frames_read
        try:
            self._take_new()
        except OutOfRange:
            # The log or the input was trimmed behind this position while this process was away.
            self._forget()
            self._take_new()
        return self._log.frames_read - before

    def _forget(self) -> None:
        self._is_begun = False
        self.operator = self._make()

    @contextmanager
    def _undivided(self) -> Iterator[None]:
        """Forget all where this fails: a part may have been taken, and must not be taken twice."""
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _take_new(self, replay: bool = True) -> None:
        with self._undivided():
            if not self._is_begun:
                self._begin()
            if not self._is_begun:
                return
            for new in self._log.new():
                self._apply(new)
        if replay and (self._replays_ahead or self._needed_from is not None):
            self._replay_ahead()

    def _begin(self) -> None:
        checkpoint = self._log.begin()
        if checkpoint is None:
            return
        self._ledger = FootprintLedger(self.operator.inputs)
        self._needed_from = None
        self._taken_upto = checkpoint.replay_from
        self._restore(checkpoint.keys, checkpoint.states, checkpoint.positions, checkpoint.offsets)
        self._is_begun = True

    def _apply(self, new: NewRecords) -> None:
        """Decide by the newest record of each key, as a rebuild does."""
        if KEY not in new.records.column_names:
            return
        kinds = values_of(new.records.column(KIND), "u1")
        (keyed,) = np.nonzero(of_windows(kinds))
        if not len(keyed):
            return
        keys, states = new.records.column(KEY), new.records.column(STATE)
        newest = keyed[last_rows(rows_of(keys, keyed))]
        is_closed = closes(kinds[newest])
        if is_closed.any():
            self._ledger.remove(self.operator.let_go(rows_of(keys, newest[is_closed])))
        opened = newest[~is_closed]
        if len(opened):
            positions, offsets = new.positions[opened], new.first_offset + opened
            self._restore(rows_of(keys, opened), rows_of(states, opened), positions, offsets)

    def _restore(
        self, keys: pa.StructArray, states: pa.StructArray, positions: Ints, offsets: Ints
    ) -> None:
        slots = self.operator.restore(keys, states, positions)
        self._ledger.add(slots, offsets, positions)
        if self.operator.preload_start() is None:
            return
        # A join's state *is* its input: ask a fresh operator, not this one, where a recovery would
        # start reading.
        fresh = self._make()
        fresh.restore(keys[-1:], states[-1:], positions[-1:])
        begin, self._needed_from = self._needed_from is None, fresh.preload_start()
        if begin and self._needed_from is not None:
            rows = preload(self.operator, self._sources, self._needed_from, positions[-1])
            self.replayed_rows += rows
            self._taken_upto = positions[-1]

    def _replay_ahead(self) -> None:
        for step in self._steps_left():
            with self._undivided():
                self.operator.catch_up(step)
            # The input may fail before the next step, which is then where to go on.
            self._taken_upto = step.end
            self.replayed_rows += step.rows
        self._taken_upto = self._log.upto

    def _steps_left(self) -> Iterator[Step]:
        start, upto = self._replay_start(), self._log.upto
        if self.operator.chances is Chance.NONE or (start == upto).all():
            return steps_of(self._sources, start, upto, self._step_rows_max)
        chosen = determinants_since(self._log.chain, start)
        return steps_again(self.operator, self._sources, chosen)

    def _replay_start(self) -> Ints:
        """Input before it changes no window any more."""
        if self._needed_from is not None:
            return self._taken_upto
        return np.maximum(self._taken_upto, self._ledger.oldest(self._log.upto))

    def complete(self, chain: LogReader, checkpointer: Checkpointer) -> Restored:
        """See :class:`.recovery.WarmState`. The log has been fenced: nothing more comes.

        Raises:
            OutOfRange: it was trimmed beyond where this one stood: recover without it.
            CorruptLog: the windows in the log do not add up to its N.
        """
        before = self._log.frames_read
        self._take_new(replay=False)
        log, ledger = self._log, self._ledger
        if ledger.open_windows != log.open_windows:
            raise CorruptLog(
                chain.path, 0,
                f"the log counts {log.open_windows} open windows, its footprints say "
                f"{ledger.open_windows}",
            )  # fmt: skip
        ledger.hand_over(checkpointer)
        return Restored(
            end_offset=log.end_offset,
            footprints=ledger.footprints(),
            replay_from=ledger.oldest(log.upto),
            taken_upto=self._replay_start(),
            replay_upto=log.upto,
            needed_from=self._needed_from,
            preload_from=None,
            extent=log.extent(log.frames_read - before),
        )
