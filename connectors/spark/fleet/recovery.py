"""Queries of a fleet that run: all of them, or after a correlated failure those of a plan.

The paper's section 4.4. Pure: from what was, what is seen now and the clock to what is to be. A
query runs on all executors at the same time, so these are one node to the plans, as large as their
cores together. Queries are the partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.recovery_plans.assignment import Nodes
from cec_store.recovery_plans.density import best_density
from cec_store.recovery_plans.outage import EQUAL
from cec_store.recovery_plans.plans import Planner, catch_up_order
from cec_store.recovery_plans.succession import next_step
from cec_store.recovery_plans.topology import Partition, Topology

_NODE = "executors"
_ARRIVALS_MAX = 1000
"""Bound of the arrivals that a forecast looks at."""


@dataclass(frozen=True)
class Outage:
    """A correlated failure that is being recovered from."""

    since_s: float
    """Wall clock."""
    cores_before: float
    running: tuple[str, ...] = ()
    """Queries of the plans so far, in the order in which they are started and catch up."""
    arrivals: tuple[float, ...] = ()
    """Times at which executors came, wall clock, the first one first."""
    needed: float = 0.0
    """Cores that the cheapest of the waiting queries would take beside those that run."""


@dataclass(frozen=True)
class Situation:
    """Executors and outage of a fleet, as kept between two looks."""

    executors: Mapping[str, float]
    """Cores of each, at the last look."""
    cores_full: float = 0.0
    """The most there were since the last global checkpoint."""
    executors_full: int = 0
    lost: int = 0
    """Executors since the last global checkpoint."""
    outage: Outage | None = None
    order: tuple[str, ...] = ()
    """All queries in the order in which they are started and catch up, while there is no outage."""

    @property
    def cores(self) -> float:
        return sum(self.executors.values())

    def running(self, topology: Topology) -> tuple[str, ...]:
        """Return the queries that are to run, in the order in which they are started and catch up.

        It is the order of the plans: densest first, each query after those that it reads.
        """
        if self.outage is not None:
            return self.outage.running
        return self.order or _all_of(topology)

    def checkpointed(self) -> Situation:
        """Return the situation after a global checkpoint: earlier losses count no more."""
        if self.outage is not None:
            return self
        return replace(self, lost=0, cores_full=self.cores, executors_full=len(self.executors))


def observed(
    before: Situation,
    executors: Mapping[str, float],
    now_s: float,
    topology: Topology,
    rules: Rules,
    planner: Planner = best_density,
    taken_away: Collection[str] = (),
) -> Situation:
    """Return the situation after a look at the executors: their cores by id.

    ``taken_away``: ids of those that are gone on purpose: they are not lost, and there were never
    so many that count.
    """
    gone = before.executors.keys() - executors.keys()
    come = executors.keys() - before.executors.keys()
    on_purpose = gone & set(taken_away)
    fewer_cores = sum(before.executors[executor] for executor in on_purpose)
    outage = before.outage
    if outage is not None and on_purpose:
        outage = replace(outage, cores_before=max(0.0, outage.cores_before - fewer_cores))
    now = replace(
        before,
        executors=dict(executors),
        lost=before.lost + len(gone) - len(on_purpose),
        cores_full=max(before.cores_full - fewer_cores, sum(executors.values())),
        executors_full=max(before.executors_full - len(on_purpose), len(executors)),
        outage=outage,
    )
    if not gone and not come and now.outage is not None:
        return now
    return _planned(now, len(come), now_s, topology, rules, planner)


def begun(before: Situation, executors: Mapping[str, float], now_s: float, topology: Topology,
          rules: Rules, planner: Planner = best_density) -> Situation:  # fmt: skip
    """A driver's first look: its executors are new, whoever was there before.

    One that is missing counts as lost, and a plan that was begun is gone on with.
    """
    missing = max(0, before.executors_full - len(executors))
    now = replace(before, executors=dict(executors), lost=max(before.lost, missing))
    now = replace(
        now,
        cores_full=max(now.cores_full, now.cores),
        executors_full=max(now.executors_full, len(executors)),
        order=_all_of(topology),
    )
    return _planned(now, 0, now_s, topology, rules, planner)


def asking(now: Situation, paused: Collection[str] = ()) -> Situation:
    """Return the situation in which a query runs where the plan has room for none.

    With dynamic allocation Spark starts executors for the tasks of queries that run, and for
    nothing else.
    """
    if now.outage is None or now.outage.running:
        return now
    first = tuple(name for name in now.order if name not in paused)[:1]
    return replace(now, outage=replace(now.outage, running=first))


def _planned(now: Situation, come: int, now_s: float, topology: Topology, rules: Rules,
             planner: Planner) -> Situation:  # fmt: skip
    room = rules.cap * now.cores
    demand = float(topology.cost.sum())
    fits = demand <= room * (1 + EQUAL)
    outage = now.outage
    if outage is None:
        # Executors that were lost may all have been replaced by the time of this look.
        is_full = now.cores >= now.cores_full * (1 - EQUAL)
        if now.lost < rules.lost_executors or fits or is_full:
            return now
        outage = Outage(now_s, now.cores_full)
    elif fits or now.cores >= outage.cores_before * (1 - EQUAL):
        return replace(
            now,
            outage=None,
            lost=0,
            cores_full=now.cores,
            executors_full=len(now.executors),
            order=_all_of(topology, outage.running),
        )
    outage = replace(outage, arrivals=outage.arrivals + (now_s,) * come)
    return replace(now, outage=_extended(outage, now.cores, topology, rules, planner))


def _extended(outage: Outage, cores: float, topology: Topology, rules: Rules,
              planner: Planner) -> Outage:  # fmt: skip
    """Return the outage with the next partial plan, or a first one where what runs has no room."""
    cost = _costs(topology)
    running = tuple(name for name in outage.running if name in cost)
    used = sum(cost[name] for name in running)
    if used > rules.cap * cores * (1 + EQUAL):
        running, used = (), 0.0
    failed = [partition for partition in topology.partitions if partition.operator not in running]
    nodes = Nodes.of({_NODE: cores}, {_NODE: used}, rules.cap)
    plan = next_step(topology, failed, nodes, planner).plan
    running += tuple(partition.operator for partition in plan.partitions)
    return replace(outage, running=running, needed=plan.needed)


def _all_of(topology: Topology, running: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return all queries: those that run, in their order, and the others as they catch up."""
    known_running = tuple(name for name in running if Partition(name, 0) in topology.index)
    failed = [
        partition for partition in topology.partitions if partition.operator not in known_running
    ]
    return known_running + tuple(
        partition.operator for partition in catch_up_order(topology, failed)
    )


