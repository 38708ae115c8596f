"""The paper's schemes as messages between nodes (5 and 6), and how each takes over.

A failure is a branch of a run: it takes over from what had been sent until then, while the
primary of the run continues. So one run has many failures, and none disturbs another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simpy

from bench.simulators.standby.execution import Execution, departures
from bench.simulators.standby.networks import Floats, process
from cec_store.operators.taxonomy import NetworkType

Process = Generator[simpy.Event, Any, None]
# A determinant of a merge says for each tuple which stream it came from.
DETERMINANT_BYTES = 1 / 8


@dataclass(frozen=True)
class Readings:
    """Choices that the paper leaves open; docs/evaluation.md shows the effect of each."""

    aligned: bool = True
    """All nodes began their intervals together; else each at a time of its own."""
    pipelined: bool = False
    """A replayed tuple is processed as it comes; else once all of them are there."""
    at_once: bool = False
    """Send what an acknowledgement allows as it arrives; else with the next interval."""


@dataclass(frozen=True)
class Outcome:
    """Figures of one takeover."""

    recovery_s: float = 0.0
    """Seconds from detection until the state is again what it was at the failure."""
    replayed: int = 0
    """Q: input tuples processed again."""
    repeated: int = 0
    """Output tuples sent again that the downstream node has already."""
    lost: int = 0
    """Input tuples whose effect is nowhere."""


Takeover = Generator[simpy.Event, Any, Outcome]


class Protocol:
    """The messages of one scheme in one run; without any, as amnesia has it."""

    def __init__(
        self,
        env: simpy.Environment,
        execution: Execution,
        readings: Readings,
        is_precise: bool,
        random: np.random.Generator,
    ) -> None:
        self.env = env
        self.execution = execution
        self.system = execution.system
        self.network = execution.network
        self.readings = readings
        self.is_precise = is_precise
        self.message_bytes = 0.0
        """Sent for availability, beside what goes with each tuple."""
        self.held_s = 0.0
        """Seconds for which outputs together were kept back until they might be sent."""
        self._random = random

    @property
    def tuple_overhead_bytes(self) -> float:
        """Sent for availability with each input tuple."""
        return 0.0

    def start(self) -> None:
        """Begin to exchange messages."""

    def take_over(self) -> Takeover:
        """Called at the failure; what it waits for begins after that."""
        failed_s, system, execution = self.env.now, self.system, self.execution
        back_s = failed_s + system.detection_s + system.redirect_s
        kept_from = execution.processing.oldest_in_state(execution.processed(failed_s))
        yield self.env.timeout(system.detection_s)
        return Outcome(lost=execution.arrived(back_s) - kept_from)

    def _ids(self, count: float) -> float:
        return count * self.network.streams * self.system.id_bytes

    def _tick(self, act: Callable[[], None]) -> None:
        interval_s = self.system.interval_s
        first_s = interval_s if self.readings.aligned else self._random.uniform(0, interval_s)

        def ticks() -> Process:
            yield self.env.timeout(first_s)
            while True:
                act()
                yield self.env.timeout(interval_s)

        self.env.process(ticks())

    def _released(self, first: int, end: int) -> None:
        """Outputs that go downstream now that others have what they came of."""
        now_s = self.env.now + self.system.delay_s
        self.held_s += float((now_s - self.execution.emitted_s[first:end]).sum())

    def _begin(self, steps: Process) -> None:
        self.env.process(steps)

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self.env.timeout(delay_s).callbacks.append(lambda _: act())

    def _acknowledge_output(self, arrived: Callable[[int], None]) -> None:
        """Level 0, from the downstream node: the outputs it has received."""

        def send() -> None:
            count = self.execution.received(self.env.now)
            self._after(self.system.delay_s, lambda: arrived(count))

        self._tick(send)

    def _replay(self, began_s: float, cost_s: Floats) -> Takeover:
        """Input redirected to the recovery node and processed there again."""
        system, count = self.system, len(cost_s)
        yield self.env.timeout(system.redirect_s + system.delay_s)
        if self.readings.pipelined:
            at_s = system.tuple_s * np.arange(1.0, count + 1)
            yield self.env.timeout(float(departures(at_s, cost_s)[-1]) if count else 0.0)
        else:
            yield self.env.timeout(system.tuple_s * count)
            yield self.env.timeout(float(cost_s.sum()))
        return Outcome(self.env.now - began_s, replayed=count)

    def _sent_again(self, first: int, failed_s: float) -> int:
        """Outputs from this one on that the downstream node has, or will have received."""
        return 0 if self.is_precise else max(0, self.execution.emitted(failed_s) - first)


class PassiveStandby(Protocol):
    """Checkpoints: what has changed since the last one (5.1)."""

    def start(self) -> None:
        self._composed = (0, 0)
        self._held = self._unacknowledged = self._acknowledged = 0
        self._acknowledge_output(self._on_acknowledged)
        self._tick(lambda: self._begin(self._checkpoint()))

    def _on_acknowledged(self, count: int) -> None:
        self._acknowledged = count

    def _checkpoint(self) -> Process:
        processed = self.execution.processed(self.env.now)
        arrived = self.execution.arrived(self.env.now)
        acknowledged = self._acknowledged
        size = self._changes(processed, arrived)
        output, (before, _) = self.execution.processing.output, self._composed
        self._composed = processed, arrived
        self.message_bytes += size
        yield self.env.timeout(8 * size / self.system.bits_per_s)
        # Its last byte has left, so it arrives though the primary fails now.
        self._held, self._unacknowledged = processed, acknowledged
        if self.is_precise and self.network.type is NetworkType.ARBITRARY:
            self._released(output.count_by(before), output.count_by(processed))

    def _changes(self, processed: int, arrived: int) -> float:
        """New tuples in queues and windows, and positions of those that have gone."""
        processing, (processed_before, arrived_before) = self.execution.processing, self._composed
        count = 0
        for number, stage in enumerate(processing.stages[:-1]):
            now, before = stage.count_by(processed), stage.count_by(processed_before)
            if number == 0:
                now, before = arrived, arrived_before
            count += max(0, now - max(before, processing.oldest_needed(number, processed)))
        output = processing.output
        count += output.count_by(processed) - output.count_by(processed_before)
        # Positions: of the queue of each input stream, of those between operators and that of the
        # output; of the oldest tuple of each state; the checkpoint's acknowledgement; and that of
        # the input, by the secondary to the upstream nodes.
        operators, stateful = len(self.network.operators), len(self.network.stateful)
        positions = 2 * self.network.streams + operators + stateful + 1
        return count * self.system.tuple_bytes + positions * self.system.id_bytes

    def take_over(self) -> Takeover:
        failed_s = self.env.now
        held, first = self._held, self._unacknowledged
        cost_s = self.execution.processing.cost_s[held : self.execution.processed(failed_s)]
        yield self.env.timeout(self.system.detection_s)
        outcome = yield from self._replay(self.env.now, cost_s)
        return replace(outcome, repeated=self._sent_again(first, failed_s))


class UpstreamBackup(Protocol):
    """Upstream nodes keep what a state could be built from again (5.2)."""

    def start(self) -> None:
        self._acknowledged = self._kept_from = 0
        self._acknowledge_output(self._on_acknowledged)
        self._tick(self._acknowledge_input)

    def _on_acknowledged(self, count: int) -> None:
        self._acknowledged = count
        if self.readings.at_once:
            self._let_go()

    def _acknowledge_input(self) -> None:
        """Level 0: received; level 1: no output needs anything before this any more."""
        self.message_bytes += self._ids(2)
        self._let_go()

    def _let_go(self) -> None:
        if self._acknowledged:
            self._kept_from = int(self.execution.processing.output.low[self._acknowledged - 1])

    @property
    def tuple_overhead_bytes(self) -> float:
        """Precise: watermarks go downstream, or what decided the order goes to the secondary."""
        if not self.is_precise:
            return 0.0
        converges = self.network.type in (NetworkType.REPEATABLE, NetworkType.CONVERGENT)
        return self.system.id_bytes if converges else DETERMINANT_BYTES

    def take_over(self) -> Takeover:
        failed_s, processing = self.env.now, self.execution.processing
        kept_from = self._kept_from
        again_s = processing.stages[0].time_s[kept_from : self.execution.processed(failed_s)]
        cost_s = process(self.network, again_s, self.system.window_tuple_s).cost_s
        first = int(np.searchsorted(processing.output.low, kept_from))
        yield self.env.timeout(self.system.detection_s)
        outcome = yield from self._replay(self.env.now, cost_s)
        return replace(outcome, repeated=self._sent_again(first, failed_s))


class ActiveStandby(Protocol):
    """The secondary processes what the primary does, and keeps its output back (5.3)."""

    def start(self) -> None:
        self._acknowledged = self._trimmed = self._followed = 0
        self._acknowledge_output(self._on_acknowledged)
        self._tick(self._trim)

    def _on_acknowledged(self, count: int) -> None:
        self._acknowledged = count
        if self.readings.at_once:
            self._trimmed = count

    def _trim(self) -> None:
        """Input acknowledged by both nodes, and high watermarks from primary to secondary."""
        self.message_bytes += self._ids(3)
        self._trimmed = self._acknowledged
        self._followed = self.execution.processed(self.env.now)

    @property
    def _follows(self) -> bool:
        return self.is_precise and self.network.type is NetworkType.ARBITRARY

    @property
    def tuple_overhead_bytes(self) -> float:
        """The input once more; precise, of an arbitrary network: what decided the order."""
        return self.system.tuple_bytes + (DETERMINANT_BYTES if self._follows else 0.0)

    def take_over(self) -> Takeover:
        failed_s, system, execution = self.env.now, self.system, self.execution
        kept = execution.emitted(failed_s) - self._trimmed
        # It may not run ahead of the last determinants that it has.
        behind_s = execution.processing.cost_s[self._followed : execution.processed(failed_s)]
        yield self.env.timeout(system.detection_s)
        began_s = self.env.now
        if self.is_precise:
            yield self.env.timeout(system.redirect_s)
            yield self.env.timeout(float(behind_s.sum()) if self._follows else 0.0)
            return Outcome(self.env.now - began_s)
        yield self.env.timeout(kept * system.tuple_s)
        return Outcome(self.env.now - began_s, repeated=kept)
