"""The eventual checkpoint in the same system: no second node, and a log that outlives the first.

An interval's results and footprints are one frame of the log, in a store as far away as any node.
Results go downstream once their frame is there, so nothing is ever sent twice. A cold node asks for
its input, and meanwhile reads the extent; it replays from the oldest footprint of an open window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import simpy

from bench.simulators.standby.execution import Execution
from bench.simulators.standby.networks import Ints, Operator, Stage
from bench.simulators.standby.protocols import Outcome, Process, Protocol, Readings, Takeover
from cec_store.standby.costs import FRAME_BYTES


class _Windows:
    """One operator's windows, their footprints, and how long its log is, in records."""

    def __init__(self, operator: Operator, before: Stage, after: Stage) -> None:
        self.operator = operator
        self.before = before
        self._after = after
        begins_s = after.time_s - operator.window_s
        self._begins: Ints = np.searchsorted(before.time_s, begins_s - 1e-9).astype(np.int64)
        self._opened_by = before.by[self._begins]
        self._footprints: dict[int, tuple[int, int]] = {}
        """Oldest first: window -> number of its record, and inputs processed by then."""
        self._closed = self._opened = 0
        self._records = 0

    def frame(self, processed: int, extent_factor: float) -> int:
        """The records of one more frame: RESULTs, OPENs, and CHECKs while the extent exceeds Q."""
        before = self._records
        closed = self._after.count_by(processed)
        opened = int(np.searchsorted(self._opened_by, processed))
        for window in range(self._closed, closed):
            self._footprints.pop(window, None)
        self._records += closed - self._closed
        # A window that opened and closed within the frame has no OPEN.
        for window in range(max(self._opened, closed), opened):
            self._footprint(window, processed)
        self._closed, self._opened = closed, opened
        for window in list(self._footprints):
            if self.extent() <= extent_factor * len(self._footprints):
                break
            del self._footprints[window]
            self._footprint(window, processed)
        return self._records - before

    def _footprint(self, window: int, processed: int) -> None:
        self._footprints[window] = self._records, processed
        self._records += 1

    def extent(self) -> int:
        """Records that a restart reads."""
        if not self._footprints:
            return 0
        oldest, _ = next(iter(self._footprints.values()))
        return self._records - oldest

    def as_written(self, processed: int) -> _Written:
        """Return the state that a restart reads once the last frame is in the log."""
        return _Written(self, processed, self.extent(), tuple(self._footprints.items()))

    def first_unseen(self, window: int, position: int) -> int:
        """The first tuple that goes into a window and is not in its footprint."""
        return max(int(self._begins[window]), self.before.count_by(position))


@dataclass(frozen=True)
class _Written:
    """One operator's windows as the log has them."""

    windows: _Windows
    processed: int
    extent: int
    footprints: tuple[tuple[int, tuple[int, int]], ...]

    def to_replay(self, until: int) -> tuple[int, float]:
        """Tuples since T, and how often one of them goes into a window, were it to fail now."""
        before = self.windows.before
        at_frame, now = before.count_by(self.processed), before.count_by(until)
        firsts = [self.windows.first_unseen(window, at) for window, (_, at) in self.footprints]
        into_windows = sum(at_frame - first for first in firsts)
        oldest = min([at_frame, *firsts])
        return now - oldest, into_windows + (now - at_frame) * self.windows.operator.windows


class EventualCheckpoint(Protocol):
    """Footprints in the log; ``extent_factor`` is Q over the open windows."""

    def __init__(
        self,
        env: simpy.Environment,
        execution: Execution,
        readings: Readings,
        is_precise: bool,
        random: np.random.Generator,
        extent_factor: float = 2.0,
    ) -> None:
        super().__init__(env, execution, readings, True, random)
        self._extent_factor = extent_factor
        stages, operators = execution.processing.stages, execution.network.operators
        self._windows = [
            _Windows(operator, before, after)
            for operator, before, after in zip(operators, stages, stages[1:], strict=False)
            if operator.window_s
        ]
        self._composed = self._durable = 0
        self._written = [windows.as_written(0) for windows in self._windows]

    def start(self) -> None:
        self._tick(lambda: self._begin(self._frame()))

    def _frame(self) -> Process:
        processed = self.execution.processed(self.env.now)
        records = sum(windows.frame(processed, self._extent_factor) for windows in self._windows)
        output = self.execution.processing.output
        first, end = output.count_by(self._composed), output.count_by(processed)
        records = records if self._windows else end - first
        self._composed = processed
        written = [windows.as_written(processed) for windows in self._windows]
        logs = max(1, len(self._windows))
        size = records * self.system.tuple_bytes + logs * FRAME_BYTES
        self.message_bytes += size + self._ids(1)
        yield self.env.timeout(8 * size / self.system.bits_per_s)
        self._durable, self._written = processed, written
        self._released(first, end)

    def take_over(self) -> Takeover:
        failed_s, system, execution = self.env.now, self.system, self.execution
        processed = execution.processed(failed_s)
        records = sum(windows.extent for windows in self._written)
        replayed, replay_s = self._replay_from_durable(processed)
        yield self.env.timeout(system.detection_s)
        began_s = self.env.now
        read_s = 2 * system.delay_s + records * (system.tuple_s + system.window_tuple_s)
        yield self.env.timeout(max(read_s, system.redirect_s + system.delay_s))
        yield self.env.timeout(replay_s)
        return Outcome(self.env.now - began_s, replayed=replayed)

    def _replay_from_durable(self, processed: int) -> tuple[int, float]:
        """Input tuples from T on, and seconds to fetch and process them, in all operators."""
        system, durable = self.system, self._durable
        if not self._windows:
            cost_s = self.execution.processing.cost_s[durable:processed]
            return len(cost_s), len(cost_s) * system.tuple_s + float(cost_s.sum())
        seconds, first = 0.0, 0
        for number, written in enumerate(self._written):
            count, into_windows = written.to_replay(processed)
            seconds += count * (system.tuple_s + written.windows.operator.extra_s)
            seconds += into_windows * system.window_tuple_s
            first = count if number == 0 else first
        return first, seconds
