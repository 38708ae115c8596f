"""A plan in the making, which knows what each node would have to do after the moves so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cec_store.placement.layout import NOWHERE, Bools, Floats, Ints, Layout
from cec_store.placement.plans import Move, Nodes, Rules
from cec_store.placement.protocols import Protocol

EQUAL = 1e-9
"""Sums of loads that mean the same may differ in the last digits."""


@dataclass(eq=False)
class Draft:
    """A plan in the making: loads of nodes as they will be after the moves so far."""

    layout: Layout
    load: Floats
    nodes: Nodes
    rules: Rules
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        owned = self.layout.owned.astype(np.float64)
        self.at_node = self.load @ owned + self.nodes.external
        self.held = self.layout.held
        self.stays = np.ones(len(self.layout.groups), np.bool_)
        """Groups that no move is of; shape (groups,). A plan moves a group once."""

    @property
    def is_full(self) -> bool:
        """True once the plan has as many moves as the rules allow."""
        return 0 < self.rules.moves_max <= len(self.moves)

    @property
    def used(self) -> Floats:
        """Shares of the capacities; of a node without any, none or infinite."""
        capacity = self.nodes.capacity
        idle = np.where(self.at_node > 0, np.inf, 0.0)
        shares: Floats = np.divide(self.at_node, capacity, out=idle, where=capacity > 0)
        return shares

    def fits(self, group: int, most: float | None) -> Bools:
        """Return True for nodes that can take a group within this share, if any; shape (nodes,)."""
        capacity = self.nodes.capacity
        able: Bools = (capacity > 0) & ~self.nodes.draining
        if most is not None:
            able &= self.at_node + self.load[group] <= most * capacity + EQUAL
        if (owner := self.layout.owner[group]) != NOWHERE:
            able[owner] = False
        return able

    def move(self, group: int, target: int, reason: str) -> None:
        """Add a move of a group to a node, and update the loads of both nodes."""
        source = int(self.layout.owner[group])
        is_assisted = bool(self.held[group, target])
        self.at_node[source] -= self.load[group]
        self.at_node[target] += self.load[group]
        layout = self.layout
        protocol = self.rules.assisted if is_assisted else Protocol.DIRECT
        self.moves.append(
            Move(layout.groups[group], layout.nodes[source], layout.nodes[target], protocol, reason)
        )
        self.layout = layout.moved(group, target)
        self.stays[group] = False
        copies = self.layout.holders[group]
        self.held[group] = False
        self.held[group, copies[copies != NOWHERE]] = True

    def least_used(self, places: Bools) -> int:
        """Return the least used of these nodes; the share with the group would order them alike.

        Of equally used ones it is the one with the fewest groups, so that no other group has to
        leave it for its fair share.
        """
        used = np.where(places, self.used, np.inf)
        return int(np.lexsort((self.layout.owned.sum(axis=0), used))[0])

    def relieve(self, node: int, most: float, reason: str, *, wholly: bool = False) -> bool:
        """Move groups away until the node is below a share, or ``wholly``; whether that was done.

        Groups that have a copy where there is room go first. Of those, and of all if there is none,
        it is the lightest that is enough alone, or else the heaviest: few groups move.
        """
        while not self.is_full:
            excess = self.at_node[node] - most * self.nodes.capacity[node]
            if not wholly and excess <= EQUAL:
                return True
            here = (self.layout.owner == node) & self.stays
            groups = np.flatnonzero(here & ((self.load > 0) | wholly))
            if not len(groups):
                return wholly
            move = self._best(groups, math.inf if wholly else float(excess), most)
            if move is None:
                return False
            self.move(*move, reason)
        return wholly and not bool((self.layout.owner == node).any())

    def _best(self, groups: Ints, excess: float, most: float) -> tuple[int, int] | None:
        """Return the group that goes and the node that takes it; ``None`` if none may."""
        enough = self.load[groups] >= excess - EQUAL
        order = np.lexsort((np.where(enough, self.load[groups], -self.load[groups]), ~enough))
        receivers = self._receivers()
        anywhere: tuple[int, int] | None = None
        for group in groups[order].tolist():
            places = self.fits(group, most) & receivers
            if (copies := places & self.held[group]).any():
                return group, self.least_used(copies)
            if anywhere is None and places.any():
                anywhere = group, self.least_used(places)
        return anywhere

    def _receivers(self) -> Bools:
        """All nodes, or the one that each overloaded one is paired with."""
        every = np.ones(len(self.layout.nodes), np.bool_)
        if not self.rules.paired:
            return every
        taking = (self.nodes.capacity > 0) & ~self.nodes.draining
        least: Bools = np.arange(len(every)) == self.least_used(taking)
        return least


def usable_copies(layout: Layout, load: Floats, nodes: Nodes, overload: float) -> tuple[int, int]:
    """Return how many groups on overloaded nodes could move to a copy, and how many there are.

    Each group is considered alone: it must find a node with a copy that stays below the threshold
    with it (the paper's Figure 8).
    """
    rules = Rules(overload=overload, aim=overload, underload=overload / 2)
    draft = Draft(layout, load, nodes, rules)
    above = draft.used > overload + EQUAL
    owner = layout.owner
    groups = np.flatnonzero((owner != NOWHERE) & above[owner]).tolist()
    held = layout.held
    usable = sum(bool((draft.fits(group, overload) & held[group]).any()) for group in groups)
    return usable, len(groups)
