"""Operators, their partitions, and what the output of each query rests on: the paper's section 2.

A partition is the least that can be recovered; on Spark it may be a whole query of a fleet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np

from cec_store.recovery_plans.membership import Floats, Ints, Membership

PRIORITY = 1.0
"""Priority of a query for which none is given."""


class Partition(NamedTuple):
    """One of the parts in which an operator runs; a query goes by its output partition."""

    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.operator}/{self.number}"


@dataclass(frozen=True)
class Operator:
    """Operators that make up a topology, each with its partitions.

    Raises:
        ValueError: no partition, a cost below 0, or priorities that are none.
    """

    name: str
    costs: tuple[float, ...] = (1.0,)
    """Cost of each partition, in the unit of the nodes' capacities."""
    reads: tuple[str, ...] = ()
    """Operators whose output it takes."""
    priorities: tuple[float, ...] = ()
    """Priority of each partition's output, where users see it.

    Without any, an output is seen only if no operator reads it, and its priority is 1.
    """
    aligned: bool = False
    """True if a partition reads only those of its own number, not all."""

    def __post_init__(self) -> None:
        if not self.costs or not all(0 <= value < math.inf for value in self.costs):
            raise ValueError(f"{self.name}: costs {self.costs}; give one of at least 0 a partition")
        if self.priorities and len(self.priorities) != len(self.costs):
            raise ValueError(
                f"{self.name}: {len(self.costs)} partitions, {len(self.priorities)} priorities"
            )
        if not all(0 < value < math.inf for value in self.priorities):
            raise ValueError(f"{self.name}: priorities {self.priorities} have to be above 0")


@dataclass(frozen=True, eq=False)
class Topology:
    """Partitions and queries are known by their place in these arrays; `of` makes one."""

    partitions: tuple[Partition, ...]
    """Each after all that it reads."""
    cost: Floats
    depth: Ints
    """Number of partitions before each one on the longest way from a source."""
    upstream: Membership
    """Partitions that each partition reads."""
    outputs: Ints
    """Output partition of each query."""
    priority: Floats
    """Priority of each query."""

    @classmethod
    def of(cls, operators: Iterable[Operator]) -> Topology:
        """Build a topology from operators in any order.

        Raises:
            ValueError: a name that is given twice or names no operator, a cycle, or aligned
                operators with different numbers of partitions.
        """
        ordered = _ordered(list(operators))
        read = {name for operator in ordered for name in operator.reads}
        partitions: list[Partition] = []
        depths: list[int] = []
        edges: list[tuple[Ints, Ints]] = []
        outputs: list[int] = []
        priority: list[float] = []
        known: dict[str, tuple[Operator, int, int]] = {}
        for operator in ordered:
            first, count = len(partitions), len(operator.costs)
            before = [known[name] for name in dict.fromkeys(operator.reads)]
            depth = 1 + max((depth_before for _, _, depth_before in before), default=-1)
            known[operator.name] = operator, first, depth
            partitions += [Partition(operator.name, number) for number in range(count)]
            depths += [depth] * count
            edges += [_edges(operator, first, *other[:2]) for other in before]
            if operator.priorities or operator.name not in read:
                outputs += range(first, first + count)
                priority += operator.priorities or (PRIORITY,) * count
        none = np.zeros(0, np.int64)
        return cls(
            tuple(partitions),
            np.array([cost for operator in ordered for cost in operator.costs], np.float64),
            np.array(depths, np.int64),
            Membership.of_pairs(
                np.concatenate([none, *(targets for targets, _ in edges)]),
                np.concatenate([none, *(sources for _, sources in edges)]),
                len(partitions),
            ),
            np.array(outputs, np.int64),
            np.array(priority, np.float64),
        )

    @cached_property
    def index(self) -> dict[Partition, int]:
        """Place of each partition in :attr:`partitions`."""
        return {partition: place for place, partition in enumerate(self.partitions)}

    @cached_property
    def needed_by(self) -> tuple[int, ...]:
        """Queries that each partition belongs to by Definition 1; query n is bit n.

        Sets of queries as whole numbers, since one passes them upstream in a single operation.
        """
        needed = [0] * len(self.partitions)
        for query, partition in enumerate(self.outputs.tolist()):
            needed[partition] |= 1 << query
        starts, members = self.upstream.starts.tolist(), self.upstream.members.tolist()
        for partition in range(len(needed) - 1, -1, -1):
            if queries := needed[partition]:
                for other in members[starts[partition] : starts[partition + 1]]:
                    needed[other] |= queries
        return tuple(needed)

    def query(self, output: Partition) -> frozenset[Partition]:
        """The query partition of an output partition, Definition 1: itself and all upstream.

        Raises:
            ValueError: no query has this output.
        """
        place = np.flatnonzero(self.outputs == self.index.get(output, -1))
        if not len(place):
            raise ValueError(f"{output} is no query's output")
        bit = 1 << int(place[0])
        return frozenset(
            partition
            for partition, queries in zip(self.partitions, self.needed_by, strict=True)
            if queries & bit
        )


def _ordered(operators: list[Operator]) -> list[Operator]:
    """Each after all that it reads."""
    named = {operator.name: operator for operator in operators}
    if len(named) < len(operators):
        raise ValueError("an operator is named twice")
    for operator in operators:
        if missing := [name for name in operator.reads if name not in named]:
            raise ValueError(f"{operator.name} reads {missing[0]}, which is no operator")
    try:
        order = TopologicalSorter(
            {operator.name: operator.reads for operator in operators}
        ).static_order()
        return [named[name] for name in order]
    except CycleError as error:
        raise ValueError(f"operators read each other: {' -> '.join(error.args[1])}") from None


def _edges(reader: Operator, first: int, source: Operator, source_first: int) -> tuple[Ints, Ints]:
    """Return, for each pair of partitions, the one that reads and the one that is read."""
    count, source_count = len(reader.costs), len(source.costs)
    numbers = np.arange(count, dtype=np.int64)
    if not reader.aligned:
        others = np.arange(source_count, dtype=np.int64)
        return np.repeat(first + numbers, source_count), np.tile(source_first + others, count)
    if count != source_count:
        raise ValueError(
            f"{reader.name} is aligned and has {count} partitions, {source.name} has {source_count}"
        )
    return first + numbers, source_first + numbers
