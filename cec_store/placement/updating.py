"""Worthwhile moves of copies: the threshold θ of the paper's section 5, "temporal changes"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
) -> Update:
    """Move the copies that improve the score most, until it is within the threshold of a proposal.

    In any case, copies that are missing are made, and those that are more than the proposal has of
    their group, are with their owner or at a node that takes none leave. Constraint 1 holds after
    each move, so a prefix of them can be made too.

    Args:
        proposed: by `correlated`, with the same groups, nodes and owners.
        priced: what it was made from, `costs`; shape (groups, nodes).
        threshold: in the score's unit: load.
        may_hold: as it was given to `correlated`.

    Raises:
        ValueError: a threshold below 0, or layouts of other groups, nodes or owners.
    """
    if not threshold >= 0:
        raise ValueError(f"threshold is {threshold:g}: give at least 0")
    if layout.groups != proposed.groups or layout.nodes != proposed.nodes:
        raise ValueError("the proposal is for other groups or nodes")
    if not np.array_equal(layout.owner, proposed.owner):
        raise ValueError("the proposal is for other owners")
    nodes = len(layout.nodes)
    takes = [*(np.ones(nodes, np.bool_) if may_hold is None else may_hold).tolist(), False]
    kept = _with_copies(layout, proposed, takes)
    needed, improving = _pairs(kept, proposed, priced, takes)
    before, aim = score(kept, priced), score(proposed, priced)
    taken, now = [*needed], before - sum(move.gain for move in needed)
    for move in improving:
        if now - aim <= threshold or move.gain <= 0:
            break
        taken.append(move)
        now -= move.gain
    holders = kept.holders.copy()
    for move in taken:
        holders[move.group, move.copy] = move.target
    result = kept.with_holders(holders)
    return Update(result, tuple(taken), before, score(result, priced), aim)


def _with_copies(layout: Layout, proposed: Layout, takes: list[bool]) -> Layout:
    """Return as many copies of each group as proposed, none where its owner is, and none twice.

    If there are more copies, those that have to leave are dropped first.
    """
    holders = np.full(proposed.holders.shape, NOWHERE, np.int64)
    asked = (proposed.holders != NOWHERE).sum(axis=1).tolist()
    for group, (owner, row) in enumerate(
        zip(layout.owner.tolist(), layout.holders.tolist(), strict=True)
    ):
        copies = asked[group]
        nodes = [node for node in dict.fromkeys(row) if node not in (NOWHERE, owner)]
        kept = sorted(nodes, key=lambda node: not takes[node])[:copies]
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
