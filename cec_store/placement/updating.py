"""Worthwhile moves of copies: the threshold θ of the paper's section 5, "temporal changes"."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cec_store.placement.allocation import ROUNDING, carried
from cec_store.placement.layout import NOWHERE, Bools, Floats, Layout
from cec_store.placement.loads import score


@dataclass(frozen=True)
class CopyMove:
    """A copy that is made at one node and then dropped at another."""

    group: int
    copy: int
    source: int
    """NOWHERE: there was none."""
    target: int
    gain: float
    """Amount by which the score falls."""


@dataclass(frozen=True, eq=False)
class Update:
    """Moves of copies that a threshold asks for, and the scores before and after."""

    layout: Layout
    moves: tuple[CopyMove, ...]
    score_before: float
    score_after: float
    score_proposed: float


def updated(
    layout: Layout,
    proposed: Layout,
    priced: Floats,
    threshold: float = 0.0,
    may_hold: Bools | None = None,
    *,
    weights: Floats | None = None,
    room: float = math.inf,
) -> Update:
    """Move the copies that improve the score most, until it is within the threshold of a proposal.

    A threshold alone may leave a node with more than constraint 2 allows, as the moves that relieve
    it are not among the best. Then those that relieve it most cheaply follow, until each node is
    within its room, or has no more than the proposal gives it.

    In any case, copies that are missing are made, and those that are more than the proposal has of
    their group, are with their owner or at a node that takes none leave. Constraint 1 holds after
    each move, so a prefix of them can be made too.

    Args:
        proposed: by `correlated`, with the same groups, nodes and owners.
        priced: what it was made from, `costs`; shape (groups, nodes).
        threshold: in the score's unit: load.
        may_hold: as it was given to `correlated`.
        weights: mean load of each group, `mean_loads`; shape (groups,). Needed with a room.
        room: constraint 2's bound on the load of a node's copies, `room_of_a_node`.

    Raises:
        ValueError: a threshold below 0, a room without weights, or layouts of other groups, nodes
            or owners.
    """
    if not threshold >= 0:
        raise ValueError(f"threshold is {threshold:g}: give at least 0")
    if layout.groups != proposed.groups or layout.nodes != proposed.nodes:
        raise ValueError("the proposal is for other groups or nodes")
    if not np.array_equal(layout.owner, proposed.owner):
        raise ValueError("the proposal is for other owners")
    if weights is None and not math.isinf(room):
        raise ValueError(f"a room of {room:g} without the weights of the groups")
    nodes = len(layout.nodes)
    takes = [*(np.ones(nodes, np.bool_) if may_hold is None else may_hold).tolist(), False]
    kept = _with_copies(layout, proposed, takes)
    needed, improving = _pairs(kept, proposed, priced, takes)
    before, aim = score(kept, priced), score(proposed, priced)
    taken, now = [*needed], before - sum(move.gain for move in needed)
    crowd = _Crowd(kept, proposed, np.zeros(len(priced)) if weights is None else weights, room)
    for move in needed:
        crowd.move(move)
    while improving:
        is_far = now - aim > threshold and improving[0].gain > 0
        best = improving[0] if is_far else crowd.relief(improving)
        if best is None:
            break
        improving.remove(best)
        taken.append(best)
        now -= best.gain
        crowd.move(best)
    holders = kept.holders.copy()
    for move in taken:
        holders[move.group, move.copy] = move.target
    result = kept.with_holders(holders)
    return Update(result, tuple(taken), before, score(result, priced), aim)


class _Crowd:
    """Loads of the copies at each node while copies move, and how much each node may have.

    A node of which the proposal itself breaks constraint 2 may have what the proposal gives it. So
    a node that is above its bound has a copy that the proposal takes away, until none is above it.
    """

    def __init__(self, kept: Layout, proposed: Layout, weights: Floats, room: float) -> None:
        self._weights = weights
        self._carried = carried(kept, weights)
        self._most = np.maximum(room, carried(proposed, weights) * (1 + ROUNDING))

    def move(self, move: CopyMove) -> None:
        """Take in a move."""
        if move.source != NOWHERE:
            self._carried[move.source] -= self._weights[move.group]
        self._carried[move.target] += self._weights[move.group]

    def relief(self, moves: list[CopyMove]) -> CopyMove | None:
        """Return the first of these moves, the best ones first, from a node above its bound."""
        above = self._carried > self._most + ROUNDING * self._weights.sum()
        return next((m for m in moves if m.source != NOWHERE and above[m.source]), None)


def _with_copies(layout: Layout, proposed: Layout, takes: list[bool]) -> Layout:
    """Return as many copies of each group as proposed, none where its owner is, and none twice.

    If there are more copies, those that have to leave are dropped first, then those not proposed.
    """
    holders = np.full(proposed.holders.shape, NOWHERE, np.int64)
    asked = (proposed.holders != NOWHERE).sum(axis=1).tolist()
    for group, (owner, row) in enumerate(
        zip(layout.owner.tolist(), layout.holders.tolist(), strict=True)
    ):
        copies = asked[group]
        nodes = [node for node in dict.fromkeys(row) if node not in (NOWHERE, owner)]
        if len(nodes) > copies:
            stay = set(proposed.holders[group].tolist())
            nodes.sort(key=lambda node: (not takes[node], node not in stay))
        kept = nodes[:copies]
        holders[group, : len(kept)] = kept
    return layout.with_holders(holders)


def _pairs(
    kept: Layout, proposed: Layout, priced: Floats, takes: list[bool]
) -> tuple[list[CopyMove], list[CopyMove]]:
    """Copies that have to be made, and moves by what they gain; each goes to a proposed node.

    Where a group has several copies, the dearest leaves for the cheapest place. ``takes`` is of
    each node whether it may have copies, and at the end, of NOWHERE, that it may not.
    """
    needed: list[CopyMove] = []
    improving: list[CopyMove] = []
    for group, (now, then) in enumerate(
        zip(kept.holders.tolist(), proposed.holders.tolist(), strict=True)
    ):
        cost = priced[group]
        then = [node for node in then if node != NOWHERE]
        now = now[: len(then)]
        dearest = float(cost.max(initial=0.0))
        targets = sorted((node for node in then if node not in now), key=lambda n: float(cost[n]))
        free = [copy for copy, node in enumerate(now) if node == NOWHERE or node not in then]
        leaving = sorted(free, key=lambda c: (takes[now[c]], -_cost(cost, now[c], dearest)))
        for copy, target in zip(leaving, targets, strict=False):
            gain = _cost(cost, now[copy], dearest) - float(cost[target])
            move = CopyMove(group, copy, now[copy], target, gain)
            (improving if takes[now[copy]] else needed).append(move)
    return needed, sorted(improving, key=lambda pair: -pair.gain)


def _cost(cost: Floats, node: int, dearest: float) -> float:
    return dearest if node == NOWHERE else float(cost[node])
