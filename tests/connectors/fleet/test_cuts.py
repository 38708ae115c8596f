"""Global checkpoints are consistent cuts: against a plain model of queries that run at random."""

import random
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.connectors.spark.fleet import cuts
from cec_store.connectors.spark.fleet.cuts import Offsets, latest_cut
from cec_store.connectors.spark.fleet.declaration import Graph, Query

SHAPES = {
    "chain": {"a": ["in"], "b": ["a"], "c": ["b"]},
    "diamond": {"a": ["in"], "b": ["a"], "c": ["a"], "d": ["b", "c"]},
    "two ways of other lengths": {"a": ["in"], "b": ["a"], "c": ["b"], "d": ["a", "c"]},
    "apart": {"a": ["in"], "b": ["more"], "c": ["b"]},
}
PARTITIONS = 2


def graph_of(shape: dict[str, list[str]]) -> Graph:
    return Graph.of(
        Query(name, "m:f", tuple(f"/{each}" for each in reads), f"/{name}")
        for name, reads in shape.items()
    )


class Model:
    """Batches of each query: what it had read and written after each, and which are committed."""

    def __init__(self, shape: dict[str, list[str]], dice: random.Random, kept: int) -> None:
        self.shape, self.dice, self.kept = shape, dice, kept
        self.ends: dict[str, list[int]] = {
            queue: [0] * PARTITIONS for queue in {*shape, *chain(*shape.values())}
        }
        self.after: dict[str, list[list[int]]] = {name: [[0] * PARTITIONS] for name in shape}
        """Ends of its queue: before its first batch, and after each."""
        self.positions: dict[str, list[dict[str, list[int]]]] = {name: [] for name in shape}
        self.begun: set[str] = set()
        """Whose last batch is in the queue, and not in its own log."""

    def step(self) -> None:
        for queue in self.ends.keys() - self.shape.keys():
            self.ends[queue] = [each + self.dice.randint(0, 3) for each in self.ends[queue]]
        name = self.dice.choice(list(self.shape))
        if name in self.begun:
            self.begun.discard(name)
            return
        last = self.positions[name][-1] if self.positions[name] else {}
        read = {}
        for queue in self.shape[name]:
            low = last.get(queue, [0] * PARTITIONS)
            ends = zip(low, self.ends[queue], strict=True)
            read[queue] = [self.dice.randint(first, end) for first, end in ends]
        self.positions[name].append(read)
        if self.dice.random() < 0.8:  # else the batch has no rows, and the queue has no commit
            self.ends[name] = [each + self.dice.randint(0, 3) for each in self.ends[name]]
        self.after[name].append(list(self.ends[name]))
        if self.dice.random() < 0.5:
            self.begun.add(name)

    def batches(self, query: str) -> Sequence[int]:
        done = len(self.positions[query]) - (query in self.begun)
        return range(max(0, done - self.kept), done)

    def read(self, query: str, batch: int, queue: str) -> Offsets:
        return dict(enumerate(self.positions[query][batch][queue[1:]]))

    def written(self, query: str, batch: int | None) -> Offsets:
        return dict(enumerate(self.after[query][0 if batch is None else batch + 1]))


def faults(model: Model, graph: Graph, cut: dict[str, int | None]) -> list[str]:
    """Of the plain definition: reads of what is not inside."""
    found = []
    for name, batch in cut.items():
        for queue in graph.reads(name):
            if batch is None or queue not in graph.writers:
                continue
            limit = model.written(graph.writers[queue], cut[graph.writers[queue]])
            read = model.read(name, batch, queue)
            if any(read[number] > limit[number] for number in read):
                found.append(f"{name}: has read {read} of {queue}, which has {limit}")
    return found


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32), st.integers(1, 60))
def test_a_cut_is_consistent_and_no_later_one_is(shape: str, seed: int, steps: int) -> None:
    graph = graph_of(SHAPES[shape])
    model = Model(SHAPES[shape], random.Random(seed), 10_000)
    for _ in range(steps):
        model.step()
    cut = latest_cut(graph, model)
    assert cut is not None
    assert faults(model, graph, cut) == []
    for name, batch in cut.items():
        done = list(model.batches(name))
        later = [each for each in done if batch is None or each > batch]
        for each in later:
            assert faults(model, graph, {**cut, name: each}), f"{name} could be at {each}"


@given(st.integers(0, 2**32))
def test_where_a_query_cannot_go_back_so_far_there_is_no_cut(seed: int) -> None:
    graph = graph_of(SHAPES["diamond"])
    model = Model(SHAPES["diamond"], random.Random(seed), 1)
    for _ in range(60):
        model.step()
        cut = latest_cut(graph, model)
        if cut is not None:
            assert faults(model, graph, cut) == []
            assert all(
                batch is not None or not model.batches(name) or model.batches(name)[0] == 0
                for name, batch in cut.items()
            )


def test_a_cut_that_does_not_look_upstream_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: each query at its last batch."""
    monkeypatch.setattr(cuts, "is_below", lambda read, limit: True)
    graph, seen = graph_of(SHAPES["diamond"]), 0
    for seed in range(20):
        model = Model(SHAPES["diamond"], random.Random(seed), 10_000)
        for _ in range(40):
            model.step()
        cut = latest_cut(graph, model)
        assert cut is not None
        seen += bool(faults(model, graph, cut))
    assert seen > 5
