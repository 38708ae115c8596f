"""BestDensity, Algorithm 3, and the greedy of the short paper."""

from __future__ import annotations

import numpy as np

from cec_store.recovery_plans.extending import GrowingPlans
from cec_store.recovery_plans.membership import Bools, Ints
from cec_store.recovery_plans.outage import EQUAL, NONE, Outage
from cec_store.recovery_plans.plans import Plan, checked_room, plan_of

WORK = 8_000
"""Failed queries times those that are paired: all of 89, 40 of 200, 8 of 1,000. A plan of many
queries takes long to make and depends little on the first two; so all take 0.4 s at most.
"""
PAIRED_MIN = 6
CELLS_MAX = 4_000_000
"""Plans that grow at once, times blocks or queries: it bounds memory."""


def best_density(outage: Outage, room: float, *, paired: int | None = None) -> Plan:
    """Algorithm 3: of the plans that begin with each pair of queries and take the densest that fits
    until none does, the one with the largest sum of priorities.

    Plans also begin with each query alone and with none. The paper has only that which begins with
    the densest; but where the most valuable query fits with no other, its bound does not hold then.

    With all queries paired the plan has at least 1 − e^(−1/d) of the optimum's priorities, where at
    most d queries share a partition (Theorem 5.1); with fewer, at least half of that.

    Args:
        paired: how many of the queries with the highest priorities plans begin with; unless given
            all of up to 89, and fewer the more there are.

    Raises:
        ValueError: a room below 0.
    """
    checked_room(room)
    fits = np.flatnonzero(outage.query_cost <= room * (1 + EQUAL))
    if paired is None:
        paired = max(PAIRED_MIN, WORK // max(1, len(outage.queries)))
    dearest = np.lexsort((outage.query_cost[fits], -outage.priority[fits]))[:paired]
    chosen = _best(outage, room, _beginnings(fits[dearest].astype(np.int64)))
    return plan_of(outage, outage.taken(chosen), room)


def greedy(outage: Outage, room: float) -> Plan:
    """The densest query that fits, until none does: what section 5 of the short paper has.

    Its queries are of whole operators: give each operator one partition for exactly that.

    Raises:
        ValueError: a room below 0.
    """
    chosen = _best(outage, checked_room(room), np.full((1, 2), NONE, np.int64))
    return plan_of(outage, outage.taken(chosen), room)


def _beginnings(queries: Ints) -> Ints:
    """None of these queries, each alone, and each pair; shape (plans, 2)."""
    none = np.full((1, 2), NONE, np.int64)
    alone = np.stack([queries, np.full_like(queries, NONE)], axis=1)
    first, second = np.triu_indices(len(queries), 1)
    return np.concatenate([none, alone, np.stack([queries[first], queries[second]], axis=1)])


def _best(outage: Outage, room: float, beginnings: Ints) -> Bools:
    """Return the queries of the best of these plans, shape (queries,); the cheapest of equals."""
    best, chosen = (-1.0, 0.0), np.zeros(len(outage.queries), np.bool_)
    at_once = max(1, CELLS_MAX // max(1, len(outage.cost), len(outage.queries)))
    for first in range(0, len(beginnings), at_once):
        some = beginnings[first : first + at_once]
        plans = GrowingPlans(outage, room, len(some))
        plans.begin(some[:, 0])
        plans.begin(some[:, 1])
        plans.extend()
        values = plans.values
        densest = int(np.lexsort((plans.costs, -values))[0])
        reached = float(values[densest]), -float(plans.costs[densest])
        if reached > best:
            best, chosen = reached, plans.chosen[densest]
    return chosen
