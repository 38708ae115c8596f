"""Nodes that join, drain and are lost, one after the other: copies and plans together, by name."""

from collections.abc import Hashable

import numpy as np
import pytest

from cec_store.placement import (
    Layout,
    LoadHistory,
    Nodes,
    Rules,
    correlated,
    costs,
    plan,
    updated,
    violations,
)
from cec_store.placement.layout import NOWHERE

pytestmark = pytest.mark.crash
GROUPS = [f"query {q}, partition {p}" for q in range(2) for p in range(8)]


class Cluster:
    """What a manager knows: names alone, as nodes come and go."""

    def __init__(self, seed: int, copies: int) -> None:
        self.random = np.random.default_rng(seed)
        self.copies = copies
        self.nodes = [f"executor {n}" for n in range(4)]
        self.draining: set[str] = set()
        self.born = len(self.nodes)
        self.owners: dict[Hashable, Hashable | None] = {
            group: self.nodes[n % 4] for n, group in enumerate(GROUPS)
        }
        self.holders: dict[Hashable, tuple[Hashable, ...]] = {}
        self.history = LoadHistory(30)
        self.phase = self.random.uniform(0, 6, len(GROUPS))
        self.hour = 0
        self.assisted = self.moves = 0
        for _ in range(10):
            self.load()

    def load(self) -> np.ndarray:
        self.hour += 1
        wave = 1 + 0.5 * np.sin(self.hour / 4 + self.phase)
        loads = 0.08 * wave * self.random.uniform(0.9, 1.1, len(GROUPS))
        self.history.add(dict(zip(GROUPS, loads.tolist(), strict=True)))
        return loads

    def adapt(self, rules: Rules) -> None:
        load = self.load()
        layout = Layout.of(self.owners, self.nodes, self.holders)
        nodes = Nodes.alike(len(self.nodes))
        nodes.draining[:] = [node in self.draining for node in self.nodes]
        found = plan(layout, load, nodes, rules)
        self.moves += len(found.moves)
        self.assisted += found.assisted
        loads = self.history.series(layout.groups)
        may_hold = ~nodes.draining
        copies = min(self.copies, int(may_hold.sum()) - 1)
        proposed = correlated(found.layout, loads, copies, may_hold=may_hold)
        after = updated(found.layout, proposed, costs(loads, found.layout), 0.5, may_hold).layout
        assert violations(after) == []
        assert (after.holders != NOWHERE).all()
        assert after.holders.shape[1] == copies
        assert not nodes.draining[after.holders].any(), "a copy is where it will be gone"
        self.owners = {g: after.nodes[n] for g, n in zip(GROUPS, after.owner, strict=True)}
        self.holders = after.holder_names()

    def join(self) -> None:
        self.nodes.append(f"executor {self.born}")
        self.born += 1

    def lose(self, node: str) -> None:
        """What it owned goes on at a copy, as far as one is left."""
        self.nodes.remove(node)
        self.draining.discard(node)
        for group, owner in self.owners.items():
            if owner == node:
                left = [each for each in self.holders[group] if each != node]
                assert left, f"{group} is lost with its copies"
                self.owners[group] = left[0]

    def leave(self, node: str) -> None:
        assert node not in self.owners.values()
        self.nodes.remove(node)
        self.draining.discard(node)

    def counts(self) -> list[int]:
        return [sum(owner == node for owner in self.owners.values()) for node in self.nodes]


RULES = Rules(scales=False)


@pytest.mark.parametrize("copies", [1, 2])
def test_four_become_two_become_six(copies: int) -> None:
    cluster = Cluster(1, copies)
    cluster.adapt(RULES)
    for node in cluster.nodes[:2]:
        cluster.draining.add(node)
        cluster.adapt(RULES)
        cluster.leave(node)
    # With two nodes there is but one for copies.
    assert len(cluster.nodes) == 2
    cluster.adapt(RULES)
    for _ in range(4):
        cluster.join()
    cluster.adapt(RULES)
    assert min(cluster.counts()) >= len(GROUPS) // 6, "joined nodes own their share at once"


@pytest.mark.parametrize("copies", [1, 2])
def test_nodes_come_and_go_and_no_group_is_without_owner_or_copy(copies, crash_count) -> None:  # type: ignore[no-untyped-def]
    moves = 0
    for seed in range(crash_count(8, 200)):
        cluster = Cluster(seed, copies)
        cluster.adapt(RULES)
        for _ in range(15):
            event = cluster.random.choice(["join", "lose", "drain", "calm"])
            node = str(cluster.random.choice(cluster.nodes))
            if event == "join" and len(cluster.nodes) < 8:
                cluster.join()
            elif event == "lose" and len(cluster.nodes) > copies + 1:
                cluster.lose(node)
            elif event == "drain" and len(cluster.nodes) > copies + 1:
                cluster.draining.add(node)
                cluster.adapt(RULES)
                cluster.leave(node)
            cluster.adapt(RULES)
            assert set(cluster.owners.values()) <= set(cluster.nodes)
        moves += cluster.moves
    assert moves


def test_a_manager_that_scales_follows_the_load_down_and_up_again() -> None:
    rules = Rules(overload=0.8, aim=0.7, underload=0.4)
    loads = np.full(16, 0.1)
    owners: dict[Hashable, Hashable | None] = {g: n % 4 for n, g in enumerate(GROUPS)}
    layout, nodes = Layout.of(owners, range(8)), Nodes.alike(8)
    nodes.capacity[4:] = 0  # Not rented yet.

    def settle(load: np.ndarray) -> int:
        nonlocal layout
        for _ in range(30):
            found = plan(layout, load, nodes, rules)
            layout = found.layout
            for node in found.freed:
                nodes.capacity[node] = 0
            for node in np.flatnonzero(nodes.capacity == 0)[: found.nodes_wanted]:
                nodes.capacity[node] = 1
            if not (found.moves or found.freed or found.nodes_wanted):
                return int(nodes.capacity.sum())
        raise AssertionError(f"it never comes to rest: {found}")

    assert settle(loads) == 4, "1.6 of 4 is neither too much nor too little"
    assert settle(loads / 4) == 1
    assert (layout.owned.sum(axis=0) > 0).sum() == 1
    assert settle(loads * 2.5) in (6, 7), "three groups of 0.25 on a node"
    assert (loads * 2.5 @ layout.owned <= 0.8 + 1e-9).all()
