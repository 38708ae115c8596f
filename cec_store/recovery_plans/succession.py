"""Partial plans, one after the other, as executors arrive: the paper's section 4.4.

A step is a function of the partitions that are down and of the nodes that are up. So a driver that
fails between two steps loses nothing: it asks the cluster for both again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cec_store.recovery_plans.assignment import Nodes, assign
from cec_store.recovery_plans.density import best_density
from cec_store.recovery_plans.outage import Outage
from cec_store.recovery_plans.plans import Plan, Planner, plan_of
from cec_store.recovery_plans.topology import Partition, Topology


@dataclass(frozen=True, eq=False)
class Step:
    """Partial plan for the room that there is now, with the nodes that carry it out."""

    plan: Plan
    """Plan of this step alone."""
    places: dict[Partition, Hashable]
    """The node of each partition that it recovers, in the order in which to start them."""
    nodes: Nodes
    """Nodes with the work that they have after it."""
    failed: tuple[Partition, ...]
    """Partitions that are still down after it."""
    refused: tuple[Partition, ...]
    """Queries for which there was room in all, but not for each partition at one node."""

    def __str__(self) -> str:
        """Return lines for logs and terminals: the plan, and the node of each partition."""
        lines = [str(self.plan), *(f"{name} on {node}" for name, node in self.places.items())]
        lines += [f"{name}: fits at no one node" for name in self.refused]
        return "\n".join(lines)


def next_step(
    topology: Topology,
    failed: Iterable[Partition],
    nodes: Nodes,
    planner: Planner = best_density,
) -> Step:
    """Return the step that recovers now what there is room for, with a node for each partition.

    A query that was planned and fits at no one node is left out, and what it would have taken is
    planned for once more.

    Raises:
        ValueError: a partition that the topology does not have.
    """
    down = set(failed)
    whole = Outage.of(topology, down)
    outage, room = whole, float(nodes.room.sum())
    before, places = room, dict[Partition, Hashable]()
    refused: list[Partition] = []
    while True:
        assignment = assign(outage, planner(outage, room), nodes)
        places |= assignment.places
        refused += assignment.refused
        nodes, room = assignment.nodes, float(assignment.nodes.room.sum())
        if not assignment.refused:
            break
        outage = Outage.of(topology, down - places.keys(), refused)
    index = topology.index
    taken = np.isin(whole.failed, [index[name] for name in places])
    plan = plan_of(whole, taken, before)
    left = tuple(topology.partitions[name] for name in whole.failed[~taken].tolist())
    back = set(plan.queries)
    return Step(plan, places, nodes, left, tuple(name for name in refused if name not in back))


def succession(
    topology: Topology,
    failed: Iterable[Partition],
    nodes: Nodes,
    arrivals: Iterable[Mapping[Hashable, float]],
    planner: Planner = best_density,
) -> list[Step]:
    """The step that the nodes allow now, and one for each arrival: names and capacities.

    With arrivals at the present rate it says who waits for how many more nodes.
    """
    steps = [next_step(topology, failed, nodes, planner)]
    for arrived in arrivals:
        last = steps[-1]
        steps.append(next_step(topology, last.failed, last.nodes.joined(arrived), planner))
    return steps
