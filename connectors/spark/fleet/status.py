"""A fleet as people see it: who runs, who waits for what, and until when."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.connectors.spark.fleet.recovery import forecast, waits_for
from cec_store.connectors.spark.fleet.rules import KEEP_ALIVE
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.standby.leases import Sign

_LOOK_S = KEEP_ALIVE.timeout_s + 1.0
"""Longer than a driver may be silent by the rule of its lease."""


QUERY_STATES = ("running", "held back", "paused", "failing", "waiting", "stopped")
"""States of a fleet's query; a waiting one waits for its input, a paused one to be resumed."""


@dataclass(frozen=True)
class QueryStatus:
    """One query."""

    name: str
    state: str
    """One of :data:`QUERY_STATES`."""
    priority: int | None
    cores: float | None
    """Number of cores that it keeps busy; ``None``: not known yet."""
    batch: int | None
    waits_for: str
    """Empty for one that runs."""
    expected_s: float | None
    """Time at which it will run, wall clock, at the present rate of arrival; ``None``: unknown."""
    arrivals: int | None
    """Number of further executors that this takes."""
    failures: int
    reason: str
    """Reason of its last failure."""


@dataclass(frozen=True)
class FleetStatus:
    """Snapshot of a fleet: its driver, its executors and its queries."""

    path: str
    driver: str
    """``alive``, ``silent``, ``released`` or ``never seen``; who holds the lease behind it."""
    state: str
    """``running``, ``recovering``, ``going back`` or ``stopped``."""
    written_s: float
    """Time at which the driver noted this, wall clock."""
    executors: int
    cores: float
    cores_before: float | None
    """Number of cores before the failure that is being recovered from."""
    message: str
    queries: tuple[QueryStatus, ...]
    checkpoint: int | None
    """The number of the newest global checkpoint."""
    checkpoint_us: int | None
    checkpointed_us: int | None
    """Time at which it was taken, or was found last to have all that was done since."""
    executors_missing: int
    """Number of executors that there are to be, and are not there."""
    missing_since_s: float | None
    """Time since which some are missing, wall clock; ``None``: none is."""
    asked_s: float | None
    """Time at which the hook on_missing was run last, wall clock; ``None``: never."""
    ask_failure: str
    """Reason why that run has failed; empty where it has not."""

    @property
    def is_driven(self) -> bool:
        """True if a driver is alive."""
        return self.driver.startswith(Sign.ALIVE.value)

    @property
    def has_ended(self) -> bool:
        """True if the driver has let go of its lease, or there never was one.

        A silent driver may be one whose process was stopped for a while, and it goes on later.
        """
        return self.driver.startswith((Sign.RELEASED.value, Sign.NEVER.value))


def status_of(
    folder: FleetFolder, now_s: float, look_s: float = _LOOK_S, notes: Notes | None = None
) -> FleetStatus:
    """Read a fleet's status from its folder, in any process; times are wall clock, in seconds.

    It returns at the driver's next sign of life, or once the driver is silent by its own rule.

    Args:
        look_s: Seconds to wait for either at most; a driver without both counts as alive.
        notes: Those of the folder, where they have just been read.

    Raises:
        NotAFleet: there is none.
        CorruptLog, UnsupportedVersion: its notes cannot be read.
    """
    notes = folder.read() if notes is None else notes
    seen = folder.leases().sight(LEASE, longest_s=look_s)
    is_alive = seen.sign is Sign.ALIVE
    newest = folder.newest_checkpoint()
    situation, missing = notes.situation, notes.missing
    outage = situation.outage
    state = "stopped" if not is_alive else "running" if outage is None else "recovering"
    return FleetStatus(
        folder.path,
        f"{seen.sign.value} ({seen.holder})" if seen.holder else seen.sign.value,
        "going back" if notes.going_back else state,
        notes.written_s,
        len(situation.executors),
        situation.cores,
        None if outage is None else outage.cores_before,
        message_of(notes),
        queries_of(notes, is_alive, now_s, folder.requests().paused),
        None if newest is None else newest.number,
        None if newest is None else newest.at_us,
        None if newest is None else max(newest.at_us, notes.checkpointed_us or newest.at_us),
        0 if missing.since_s is None else missing.expected - len(situation.executors),
        missing.since_s,
        missing.asked_s,
        missing.failure,
    )


def message_of(notes: Notes) -> str:
    """Return what the fleet waits for, as a sentence; empty where it waits for nothing."""
    outage, cores, cap = notes.situation.outage, notes.situation.cores, notes.rules.cap
    if outage is None:
        return ""
    costs = notes.costs()
    used = sum(costs.get(name, 0.0) for name in outage.running)
    left = max(0.0, cap * cores - used)
    what = "the cheapest query" if not outage.running else "the next one"
    return (
        f"{cores:g} of {outage.cores_before:g} cores are there, of which {cap:.0%} are planned "
        f"for: {what} takes {outage.needed:.3g}, {left:.3g} are left; it waits for executors"
    )


def queries_of(
    notes: Notes, is_alive: bool, now_s: float, paused: Collection[str] = ()
) -> tuple[QueryStatus, ...]:
    """Each query, after all that it reads; ``paused``: names of those that are to be stopped."""
    graph, costs, situation = notes.graph, notes.costs(), notes.situation
    topology = graph.topology(costs)
    expected = forecast(situation, now_s, topology, notes.rules)
    queries_to_run = situation.running(topology)
    statuses = []
    for name, query in graph.queries.items():
        known = notes.of(name)
        coming = expected.get(name)
        state, waits = "stopped", ""
        if is_alive and name in paused:
            state, waits = "paused", "fleet resume"
        elif is_alive and name not in queries_to_run:
            state = "held back"
            above = waits_for(name, situation, topology)
            waits = "executors" + (f", as {', '.join(above)} does" if above else "")
        elif is_alive and known.failures.count and not known.is_active:
            state, waits = "failing", _until(known.failures, now_s)
        elif is_alive:
            state, waits = ("running", "") if known.is_active else ("waiting", known.waits_for)
        statuses.append(
            QueryStatus(
                name, state, query.priority, costs.get(name), known.batch, waits,
                None if coming is None else coming.at_s,
                None if coming is None else coming.arrivals,
                known.failures.count, known.failures.reason,
            )
        )  # fmt: skip
    return tuple(statuses)


def _until(failures: Failures, now_s: float) -> str:
    return f"{max(0.0, failures.until_s - now_s):.0f} s until it is tried again"
