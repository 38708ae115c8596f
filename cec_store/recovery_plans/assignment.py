"""Assign partitions to the nodes that recover them: always to the one with the most room."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cec_store.recovery_plans.membership import Floats, Ints
from cec_store.recovery_plans.outage import EQUAL, NONE, Outage
from cec_store.recovery_plans.plans import Plan
from cec_store.recovery_plans.topology import Partition

CAP = 0.8
"""The share of a node's capacity that a recovery fills at most."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Capacities of the nodes that are alive; a node is known by its place in these arrays.

    Raises:
        ValueError: a node that is named twice, arrays of other lengths, a negative capacity or use,
            or a cap that is no share.
    """

    names: tuple[Hashable, ...]
    capacity: Floats
    """Load that each node can take, in the unit of the partitions' costs."""
    used: Floats
    cap: float = CAP

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError("a node is named twice")
        for name in ("capacity", "used"):
            values = getattr(self, name)
            if values.shape != (len(self.names),):
                raise ValueError(f"{len(self.names)} nodes, but {name} of shape {values.shape}")
            if values.size and not (np.isfinite(values).all() and values.min() >= 0):
                raise ValueError(f"{name} has to be at least 0")
        if not 0 < self.cap <= 1:
            raise ValueError(f"cap is {self.cap}: give a share above 0, and 1 at most")

    @classmethod
    def of(
        cls,
        capacity: Mapping[Hashable, float],
        used: Mapping[Hashable, float] | None = None,
        cap: float = CAP,
    ) -> Nodes:
        """Build nodes from names and capacities; nothing is used unless given."""
        busy = used or {}
        return cls(
            tuple(capacity),
            np.array(list(capacity.values()), np.float64),
            np.array([busy.get(name, 0.0) for name in capacity], np.float64),
            cap,
        )

    @property
    def room(self) -> Floats:
        """Load that each node may still take, shape (nodes,)."""
        room: Floats = np.maximum(self.cap * self.capacity - self.used, 0.0)
        return room

    def joined(self, capacity: Mapping[Hashable, float]) -> Nodes:
        """Return these nodes with those that have arrived, which do nothing yet."""
        return replace(
            self,
            names=(*self.names, *capacity),
            capacity=np.append(self.capacity, list(capacity.values())).astype(np.float64),
            used=np.append(self.used, np.zeros(len(capacity))).astype(np.float64),
        )

    def lost(self, names: Collection[Hashable]) -> Nodes:
        """Return the nodes without those that have failed."""
        kept = [place for place, name in enumerate(self.names) if name not in names]
        return replace(
            self,
            names=tuple(self.names[place] for place in kept),
            capacity=self.capacity[kept],
            used=self.used[kept],
        )


@dataclass(frozen=True, eq=False)
class Assignment:
    """Nodes for the partitions of a plan."""

    places: dict[Partition, Hashable]
    """The node of each, in the order in which to start them."""
    nodes: Nodes
    """Nodes with the work that the plan gives them."""
    refused: tuple[Partition, ...]
    """Queries of the plan for which there is room in all, but not for each partition at a node."""


def assign(outage: Outage, plan: Plan, nodes: Nodes) -> Assignment:
    """The plan's partitions, each to the node with the most room at its turn.

    Query after query, the dearest partition of each first. A query goes whole or is refused, and
    refusing it takes nothing from the others. Partitions that complete no query of the plan, as
    operator-centric plans have them, follow one by one.
    """
    draft = _Draft(outage, nodes)
    numbers = [outage.number[name] for name in plan.queries]
    whole = [draft.place(outage.failed_of(number)) for number in numbers]
    refused = [name for name, done in zip(plan.queries, whole, strict=True) if not done]
    chosen = np.zeros(len(outage.queries), np.bool_)
    chosen[numbers] = True
    needed = outage.taken(chosen)
    planned = np.isin(outage.failed, [outage.topology.index[name] for name in plan.partitions])
    for single in np.flatnonzero(planned & ~needed):
        if draft.is_fed(int(single)):
            draft.place(np.array([single], np.int64))
    return Assignment(draft.places, draft.after(), tuple(refused))


class _Draft:
    """Places so far, and the nodes by their room."""

    def __init__(self, outage: Outage, nodes: Nodes) -> None:
        self._outage, self._nodes = outage, nodes
        self._cost = outage.topology.cost[outage.failed]
        self._at = np.full(len(outage.failed), NONE, np.int64)
        self._slack = (EQUAL * nodes.capacity).tolist()
        # Room is negated, because a heap has its least in front; the first of equal nodes wins.
        self._heap = [(-room, node) for node, room in enumerate(nodes.room.tolist())]
        heapq.heapify(self._heap)
        self.places: dict[Partition, Hashable] = {}

    def place(self, numbers: Ints) -> bool:
        """All of these failed partitions that have no place yet, or none; whether that was done."""
        todo = numbers[self._at[numbers] == NONE]
        heap, placed = self._heap.copy(), []
        for number in todo[np.lexsort((todo, -self._cost[todo]))].tolist():
            cost = float(self._cost[number])
            if not heap or cost > self._slack[heap[0][1]] - heap[0][0]:
                return False
            negated, node = heap[0]
            heapq.heapreplace(heap, (negated + cost, node))
            placed.append((number, node))
        self._heap = heap
        topology = self._outage.topology
        for number, node in sorted(placed):
            self._at[number] = node
            name = topology.partitions[self._outage.failed[number]]
            self.places[name] = self._nodes.names[node]
        return True

    def is_fed(self, number: int) -> bool:
        """Return True if all partitions that this one reads run, or have a place."""
        failed = self._outage.failed
        upstream = self._outage.topology.upstream.of(int(failed[number]))
        return bool((self._at[np.isin(failed, upstream)] != NONE).all())

    def after(self) -> Nodes:
        has = self._at != NONE
        more = np.bincount(self._at[has], self._cost[has], len(self._nodes.names))
        return replace(self._nodes, used=self._nodes.used + more)
