"""Places of copies: baseline, even distribution and correlated distribution (5, Algorithm 3).

Constraint 1: no node has a copy of a group that it processes, nor two copies of one group. It
always holds. Constraint 2: the load of the groups whose copies a node has is at most ``spread``
times the average over nodes. Algorithm 3 gives it up for a copy that no node has room for.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from cec_store.placement.layout import NOWHERE, Bools, Floats, Ints, Layout
from cec_store.placement.loads import Reading, costs, mean_loads

# Sums of loads that mean the same may differ in the last digits.
ROUNDING = 1e-9


def allowed_places(layout: Layout, copies: int | Ints, may_hold: Bools | None = None) -> Bools:
    """Return True where a copy of each group may be; shape (groups, nodes).

    Args:
        copies: of each group, or of all alike.
        may_hold: of each node, whether it takes copies at all; all do unless given.

    Raises:
        ValueError: some group has fewer nodes to go to than copies.
    """
    asked = np.broadcast_to(np.asarray(copies, np.int64), (len(layout.groups),))
    if np.min(copies, initial=0) < 0:
        raise ValueError(f"copies is {copies}: give at least 0")
    taking = np.ones(len(layout.nodes), np.bool_) if may_hold is None else may_hold
    if taking.shape != (len(layout.nodes),):
        raise ValueError(f"{len(layout.nodes)} nodes, but may_hold of shape {taking.shape}")
    allowed: Bools = taking[None, :] & ~layout.owned
    places = allowed.sum(axis=1)
    if (short := np.flatnonzero(places < asked)).size:
        group = int(short[np.argmin(places[short])])
        raise ValueError(
            f"{asked[group]} copies of each group, and {int(taking.sum())} nodes that take them: "
            f"none may be where its group or another of its copies is, so at most {places[group]}"
        )
    return allowed


def baseline(
    layout: Layout, copies: int, random: np.random.Generator, may_hold: Bools | None = None
) -> Layout:
    """Anywhere at random, under constraint 1 alone."""
    allowed = allowed_places(layout, copies, may_hold)
    drawn = np.where(allowed, random.random(allowed.shape), 2.0)
    return layout.with_holders(np.argsort(drawn, axis=1)[:, :copies].astype(np.int64))


def even(
    layout: Layout, copies: int, random: np.random.Generator, may_hold: Bools | None = None
) -> Layout:
    """Return a layout with copies at random, but no more on any node than ⌈copies / nodes⌉.

    Where owners make that impossible, as few copies as can be are above it.
    """
    allowed = allowed_places(layout, copies, may_hold)
    taking = int(len(layout.nodes) if may_hold is None else may_hold.sum())
    most = math.ceil(len(layout.groups) * copies / max(1, taking))
    held = np.zeros_like(allowed)
    counts = np.zeros(len(layout.nodes), np.int64)
    for group in random.permutation(np.repeat(np.arange(len(layout.groups)), copies)):
        free = np.flatnonzero(allowed[group] & ~held[group])
        roomy = free[counts[free] < most]
        if len(roomy):
            node = int(random.choice(roomy))
        else:
            node = _make_room(int(group), held, allowed, counts, most)
        held[group, node] = True
        counts[node] += 1
    return layout.with_holders(_as_holders(held, copies))


def _make_room(group: int, held: Bools, allowed: Bools, counts: Ints, most: int) -> int:
    """Push copies from node to node until one that this group may go to has room; else the least.

    Breadth first, so that the fewest copies are pushed.
    """
    reached: dict[int, tuple[int, int] | None] = {
        int(node): None for node in np.flatnonzero(allowed[group] & ~held[group])
    }
    todo = list(reached)
    for node in todo:
        if counts[node] < most:
            return _push(node, reached, held, counts)
        for other in np.flatnonzero(held[:, node] & (np.arange(len(held)) != group)):
            for place in np.flatnonzero(allowed[other] & ~held[other]):
                if int(place) not in reached:
                    reached[int(place)] = (node, int(other))
                    todo.append(int(place))
    return min((n for n, came in reached.items() if came is None), key=lambda n: int(counts[n]))


def _push(node: int, reached: dict[int, tuple[int, int] | None], held: Bools, counts: Ints) -> int:
    """Each copy on the way moves on by one; the node that then has room."""
    while (came := reached[node]) is not None:
        before, other = came
        held[other, before], held[other, node] = False, True
        counts[before] -= 1
        counts[node] += 1
        node = before
    return node


def correlated(
    layout: Layout,
    loads: Floats,
    copies: int | Ints = 1,
    *,
    spread: float = math.inf,
    may_hold: Bools | None = None,
    reading: Reading = Reading.NODE,
    least: float | None = None,
) -> Layout:
    """Return a layout with copies where load falls while that of the group rises: Algorithm 3.

    Args:
        loads: shape (groups, samples), in a unit that adds up.
        copies: of all groups alike, or of each; shape (groups,).
        spread: constraint 2; without a bound unless given, as in the paper's evaluation.
        may_hold: of each node, whether it takes copies at all; all do unless given.
        reading: what the correlation with a node is.
        least: what is nearer to 0 counts as no correlation: see `correlations`.

    Raises:
        ValueError: loads that do not fit the layout, more copies than nodes to take them, or a
            spread below 1, which nothing can keep.
    """
    allowed = allowed_places(layout, copies, may_hold)
    if not spread >= 1:
        raise ValueError(f"spread is {spread:g}: no allocation is below the average at each node")
    priced, weights = costs(loads, layout, reading, least), mean_loads(loads)
    taking = len(layout.nodes) if may_hold is None else int(may_hold.sum())
    room = room_of_a_node(weights, copies, taking, spread)
    return layout.with_holders(algorithm_3(priced, weights, allowed, copies, room))


def room_of_a_node(weights: Floats, copies: int | Ints, nodes: int, spread: float) -> float:
    """Constraint 2's bound: what the groups of a node's copies may load in all."""
    if math.isinf(spread):
        return math.inf
    return spread * float((weights * copies).sum()) / max(1, nodes) * (1 + ROUNDING)


def carried(layout: Layout, weights: Floats) -> Floats:
    """Return the load of the groups whose copies each node has; shape (nodes,)."""
    load: Floats = weights @ layout.held
    return load


def least_spread(layout: Layout, copies: int | Ints, may_hold: Bools | None = None) -> float:
    """Return the least ``spread`` that can be kept, whatever the groups load.

    Fewer copies than nodes leave nodes without any, and so does a node that owns all groups: all
    load is on the others, and one of them has at least so many times the average over all nodes.
    With one copy of each group there are loads that keep it; nothing is said of any in particular.
    1 without copies.

    Raises:
        ValueError: more copies than nodes to take them.
    """
    allowed = allowed_places(layout, copies, may_hold)
    asked = np.broadcast_to(np.asarray(copies, np.int64), (len(layout.groups),))
    usable = min(int(asked.sum()), int(allowed[asked > 0].any(axis=0).sum()))
    taking = len(layout.nodes) if may_hold is None else int(may_hold.sum())
    return taking / usable if usable else 1.0


def algorithm_3(
    priced: Floats, weights: Floats, allowed: Bools, copies: int | Ints, room: float
) -> Ints:
    """The copy that loses most if it does not get its best place is placed first.

    A copy's places stand in levels of equal cost. Levels have only nodes where its group is not, so
    that what it loses is measured between places that it can have.
    """
    levels = [_levels(option, may) for option, may in zip(priced, allowed, strict=True)]
    carried = np.zeros(priced.shape[1])
    held = np.zeros_like(allowed)
    asked = np.broadcast_to(np.asarray(copies, np.int64), (len(priced),))
    queue = [
        (-_loss(levels[group], 0), -float(weights[group]), group, copy, 0)
        for group in range(len(priced))
        for copy in range(int(asked[group]))
    ]
    heapq.heapify(queue)
    while queue:
        _, last, group, copy, level = heapq.heappop(queue)
        load = float(weights[group])
        if level == len(levels[group]):
            # Everywhere was tried: constraint 2 gives way, to the least cost, then the least load.
            free = np.flatnonzero(allowed[group] & ~held[group])
            node = int(min(free, key=lambda option: (priced[group, option], carried[option])))
        else:
            _, best = levels[group][level]
            fits = best[~held[group, best] & (carried[best] + load <= room)]
            if not len(fits):
                later = (-_loss(levels[group], level + 1), last, group, copy, level + 1)
                heapq.heappush(queue, later)
                continue
            node = int(fits[np.argmin(carried[fits])])
        held[group, node] = True
        carried[node] += load
    return _as_holders(held, int(asked.max(initial=0)))


def _levels(priced: Floats, may: Bools) -> list[tuple[float, Ints]]:
    """Nodes from the best on, those of one cost together."""
    nodes = np.flatnonzero(may)
    return [(float(cost), nodes[priced[nodes] == cost]) for cost in np.unique(priced[nodes])]


def _loss(levels: Sequence[tuple[float, Ints]], level: int) -> float:
    """Return the cost that a copy loses if it does not get a place of this level.

    After the last of several there is none left, so that it goes first; nothing is at stake where
    all places are alike.
    """
    if level + 1 < len(levels):
        return levels[level + 1][0] - levels[level][0]
    return math.inf if level else 0.0


def _as_holders(held: Bools, copies: int) -> Ints:
    """Return the nodes of each row, in order, and NOWHERE behind fewer than ``copies``."""
    holders = np.full((len(held), copies), NOWHERE, np.int64)
    rows, nodes = np.nonzero(held)
    if len(rows):
        firsts = np.searchsorted(rows, rows)
        holders[rows, np.arange(len(rows)) - firsts] = nodes
    return holders
