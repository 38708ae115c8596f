"""Executors and partitions as groups, nodes and loads of `cec_store.placement`, and plans."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cec_store.connectors.spark.executors.snapshot import PartitionId, Snapshot
from cec_store.errors import PlacementRefused
from cec_store.placement.adaptation import plan
from cec_store.placement.allocation import (
    ROUNDING,
    carried,
    correlated,
    least_spread,
    room_of_a_node,
)
from cec_store.placement.layout import Bools, Ints, Layout
from cec_store.placement.loads import LoadHistory, costs, mean_loads
from cec_store.placement.plans import Nodes, Plan, Rules
from cec_store.placement.updating import updated


def layout_of(snapshot: Snapshot, states: Collection[str] = ("warm",)) -> Layout:
    """Return partitions, executors, and the replicas that are in one of these states."""
    owners: dict[Hashable, Hashable | None] = {
        partition.id: partition.owner for partition in snapshot.partitions
    }
    holders: dict[Hashable, list[Hashable]] = {
        partition.id: [
            replica.executor_id for replica in partition.replicas if replica.state in states
        ]
        for partition in snapshot.partitions
    }
    return Layout.of(owners, [executor.executor_id for executor in snapshot.executors], holders)


def nodes_of(
    snapshot: Snapshot,
    cores: Mapping[str, float],
    freed: Collection[str] = (),
    others: Mapping[str, float] | None = None,
) -> Nodes:
    """Return executors as nodes, with capacities and other loads in processor seconds a second.

    Executors that drain or are in ``freed`` are to be emptied; one that is not in ``cores`` has the
    median of the others, or 1.
    """
    others = others or {}
    usual = float(np.median([*cores.values()])) if cores else 1.0
    names = [executor.executor_id for executor in snapshot.executors]
    leaving = [
        executor.is_draining or executor.executor_id in freed for executor in snapshot.executors
    ]
    return Nodes(
        np.array([cores.get(name, usual) for name in names], np.float64),
        np.array([max(0.0, others.get(name, 0.0)) for name in names], np.float64),
        np.array(leaving, np.bool_),
    )


_Key = TypeVar("_Key")


def per_s(spent_s: Mapping[_Key, float], passed_s: float) -> dict[_Key, float]:
    """Return processor seconds a second, none below 0."""
    return {key: max(0.0, spent) / max(passed_s, 1e-3) for key, spent in spent_s.items()}


def planned(
    snapshot: Snapshot,
    loads: Mapping[Hashable, float],
    cores: Mapping[str, float],
    rules: Rules,
    freed: Collection[str] = (),
    *,
    may_free: bool = True,
    others: Mapping[str, float] | None = None,
) -> Plan:
    """Return what the paper's adaptation algorithm would do now.

    Args:
        freed: Executors that are to be emptied.
        may_free: Without it no other one is: the loads are not all known.
        others: Processor seconds a second that each executor spends on no partition of state.
    """
    layout = layout_of(snapshot)
    load = np.array([loads.get(group, 0.0) for group in layout.groups], np.float64)
    return plan(layout, load, nodes_of(snapshot, cores, freed, others), rules, may_free=may_free)


_PLACED = ("warm", "loading")
"""States of replicas that are where they are to be, or will be there."""


def _copies(snapshot: Snapshot, freed: Collection[str] = ()) -> tuple[Bools, Ints]:
    """Return which executors take replicas, and how many replicas each partition can have."""
    staying = [
        not executor.is_draining and executor.executor_id not in freed
        for executor in snapshot.executors
    ]
    may_hold = np.array(staying, np.bool_)
    asked = np.array([partition.replicas_wanted for partition in snapshot.partitions], np.int64)
    return may_hold, np.clip(asked, 0, max(0, int(may_hold.sum()) - 1))


def check_spread(spread: float, snapshot: Snapshot) -> None:
    """Refuse a bound on the spread of replicas that no loads could keep.

    Raises:
        PlacementRefused: it is below 1, or below what the executors and replicas that there are
            allow, whatever the partitions load.
    """
    if not spread >= 1:
        raise PlacementRefused(
            f"spread={spread:g}: replicas on some executor stand for the average load at least; "
            "give 1 or more, or math.inf for no bound"
        )
    may_hold, copies = _copies(snapshot)
    least = least_spread(layout_of(snapshot), copies, may_hold)
    if spread < least * (1 - ROUNDING):
        taking = int(may_hold.sum())
        # Rounded up, so that what the message names is not refused.
        enough = math.ceil(least * 1000) / 1000
        raise PlacementRefused(
            f"spread={spread:g} cannot be kept: of {taking} executors at most "
            f"{round(taking / least)} can have one of the {int(copies.sum())} replicas, and one of "
            f"them has {least:.3g} times the average load or more; give at least {enough:g}, or "
            "have more replicas"
        )


def crowded(
    snapshot: Snapshot, history: LoadHistory, spread: float, freed: Collection[str] = ()
) -> dict[str, float]:
    """Return the executors that break constraint 2, each with its load over the average.

    The load of an executor is that of the partitions of which it has replicas.
    """
    layout = layout_of(snapshot, _PLACED)
    may_hold, copies = _copies(snapshot, freed)
    weights = mean_loads(history.series(layout.groups))
    average = room_of_a_node(weights, copies, int(may_hold.sum()), 1.0)
    if average <= 0:
        return {}
    shares = carried(layout, weights) / average
    return {
        str(layout.nodes[node]): float(shares[node])
        for node in np.flatnonzero(shares > spread * (1 + ROUNDING))
    }


@dataclass(frozen=True)
class Placing:
    """Executors on which the replicas of a partition are to be."""

    id: PartitionId
    executors: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.id}: replicas on {', '.join(self.executors)}"


def placed(
    snapshot: Snapshot,
    history: LoadHistory,
    threshold: float,
    freed: Collection[str] = (),
    spread: float = math.inf,
) -> list[Placing]:
    """Return replicas that Algorithm 3 would have elsewhere, as far as the threshold θ asks for it.

    Each partition has as many as its own query asks for. One that is loading is there already.

    Args:
        threshold: as a share of all load, in the unit of the score.
        freed: executors that are to go, and get no replicas any more.
        spread: constraint 2: the bound on the load of an executor's replicas, over the average.
            It is kept whatever the threshold, where Algorithm 3 can keep it.
    """
    layout = layout_of(snapshot, _PLACED)
    may_hold, copies = _copies(snapshot, freed)
    if not copies.any():
        return []
    series = history.series(layout.groups)
    proposed = correlated(layout, series, copies, spread=spread, may_hold=may_hold)
    weights = mean_loads(series)
    room = room_of_a_node(weights, copies, int(may_hold.sum()), spread)
    worth = threshold * float(weights.sum())
    priced = costs(series, layout)
    update = updated(layout, proposed, priced, worth, may_hold, weights=weights, room=room)
    names = update.layout.holder_names()
    changed = dict.fromkeys(update.layout.groups[move.group] for move in update.moves)
    placings = [
        Placing(group, tuple(str(node) for node in names[group]))
        for group in changed
        if isinstance(group, PartitionId)
    ]
    # One that fails, or has no room, counts as missing: ordering it again would change nothing.
    now = {
        partition.id: {replica.executor_id for replica in partition.replicas}
        for partition in snapshot.partitions
    }
    return [placing for placing in placings if set(placing.executors) != now[placing.id]]
