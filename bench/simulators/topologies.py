"""Topologies drawn at random, as those of the paper's section 7.3.

It names what its generator varies: the number and size of queries, their priorities, and how many
share a partition. How large its queries are and what partitions cost it does not say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cec_store.recovery_plans.membership import Ints
from cec_store.recovery_plans.topology import Operator, Topology

COST_MAX = 10
PRIORITY_MAX = 10


@dataclass(frozen=True)
class Drawn:
    """Parameters by which a topology is drawn.

    Raises:
        ValueError: a number below 1, or more queries to a partition than there are.
    """

    queries: int = 18
    """Number of queries; the default is the paper's."""
    size: int = 10
    """Partitions of each query, its output among them; they may be shared."""
    sharing_max: int = 3
    """Largest number of queries that share a partition."""
    skew: float | None = None
    """The parameter of a Zipf distribution of sharing; without one every number is as likely."""
    by_workload: bool = False
    """Let priorities grow from 1 to 10 with what queries cost; else they are random."""

    def __post_init__(self) -> None:
        if min(self.queries, self.size, self.sharing_max) < 1 or self.sharing_max > self.queries:
            raise ValueError(f"{self}: no such topology")


def drawn(how: Drawn, random: np.random.Generator) -> Topology:
    """One topology; operators have one partition each, with costs of 1 to 10.

    A partition reads one that all of its queries share as well, if there is any, and the output of
    a query reads all that the query was dealt. So a query needs that, and no more.
    """
    sets = _shared(how, random)
    costs = random.integers(1, COST_MAX + 1, len(sets) + how.queries).astype(np.float64)
    of_query: list[list[int]] = [[] for _ in range(how.queries)]
    operators = []
    for number, queries in enumerate(sets):
        before = [set(of_query[query]) for query in queries]
        common = sorted(set.intersection(*before))
        reads = (int(random.choice(common)),) if common else ()
        for query in queries:
            of_query[query].append(number)
        cost = (float(costs[number]),)
        operators.append(Operator(f"p{number}", cost, tuple(f"p{member}" for member in reads)))
    total = [costs[len(sets) + query] + costs[dealt].sum() for query, dealt in enumerate(of_query)]
    priorities = _priorities(how, _ranks(total), random)
    for query, dealt in enumerate(of_query):
        ends = tuple(f"p{member}" for member in dealt)
        cost = (float(costs[len(sets) + query]),)
        operators.append(Operator(f"q{query}", cost, ends, (float(priorities[query]),)))
    return Topology.of(operators)


def _shared(how: Drawn, random: np.random.Generator) -> list[list[int]]:
    """Return the queries that share each partition, the most shared first, as upstream."""
    left = np.full(how.queries, how.size - 1)
    numbers = np.arange(1, how.sharing_max + 1)
    odds = np.ones(how.sharing_max) if how.skew is None else numbers**-how.skew
    sets = []
    while left.any():
        open_to = np.flatnonzero(left)
        count = min(int(random.choice(numbers, p=odds / odds.sum())), len(open_to))
        queries = random.choice(open_to, count, replace=False)
        left[queries] -= 1
        sets.append(sorted(queries.tolist()))
    return sorted(sets, key=len, reverse=True)


def _priorities(how: Drawn, rank: Ints, random: np.random.Generator) -> Ints:
    if not how.by_workload:
        return random.integers(1, PRIORITY_MAX + 1, how.queries)
    steps = max(1, how.queries - 1)
    return np.rint(1 + (PRIORITY_MAX - 1) * rank / steps).astype(np.int64)


def _ranks(values: list[float]) -> Ints:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
