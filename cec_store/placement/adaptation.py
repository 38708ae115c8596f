"""Moves of key groups, and their targets: the paper's section 7.2, its simple algorithm.

Pure: from loads and a layout to a plan, which can be printed, and carried out or not.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cec_store.placement.drafting import EQUAL, Draft
from cec_store.placement.layout import NOWHERE, Floats, Layout
from cec_store.placement.plans import Nodes, Plan, Rules


def plan(
    layout: Layout,
    load: Floats,
    nodes: Nodes,
    rules: Rules | None = None,
    *,
    may_free: bool = True,
) -> Plan:
    """Return the plan of the adaptation algorithm for these loads.

    Nodes that drain are emptied, overloaded ones relieved; then a node that owns too little gets
    its fair share, or, where nothing had to be done, the emptiest is freed if all are idle enough.

    Args:
        load: of each group now, in the unit of the capacities; shape (groups,).
        may_free: False where loads are not known well enough to do with fewer nodes.

    Raises:
        ValueError: loads or nodes that do not fit the layout.
    """
    rules = rules or Rules()
    if load.shape != (len(layout.groups),) or nodes.capacity.shape != (len(layout.nodes),):
        raise ValueError(
            f"{len(layout.groups)} groups on {len(layout.nodes)} nodes, but loads of "
            f"{load.shape} and capacities of {nodes.capacity.shape}"
        )
    if load.size and not (np.isfinite(load).all() and load.min() >= 0):
        raise ValueError("loads have to be finite numbers of at least 0")
    draft = Draft(layout, load, nodes, rules)
    _drain(draft)
    stuck = _relieve(draft)
    freed: tuple[int, ...] = ()
    if rules.fills:
        _fill(draft)
    if may_free and rules.scales and not draft.moves and not stuck:
        freed = _free(draft)
    done = np.flatnonzero(nodes.draining & ~draft.layout.owned.any(axis=0)).tolist()
    names = [layout.nodes[node] for node in dict.fromkeys([*done, *freed])]
    more_nodes = math.ceil(stuck / rules.aim - EQUAL) if rules.scales else 0
    return Plan(draft.layout, tuple(draft.moves), more_nodes, tuple(names))


def _usual(nodes: Nodes) -> float:
    """The capacity of a node that would be added."""
    taking = nodes.capacity[nodes.capacity > 0]
    return float(np.median(taking)) if len(taking) else 1.0


def _drain(draft: Draft) -> None:
    """Empty nodes that have to go; what does not fit goes wherever it hurts least."""
    for node in np.flatnonzero(draft.nodes.draining).tolist():
        if draft.relieve(node, draft.rules.overload, "its node drains", wholly=True):
            continue
        for group in np.flatnonzero(draft.layout.owner == node).tolist():
            places = draft.fits(group, None)
            if places.any() and not draft.is_full:
                near = places & draft.held[group]
                target = draft.least_used(near if near.any() else places)
                draft.move(group, target, "its node drains")


def _relieve(draft: Draft) -> float:
    """Scale-out and load balancing: what overloads nodes and fits nowhere, in usual nodes."""
    most = draft.rules.overload
    left = 0.0
    used = draft.used
    for node in np.argsort(-used, kind="stable").tolist():
        if used[node] <= most + EQUAL or draft.nodes.draining[node]:
            continue
        reason = f"{draft.layout.nodes[node]} is at {used[node]:.0%}, above {most:.0%}"
        if not draft.relieve(node, most, reason) and not draft.is_full:
            excess = draft.at_node[node] - most * draft.nodes.capacity[node]
            left += min(float(excess), float(draft.load[draft.layout.owner == node].sum()))
    return left / _usual(draft.nodes)


def _fill(draft: Draft) -> None:
    """Nodes that own fewer groups than a fair share get them from those that own most.

    A node that has just joined has no load to go by, and idle groups are to be spread too, so it is
    groups that are counted.
    """
    nodes = draft.nodes
    taking = np.flatnonzero((nodes.capacity > 0) & ~nodes.draining)
    if not len(taking):
        return
    fair = int((draft.layout.owner != NOWHERE).sum()) // len(taking)
    for target in taking.tolist():
        while not draft.is_full:
            counts = draft.layout.owned.sum(axis=0)
            rich = [node for node in taking.tolist() if counts[node] > fair]
            if counts[target] >= fair or not rich:
                break
            gift = _gift(draft, target, rich)
            if gift is None:
                break
            draft.move(gift, target, f"{draft.layout.nodes[target]} owns too few")


def _gift(draft: Draft, target: int, rich: list[int]) -> int | None:
    """A group with a copy there, else the heaviest; from the node that is used most."""
    from_rich = np.flatnonzero(np.isin(draft.layout.owner, rich))
    used = draft.used[draft.layout.owner[from_rich]]
    order = np.lexsort((-draft.load[from_rich], -used, ~draft.held[from_rich, target]))
    for group in from_rich[order].tolist():
        if draft.stays[group] and draft.fits(group, draft.rules.overload)[target]:
            return int(group)
    return None


def _free(draft: Draft) -> tuple[int, ...]:
    """Scale-in: the least used node, if all its groups fit on the others."""
    nodes, rules = draft.nodes, draft.rules
    taking = np.flatnonzero((nodes.capacity > 0) & ~nodes.draining)
    if len(taking) <= rules.nodes_min:
        return ()
    if draft.at_node[taking].sum() >= rules.underload * nodes.capacity[taking].sum():
        return ()
    ours_alone = [node for node in taking.tolist() if not nodes.external[node]]
    node = min(ours_alone or taking.tolist(), key=lambda candidate: float(draft.used[candidate]))
    draining = nodes.draining.copy()
    draining[node] = True
    tried = Draft(draft.layout, draft.load, replace(nodes, draining=draining), rules)
    reason = f"{draft.layout.nodes[node]} is freed"
    if not tried.relieve(node, rules.aim, reason, wholly=True):
        return ()
    draft.layout, draft.moves = tried.layout, tried.moves
    return (node,)