def _costs(topology: Topology) -> dict[str, float]:
    costs = topology.cost.tolist()
    return {partition.operator: costs[place] for partition, place in topology.index.items()}


@dataclass(frozen=True)
class Forecast:
    """Forecast of the start of a waiting query, at the present rate of arrival."""

    arrivals: int
    """Number of further executors that it takes."""
    at_s: float | None
    """Wall clock; ``None``: no executor has come since the failure, so nobody knows."""


def forecast(
    situation: Situation,
    now_s: float,
    topology: Topology,
    rules: Rules,
    planner: Planner = best_density,
) -> dict[str, Forecast]:
    """Return the forecast of each waiting query, by name; one without a forecast is left out.

    All queries run once as many cores are back as before the outage.

    Executors to come are as large as those that there were, on average.
    """
    outage = situation.outage
    if outage is None:
        return {}
    executor_cores = outage.cores_before / max(1, situation.executors_full)
    gap_s = _gap_s(outage, now_s)
    last_s = outage.arrivals[-1] if outage.arrivals else now_s
    forecasts: dict[str, Forecast] = {}
    cores, step, demand = situation.cores, outage, float(topology.cost.sum())
    names = [one.operator for one in topology.partitions]
    for number in range(1, _ARRIVALS_MAX if executor_cores > 0 else 0):
        cores += executor_cores
        is_all = cores >= outage.cores_before * (1 - EQUAL) or demand <= rules.cap * cores
        if is_all:
            started = set(names)
        else:
            step = _extended(step, cores, topology, rules, planner)
            started = set(step.running)
        at_s = None if gap_s is None else max(now_s, last_s + number * gap_s)
        for name in names:
            if name in started and name not in outage.running:
                forecasts.setdefault(name, Forecast(number, at_s))
        if is_all:
            break
    return forecasts


def _gap_s(outage: Outage, now_s: float) -> float | None:
    """Between two arrivals, on average."""
    if not outage.arrivals:
        return None
    last_s = outage.arrivals[-1]
    gap_s = (last_s - outage.since_s) / len(outage.arrivals)
    # Where the next one is overdue, the rate is no more what it was.
    return max(gap_s, (now_s - outage.since_s) / (len(outage.arrivals) + 1))


def waits_for(name: str, situation: Situation, topology: Topology) -> tuple[str, ...]:
    """Queries upstream of one that is held back which are held back themselves."""
    if situation.outage is None:
        return ()
    place = topology.index[Partition(name, 0)]
    reads = (
        topology.partitions[upstream_place].operator
        for upstream_place in topology.upstream.of(place).tolist()
    )
    return tuple(query for query in reads if query not in situation.outage.running)
