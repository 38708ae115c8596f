"""The exact dynamic program, the paper's Algorithm 4: for some twenty queries."""

from __future__ import annotations

import heapq
import time

import numpy as np

from cec_store.recovery_plans.membership import Bools
from cec_store.recovery_plans.outage import EQUAL, Outage
from cec_store.recovery_plans.plans import Plan, checked_room, plan_of

LOOK_EVERY = 1024
"""Plans between two looks at the clock."""


def dynamic_program(outage: Outage, room: float, *, limit_s: float = 60.0) -> Plan:
    """The plan of the largest sum of priorities, by Algorithm 4.

    The resources in use grow, and each plan that costs as much grows by each query. The paper adds
    one unit at a time; here the next amount is that of the next plan, as costs need not be whole
    numbers. Plans of the same blocks are one, and the best is kept, which the paper's listing
    removes with all others once it has grown.

    Raises:
        TimeoutError: it takes longer; plans double with each query.
        ValueError: a room below 0.
    """
    end_s = time.monotonic() + limit_s
    most = checked_room(room) * (1 + EQUAL)
    queries = [
        (sum(1 << block for block in outage.needs.of(number).tolist()), float(priority))
        for number, priority in enumerate(outage.priority)
    ]
    costs = outage.cost.tolist()
    candidates, seen = [(0.0, 0)], {0}
    best_value, best = -1.0, 0
    grown = 0
    while candidates:
        usage, blocks = heapq.heappop(candidates)
        value = 0.0
        for needs, priority in queries:
            if not needs & ~blocks:
                value += priority
            elif (union := blocks | needs) not in seen:
                seen.add(union)
                cost = usage + _cost(needs & ~blocks, costs)
                if cost <= most:
                    heapq.heappush(candidates, (cost, union))
        if value > best_value:
            best_value, best = value, blocks
        grown += 1
        if grown % LOOK_EVERY == 0 and time.monotonic() > end_s:
            raise TimeoutError(f"no plan for {len(queries)} queries within {limit_s:g} s")
    chosen: Bools = np.array([not needs & ~best for needs, _ in queries], np.bool_)
    return plan_of(outage, outage.taken(chosen), room)


def _cost(blocks: int, costs: list[float]) -> float:
    total = 0.0
    while blocks:
        lowest = blocks & -blocks
        total += costs[lowest.bit_length() - 1]
        blocks ^= lowest
    return total
