"""Plans that grow by the query of the largest profit density that fits: many at once, as arrays.

The profit density of a query (Definition 3) is its priority over the sum of c / f: what each
partition that it still lacks costs, divided by how many failed queries share it. When a plan takes
a query, cost and density change only for queries that share a partition with it, and only those are
touched. The number of queries that share a lacking partition never changes, because no query that
needs it has been taken.
"""

from __future__ import annotations

import numpy as np

from cec_store.recovery_plans.membership import Bools, Floats, Ints
from cec_store.recovery_plans.outage import EQUAL, NONE, Outage

OPEN = -1
"""Mark in place of a step: the plan does not have the query."""


class GrowingPlans:
    """A number of plans for one outage; each begins empty."""

    def __init__(
        self, outage: Outage, room: float, count: int = 1, allowed: Bools | None = None
    ) -> None:
        """All of them have the same room; others than ``allowed`` are taken only for nothing."""
        shape = count, len(outage.queries)
        self._outage = outage
        self._share = outage.cost / outage.sharers.sizes
        self._allowed = np.ones(shape[1], np.bool_) if allowed is None else allowed
        self._slack = EQUAL * room if np.isfinite(room) else 0.0
        self._room = np.full(count, float(room))
        self._covered = np.zeros((count, len(outage.cost)), np.bool_)
        # Cost, sum of c / f, and number of blocks that each query still lacks in each plan.
        self._cost = np.tile(outage.query_cost, (count, 1))
        self._weight = np.tile(outage.weight, (count, 1))
        self._lacks = np.tile(outage.needs.sizes, (count, 1))
        self._steps = 0
        self.step = np.full(shape, OPEN, np.int64)
        """Step at which each plan took each query; shape (plans, queries)."""

    @property
    def chosen(self) -> Bools:
        """True where a plan has taken a query, shape (plans, queries)."""
        chosen: Bools = self.step != OPEN
        return chosen

    @property
    def values(self) -> Floats:
        """Sum of the priorities of each plan's queries, shape (plans,)."""
        values: Floats = self.chosen @ self._outage.priority
        return values

    @property
    def costs(self) -> Floats:
        """Cost of all blocks that each plan covers, shape (plans,)."""
        costs: Floats = self._covered @ self._outage.cost
        return costs

    def begin(self, queries: Ints) -> None:
        """Take a query in each plan, unless it is `NONE` or does not fit."""
        rows = np.flatnonzero(queries != NONE)
        fit = self._cost[rows, queries[rows]] <= self._room[rows] + self._slack
        # A plan may have the query already, if another one needs all that this one does.
        new = fit & (self.step[rows, queries[rows]] == OPEN)
        self._take(rows[new], queries[rows[new]])

    def extend(self) -> None:
        """Take queries until nothing more fits into any plan."""
        while True:
            best = self._densest()
            rows = np.flatnonzero(best != NONE)
            if not len(rows):
                return
            self._take(rows, best[rows])

    def _densest(self) -> Ints:
        """Return the query that each plan takes next, or NONE; shape (plans,)."""
        if not self.step.size:
            return np.full(len(self.step), NONE, np.int64)
        fits = self._cost <= (self._room + self._slack)[:, None]
        fits &= self.step == OPEN
        fits &= self._allowed
        density = np.full(self.step.shape, np.inf)
        with np.errstate(over="ignore"):
            np.divide(self._outage.priority, self._weight, out=density, where=self._weight > 0)
        density[~fits] = -1.0
        best: Ints = np.argmax(density, axis=1).astype(np.int64)
        best[density[np.arange(len(best)), best] < 0] = NONE
        return best

    def _take(self, rows: Ints, queries: Ints) -> None:
        """A query in each of these plans."""
        outage = self._outage
        self.step[rows, queries] = self._steps
        self._room[rows] -= np.maximum(self._cost[rows, queries], 0.0)
        places, blocks = outage.needs.gathered(queries)
        plans = rows[places]
        new = ~self._covered[plans, blocks]
        plans, blocks = plans[new], blocks[new]
        self._covered[plans, blocks] = True
        places, sharers = outage.sharers.gathered(blocks)
        cells, blocks = plans[places] * self.step.shape[1] + sharers, blocks[places]
        for lacking, amount in ((self._cost, outage.cost), (self._weight, self._share)):
            lost = np.bincount(cells, amount[blocks], lacking.size)
            lacking -= lost.reshape(lacking.shape)
        self._lacks -= np.bincount(cells, minlength=self._lacks.size).reshape(self._lacks.shape)
        # Queries whose blocks have all been recovered for others are done at this step, and are no
        # longer candidates.
        self.step[(self._lacks == 0) & (self.step == OPEN)] = self._steps
        self._steps += 1


def density_order(outage: Outage, chosen: Bools) -> Ints:
    """Return these queries, the densest first: each as if those before it were back."""
    plans = GrowingPlans(outage, np.inf, allowed=chosen)
    plans.extend()
    queries = np.flatnonzero(chosen)
    step = plans.step[0, queries]
    order = np.lexsort((queries, -outage.priority[queries], step))
    return queries[order].astype(np.int64)
