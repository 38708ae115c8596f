"""One run of the three nodes without a failure: when each tuple was sent, processed and received.

Arrays, not events: what a schedule of a first-come-first-served link or processor comes to can be
had for all tuples at once. Only messages and takeovers are events (`protocols`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulators.standby.networks import Floats, Network, Processing, process
from cec_store.standby.schemes import System


def departures(at_s: Floats, service_s: Floats) -> Floats:
    """Return when each leaves a server that takes one after the other."""
    total = np.cumsum(service_s)
    left: Floats = total + np.maximum.accumulate(at_s - (total - service_s))
    return left


def over_link(system: System, at_s: Floats) -> Floats:
    """Return when tuples that are sent at these times arrive."""
    return departures(at_s, np.full(len(at_s), system.tuple_s)) + system.delay_s


def count_until(at_s: Floats, now_s: float) -> int:
    """Return how many of these ascending times are at or before ``now_s``."""
    return int(np.searchsorted(at_s, now_s, side="right"))


@dataclass(frozen=True)
class Execution:
    """Upstream node, primary and downstream node."""

    system: System
    network: Network
    duration_s: float
    processing: Processing
    arrived_s: Floats
    """Arrivals at the primary, by input, in seconds."""
    processed_s: Floats
    emitted_s: Floats
    """Times at which the primary emits, by output, in seconds."""
    received_s: Floats
    """Arrivals at the downstream node, in seconds."""

    def processed(self, now_s: float) -> int:
        """Return how many inputs the primary has processed by then."""
        return count_until(self.processed_s, now_s)

    def arrived(self, now_s: float) -> int:
        """Return how many inputs have reached the primary by then."""
        return count_until(self.arrived_s, now_s)

    def emitted(self, now_s: float) -> int:
        """Return how many outputs the primary has emitted by then."""
        return count_until(self.emitted_s, now_s)

    def received(self, now_s: float) -> int:
        """Return how many outputs the downstream node has received by then."""
        return count_until(self.received_s, now_s)


def execute(
    system: System, network: Network, duration_s: float, random: np.random.Generator
) -> Execution:
    """Tuples arrive at random, at the system's rate; all input streams are merged."""
    expected = system.tuples_per_s * duration_s
    gaps = random.exponential(1 / system.tuples_per_s, int(expected + 6 * expected**0.5 + 10))
    sent_s = np.cumsum(gaps)
    sent_s = sent_s[sent_s < duration_s]
    processing = process(network, sent_s, system.window_tuple_s)
    arrived_s = over_link(system, sent_s)
    processed_s = departures(arrived_s, processing.cost_s)
    emitted_s = processed_s[processing.output.by]
    return Execution(
        system, network, duration_s, processing, arrived_s, processed_s, emitted_s,
        over_link(system, emitted_s),
    )  # fmt: skip
