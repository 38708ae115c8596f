"""A plan: which queries come back, and which partitions have to be recovered for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from cec_store.recovery_plans.extending import density_order
from cec_store.recovery_plans.membership import Bools, Ints
from cec_store.recovery_plans.outage import EQUAL, NONE, Outage
from cec_store.recovery_plans.topology import Partition, Topology


@dataclass(frozen=True, eq=False)
class Plan:
    """Partitions and queries to recover now; queries are named by their output partitions."""

    queries: tuple[Partition, ...]
    """Queries that are back once all of it is done, in the order to start them: densest first."""
    partitions: tuple[Partition, ...]
    """Partitions to recover, in the order in which to start them: all that the densest query needs,
    each after those that it reads, then what the next one still lacks."""
    priority: float
    """The sum of the queries' priorities."""
    cost: float
    room: float
    """Room that the plan had to fit in."""
    waiting: tuple[Partition, ...]
    """Failed queries that are not back after it."""
    needed: float
    """Least further cost of any query that waits, beside all of this; 0 if none waits."""

    def __str__(self) -> str:
        """Return lines for logs and terminals, the first as "3 of 8 queries, 41 of 50 in room"."""
        if not self.queries and not self.waiting:
            return "nothing to recover"
        every = len(self.queries) + len(self.waiting)
        lines = [f"{len(self.queries)} of {every} queries, {self.cost:g} of {self.room:g} in room"]
        lines += [f"{query}: recovered" for query in self.queries]
        if self.waiting:
            left = max(0.0, self.room - self.cost)
            lines.append(
                f"{len(self.waiting)} wait: the cheapest takes {self.needed:g}, {left:g} are left"
            )
        return "\n".join(lines)


Planner = Callable[[Outage, float], Plan]
"""Function from an outage and the room that there is to a plan that fits."""


def plan_of(outage: Outage, taken: Bools, room: float) -> Plan:
    """The plan that recovers these of the failed partitions."""
    cost = outage.topology.cost[outage.failed]
    left = (outage.block_of != NONE) & ~taken
    blocks = len(outage.cost)
    lacking = np.bincount(outage.block_of[left], cost[left], blocks).astype(np.float64)
    is_lacking = np.bincount(outage.block_of[left], minlength=blocks) > 0
    back = outage.needs.summed(is_lacking.astype(np.float64)) == 0
    names = outage.topology.partitions
    waits = np.flatnonzero(~back)
    queries = density_order(outage, back)
    return Plan(
        queries=tuple(outage.output(place) for place in queries.tolist()),
        partitions=tuple(
            names[place] for place in outage.failed[_start_order(outage, queries, taken)].tolist()
        ),
        priority=float(outage.priority[back].sum()),
        cost=float(cost[taken].sum()),
        room=room,
        waiting=tuple(outage.output(place) for place in waits.tolist()),
        needed=float(outage.needs.summed(lacking)[waits].min(initial=np.inf)) if len(waits) else 0,
    )


def _start_order(outage: Outage, queries: Ints, taken: Bools) -> Ints:
    """Return the taken partitions, query after query, and last those that complete no query.

    Partitions of a query are in topological order, so each one is behind those that it reads.
    """
    order: dict[int, None] = {}
    for query in queries.tolist():
        order |= dict.fromkeys(np.sort(outage.failed_of(query)).tolist())
    order |= dict.fromkeys(np.flatnonzero(taken).tolist())
    return np.array(list(order), np.int64)


def catch_up_order(topology: Topology, failed: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return these partitions in the order in which to bring them back, with room for all of them.

    Raises:
        ValueError: a partition that the topology does not have.
    """
    outage = Outage.of(topology, failed)
    return plan_of(outage, np.ones(len(outage.failed), np.bool_), np.inf).partitions


def checked_room(room: float) -> float:
    """The room as it is.

    Raises:
        ValueError: it is below 0, or no number.
    """
    if not room >= 0:
        raise ValueError(f"room is {room}: it has to be at least 0")
    return room


def violations(outage: Outage, plan: Plan) -> list[str]:
    """Return the faults of a plan: too dear, not failed, or a query that lacks a partition."""
    topology = outage.topology
    failed = {topology.partitions[partition] for partition in outage.failed.tolist()}
    taken = set(plan.partitions)
    faults = [
        f"{partition} has not failed" for partition in plan.partitions if partition not in failed
    ]
    if len(taken) < len(plan.partitions):
        faults.append("a partition is recovered twice")
    known = [partition for partition in plan.partitions if partition in topology.index]
    cost = sum(float(topology.cost[topology.index[partition]]) for partition in known)
    if cost > plan.room * (1 + EQUAL):
        faults.append(f"it costs {cost:g}, and there is room for {plan.room:g}")
    for query in plan.queries:
        lacking = (topology.query(query) & failed) - taken
        faults += [
            f"{query} needs {partition}, which is not recovered" for partition in sorted(lacking)
        ]
    return faults
