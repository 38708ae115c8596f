"""Rules, what nodes can take, and what is to be done: what the adaptation goes by and answers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from cec_store.placement.layout import Bools, Floats, Layout
from cec_store.placement.protocols import Protocol


@dataclass(frozen=True)
class Rules:
    """Thresholds and limits by which groups move and nodes are freed.

    Raises:
        ValueError: thresholds that contradict each other.
    """

    overload: float = 0.8
    """The share of a node's capacity above which groups leave it, and that no move exceeds."""
    underload: float = 0.3
    """The share of all capacity below which a node is freed."""
    aim: float = 0.7
    """Share of capacity that nodes use at most after one was freed, or enough were added."""
    moves_max: int = 0
    """Moves in one plan at most; 0: as many as it takes."""
    nodes_min: int = 1
    scales: bool = True
    """Free nodes that are not needed, and ask for more."""
    fills: bool = True
    """Give a node that owns too few groups its fair share, such as one that joins."""
    assisted: Protocol = Protocol.CPAL
    """Protocol by which groups move to a node that has a copy."""
    paired: bool = False
    """Choose the least used node in any case, as in Flux, which the paper follows.

    Otherwise any node that has a copy and room comes first.
    """

    def __post_init__(self) -> None:
        if not 0 < self.underload < self.aim <= self.overload < math.inf:
            raise ValueError(
                f"underload {self.underload:g}, aim {self.aim:g} and overload {self.overload:g} "
                "have to be in this order, above 0"
            )
        if self.moves_max < 0 or self.nodes_min < 1:
            raise ValueError(f"moves_max {self.moves_max}, nodes_min {self.nodes_min}: too few")
        if not self.assisted.is_assisted:
            raise ValueError("assisted is direct: it takes no copy")


@dataclass(frozen=True, eq=False)
class Nodes:
    """Capacities of the nodes of a layout.

    Raises:
        ValueError: arrays of different lengths, or numbers below 0.
    """

    capacity: Floats
    """Capacity of each node in the unit of the loads; 0: it takes no groups."""
    external: Floats
    """Load on each node beside its groups, in the unit of the loads."""
    draining: Bools
    """True for nodes whose groups have to leave."""

    def __post_init__(self) -> None:
        arrays = (self.capacity, self.external, self.draining)
        if any(array.shape != self.capacity.shape or array.ndim != 1 for array in arrays):
            raise ValueError(f"of different lengths: {[array.shape for array in arrays]}")
        for name in ("capacity", "external"):
            values = getattr(self, name)
            if values.size and not (np.isfinite(values).all() and values.min() >= 0):
                raise ValueError(f"{name} has to be at least 0")

    @classmethod
    def alike(cls, count: int, capacity: float = 1.0) -> Nodes:
        """Return so many nodes of one capacity, with no other load."""
        return cls(np.full(count, capacity), np.zeros(count), np.zeros(count, np.bool_))


@dataclass(frozen=True)
class Move:
    """A group that changes its owner."""

    group: Hashable
    source: Hashable
    target: Hashable
    protocol: Protocol
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.group}: {self.source} -> {self.target}, {self.protocol.value} ({self.reason})"
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """Moves to make now, in their order, and the nodes to free or to ask for."""

    layout: Layout
    """Layout after all of the plan."""
    moves: tuple[Move, ...] = ()
    nodes_wanted: int = 0
    """More nodes, since what overloads the others fits nowhere."""
    freed: tuple[Hashable, ...] = ()
    """Nodes that own nothing after the moves and can go; until they are gone, they drain."""

    @property
    def assisted(self) -> int:
        """Moves that a copy at the target makes faster."""
        return sum(move.protocol.is_assisted for move in self.moves)

    def __str__(self) -> str:
        """Return a line for each move, for logs and terminals."""
        lines = [str(move) for move in self.moves]
        lines += [f"{node}: can be freed" for node in self.freed]
        if self.nodes_wanted:
            lines.append(f"{self.nodes_wanted} more nodes are needed")
        return "\n".join(lines) or "nothing to do"
