"""Topologies, failures and room drawn by hypothesis; and what is right, found the long way."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from hypothesis import strategies as st

from cec_store.recovery_plans import Operator, Outage, Partition, Topology

Partitions = frozenset[Partition]


@dataclass(frozen=True, eq=False)
class Case:
    """Some partitions of a topology have failed, and there is room for some of them."""

    operators: tuple[Operator, ...]
    topology: Topology
    failed: Partitions
    room: float

    @cached_property
    def outage(self) -> Outage:
        return Outage.of(self.topology, self.failed)

    @cached_property
    def needs(self) -> dict[Partition, Partitions]:
        """Of each failed query, the failed partitions that it needs."""
        found = {output: upstream(self.operators, output) & self.failed
                 for output in outputs(self.operators)}  # fmt: skip
        return {output: needed for output, needed in found.items() if needed}

    @cached_property
    def priority(self) -> dict[Partition, float]:
        return outputs(self.operators)

    def cost(self, partitions: Iterable[Partition]) -> float:
        costs = {each.name: each.costs for each in self.operators}
        return sum(costs[each.operator][each.number] for each in partitions)

    def back(self, recovered: Iterable[Partition]) -> set[Partition]:
        """Queries that lack nothing once these are recovered."""
        there = set(recovered)
        return {output for output, needed in self.needs.items() if needed <= there}

    def value(self, recovered: Iterable[Partition]) -> float:
        return sum(self.priority[each] for each in self.back(recovered))

    def best(self, room: float | None = None) -> float:
        """The largest sum of priorities that fits, of all sets of queries."""
        room = self.room if room is None else room
        needs = list(self.needs.values())
        sets = chain.from_iterable(combinations(needs, n) for n in range(len(needs) + 1))
        unions = (frozenset().union(*each) for each in sets)
        return max(self.value(each) for each in unions if self.cost(each) <= room)


def outputs(operators: Iterable[Operator]) -> dict[Partition, float]:
    """Output partitions, and the priorities of their queries."""
    operators = list(operators)
    read = {name for each in operators for name in each.reads}
    return {
        Partition(each.name, number): each.priorities[number] if each.priorities else 1.0
        for each in operators
        if each.priorities or each.name not in read
        for number in range(len(each.costs))
    }


def upstream(operators: Iterable[Operator], output: Partition) -> Partitions:
    """Definition 1, step by step."""
    named = {each.name: each for each in operators}
    found, todo = {output}, [output]
    while todo:
        name, number = todo.pop()
        for other in named[name].reads:
            every = range(len(named[other].costs))
            for each in [number] if named[name].aligned else every:
                if (new := Partition(other, each)) not in found:
                    found.add(new)
                    todo.append(new)
    return frozenset(found)


def made(seed: int, queries_max: int = 7) -> Case:
    """Costs are quarters, so that sums are exact; some are 0."""
    random = np.random.default_rng(seed)
    operators: list[Operator] = []
    for n in range(random.integers(2, 8)):
        width = int(random.choice([1, 1, 2, 3]))
        names = [each.name for each in operators]
        read = [name for name in names if random.random() < 0.4]
        same = all(len(operators[names.index(name)].costs) == width for name in read)
        costs = tuple((random.integers(0, 13, width) / 4).tolist())
        seen = tuple(random.integers(1, 11, width).astype(float).tolist())
        is_output = random.random() < 0.5
        aligned = bool(same and random.random() < 0.5)
        operators.append(Operator(f"o{n}", costs, tuple(read), seen if is_output else (), aligned))
        if len(outputs(operators)) > queries_max:
            operators.pop()
    topology = Topology.of([operators[each] for each in random.permutation(len(operators))])
    share = random.choice([0.3, 0.7, 1.0])
    failed = frozenset(each for each in topology.partitions if random.random() < share)
    case = Case(tuple(operators), topology, failed, 0.0)
    room = int(4 * case.cost(failed) * random.random()) / 4
    return Case(case.operators, topology, failed, room)


def cases(queries_max: int = 7) -> st.SearchStrategy[Case]:
    return st.integers(0, 1_000_000).map(lambda seed: made(seed, queries_max))
