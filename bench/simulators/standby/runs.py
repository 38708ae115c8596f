"""Points of the paper's figures: the average of runs, each of a minute with many failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from bench.simulators.standby.eventual import EventualCheckpoint
from bench.simulators.standby.execution import Execution, execute
from bench.simulators.standby.networks import Network
from bench.simulators.standby.protocols import (
    ActiveStandby,
    Outcome,
    PassiveStandby,
    Process,
    Protocol,
    Readings,
    UpstreamBackup,
)
from cec_store.standby.schemes import Scheme, System

_PROTOCOLS: dict[Scheme, type[Protocol]] = {
    Scheme.AMNESIA: Protocol,
    Scheme.PASSIVE: PassiveStandby,
    Scheme.UPSTREAM: UpstreamBackup,
    Scheme.ACTIVE: ActiveStandby,
    Scheme.EVENTUAL: EventualCheckpoint,
}


@dataclass(frozen=True)
class Size:
    """Amount of simulation for a point; the paper's by default, but for the failures."""

    runs: int = 25
    run_s: float = 60.0
    failures: int = 40
    """Failures in each run, at random moments."""
    seed: int = 2005

    def __post_init__(self) -> None:
        if min(self.runs, self.failures) < 1:
            raise ValueError(f"{self.runs} runs of {self.failures} failures: give at least 1")


@dataclass(frozen=True)
class Point:
    """Average figures of a scheme."""

    overhead_percent: float
    """Bandwidth for availability over that of the input."""
    recovery_ms: float
    error_ms: float
    """One standard error of it."""
    replayed: float
    repeated: float
    lost: float
    held_ms: float
    """Milliseconds that an output is kept back before it goes downstream, with no failure."""


def simulate(
    system: System,
    network: Network,
    scheme: Scheme,
    size: Size | None = None,
    readings: Readings | None = None,
    *,
    is_precise: bool = False,
    extent_factor: float = 2.0,
) -> Point:
    """Run a scheme; the same arguments give the same point.

    Raises:
        ValueError: the runs are too short for the network, or its node takes more than it can.
    """
    size = size or Size()
    make: Callable[..., Protocol] = _PROTOCOLS[scheme]
    if scheme is Scheme.EVENTUAL:
        make = partial(EventualCheckpoint, extent_factor=extent_factor)
    make = partial(make, readings=readings or Readings(), is_precise=is_precise)
    overheads, held_s, outcomes = [], [], []
    for number in range(size.runs):
        random = np.random.default_rng([size.seed, number])
        execution = execute(system, network, size.run_s, random)
        moments_s = _moments(execution, size, random)
        overhead, held, new_outcomes = _run(execution, make, moments_s, random)
        overheads.append(overhead)
        held_s.append(held)
        outcomes += new_outcomes
    recovery_ms = 1e3 * np.array([outcome.recovery_s for outcome in outcomes])
    return Point(
        overhead_percent=float(np.mean(overheads)),
        recovery_ms=float(recovery_ms.mean()),
        error_ms=float(recovery_ms.std() / len(recovery_ms) ** 0.5),
        replayed=float(np.mean([outcome.replayed for outcome in outcomes])),
        repeated=float(np.mean([outcome.repeated for outcome in outcomes])),
        lost=float(np.mean([outcome.lost for outcome in outcomes])),
        held_ms=1e3 * float(np.mean(held_s)),
    )


def _moments(execution: Execution, size: Size, random: np.random.Generator) -> list[float]:
    """Return the times of failures: after all windows and messages came round, before the end."""
    system = execution.system
    windows_s = sum(item.window_s for item in execution.network.operators)
    load = execution.processing.cost_s.sum() / execution.duration_s
    if load >= 1:
        raise ValueError(f"the node would need {load:.2f} processors; it has one")
    first_s = windows_s + 6 * system.interval_s
    last_s = size.run_s - windows_s - system.detection_s - system.redirect_s - 0.1
    if first_s >= last_s:
        raise ValueError(
            f"run_s is {size.run_s:g}: windows and intervals take longer, at least "
            f"{first_s + size.run_s - last_s:g} s"
        )
    return [float(item) for item in np.sort(random.uniform(first_s, last_s, size.failures))]


def _run(
    execution: Execution,
    make: Callable[..., Protocol],
    moments_s: list[float],
    random: np.random.Generator,
) -> tuple[float, float, list[Outcome]]:
    """Bandwidth overhead in per cent, how long outputs were held, and what each failure came to."""
    env = simpy.Environment()
    protocol = make(env, execution, random=random)
    protocol.start()
    outcomes: list[Outcome] = []

    def fail_at(moment_s: float) -> Process:
        yield env.timeout(moment_s)
        outcomes.append((yield env.process(protocol.take_over())))

    env.run(until=env.all_of([env.process(fail_at(moment_s)) for moment_s in moments_s]))
    tuples = execution.arrived(env.now)
    sent = protocol.message_bytes + tuples * protocol.tuple_overhead_bytes
    overhead_percent = 100 * sent / (tuples * execution.system.tuple_bytes)
    return overhead_percent, protocol.held_s / max(1, execution.emitted(env.now)), outcomes
