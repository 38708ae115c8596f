"""What there is, in the terms of `cec_store.placement`: groups, nodes, loads; and plans for it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from cec_store.connectors.spark.executors.loads import Cost
from cec_store.connectors.spark.executors.snapshot import PartitionId, Snapshot
from cec_store.placement.adaptation import plan
from cec_store.placement.allocation import correlated
from cec_store.placement.layout import Layout
from cec_store.placement.loads import LoadHistory, costs, mean_loads
from cec_store.placement.plans import Nodes, Plan, Rules
from cec_store.placement.updating import updated

SAMPLES_AVERAGED = 6
"""Loads that jitter around a threshold move partitions to and fro."""


def layout_of(snapshot: Snapshot) -> Layout:
    """Partitions, executors, and the replicas that are warm."""
    owners: dict[Hashable, Hashable | None] = {each.id: each.owner for each in snapshot.partitions}
    holders: dict[Hashable, list[Hashable]] = {
        each.id: [replica.executor_id for replica in each.replicas if replica.state == "warm"]
        for each in snapshot.partitions
    }
    return Layout.of(owners, [each.executor_id for each in snapshot.executors], holders)


def nodes_of(snapshot: Snapshot, cores: Mapping[str, float], freed: Collection[str] = ()) -> Nodes:
    """What executors can do, in processor seconds a second; ``freed`` are to be emptied."""
    usual = float(np.median([*cores.values()])) if cores else 1.0
    names = [each.executor_id for each in snapshot.executors]
    leaving = [each.is_draining or each.executor_id in freed for each in snapshot.executors]
    return Nodes(
        np.array([cores.get(name, usual) for name in names], np.float64),
        np.zeros(len(names)),
        np.array(leaving, np.bool_),
    )


def loads_per_s(found: Mapping[PartitionId, Cost], passed_s: float) -> dict[Hashable, float]:
    """Processor seconds a second."""
    return {of: max(0.0, cost.cpu_s) / max(passed_s, 1e-3) for of, cost in found.items()}


def recent_loads(snapshot: Snapshot, history: LoadHistory) -> dict[Hashable, float]:
    """The mean over the last samples: one of them may have had a whole batch, or none."""
    groups = [each.id for each in snapshot.partitions]
    means = mean_loads(history.series(groups)[:, -SAMPLES_AVERAGED:])
    return dict(zip(groups, means.tolist(), strict=True))


def planned(
    snapshot: Snapshot,
    loads: Mapping[Hashable, float],
    cores: Mapping[str, float],
    rules: Rules,
    freed: Collection[str] = (),
) -> Plan:
    """What the paper's adaptation algorithm would do now."""
    layout = layout_of(snapshot)
    load = np.array([loads.get(group, 0.0) for group in layout.groups], np.float64)
    return plan(layout, load, nodes_of(snapshot, cores, freed), rules)


@dataclass(frozen=True)
class Placing:
    """Where the replicas of a partition are to be."""

    id: PartitionId
    executors: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.id}: replicas on {', '.join(self.executors)}"


def placed(
    snapshot: Snapshot,
    history: LoadHistory,
    copies: int,
    threshold: float,
    freed: Collection[str] = (),
) -> list[Placing]:
    """Replicas that Algorithm 3 would have elsewhere, as far as the threshold θ asks for it.

    Args:
        threshold: as a share of all load, in the unit of the score.
        freed: executors that are to go, and get no replicas any more.
    """
    layout = layout_of(snapshot)
    staying = [
        not each.is_draining and each.executor_id not in freed for each in snapshot.executors
    ]
    may_hold = np.array(staying, np.bool_)
    count = min(copies, int(may_hold.sum()) - 1)
    if count < 1 or not layout.groups:
        return []
    series = history.series(layout.groups)
    proposed = correlated(layout, series, count, may_hold=may_hold)
    worth = threshold * float(mean_loads(series).sum())
    found = updated(layout, proposed, costs(series, layout), worth, may_hold)
    names = found.layout.holder_names()
    changed = dict.fromkeys(found.layout.groups[move.group] for move in found.moves)
    return [
        Placing(group, tuple(str(node) for node in names[group]))
        for group in changed
        if isinstance(group, PartitionId)
    ]
