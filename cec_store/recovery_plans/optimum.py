"""The exact optimum by branch and bound (HiGHS), where Algorithm 4 is too slow."""

from __future__ import annotations

import numpy as np

from cec_store.recovery_plans.outage import EQUAL, Outage
from cec_store.recovery_plans.plans import Plan, checked_room, plan_of

_TOLERANCE = 1e-6
"""Amount by which HiGHS may exceed a constraint."""


def optimum(outage: Outage, room: float, *, limit_s: float = 60.0) -> Plan:
    """The plan of the largest sum of priorities.

    A 0 or 1 for each query, and for each block a number that is at least that of every query that
    needs it. HiGHS as in SciPy 1.17 now and then prints a line of its own (``tmpSolver.run``) to
    standard output; no way to put the problem was found that keeps it silent.

    Sums that are above the room by less than the solver's tolerance are taken for no plan.

    Raises:
        TimeoutError: none was proven to be the best in time.
        ValueError: a room below 0.
        ImportError: without SciPy, which is the extra ``optimum``.
    """
    most = checked_room(room) * (1 + EQUAL)
    plan = _solved(outage, room, 1.0, limit_s)
    return plan if plan.cost <= most else _solved(outage, room, 1 - 2 * _TOLERANCE, limit_s)


def _solved(outage: Outage, room: float, share: float, limit_s: float) -> Plan:
    """Return the best plan within a share of the room, or above it by the solver's tolerance."""
    import scipy.optimize
    import scipy.sparse

    queries, blocks = len(outage.queries), len(outage.cost)
    if not queries:
        return plan_of(outage, np.zeros(len(outage.failed), np.bool_), room)
    pairs = len(outage.needs.members)
    rows = np.tile(np.arange(pairs), 2)
    columns = np.concatenate([outage.needs.rows, queries + outage.needs.members])
    values = np.repeat([1.0, -1.0], pairs)
    needs = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(pairs, queries + blocks))
    constraints = [scipy.optimize.LinearConstraint(needs, -np.inf, 0.0)]
    if np.isfinite(room):
        # In shares of the room, since the solver's tolerance is absolute.
        unit = room or 1.0
        cost = np.concatenate([np.zeros(queries), outage.cost / unit])[None, :]
        constraints.append(scipy.optimize.LinearConstraint(cost, -np.inf, share * room / unit))
    solution = scipy.optimize.milp(
        np.concatenate([-outage.priority, np.zeros(blocks)]),
        integrality=np.concatenate([np.ones(queries), np.zeros(blocks)]),
        # Of what does not fit alone, not even within the solver's tolerance.
        bounds=scipy.optimize.Bounds(
            0, np.append(outage.query_cost <= room * (1 + EQUAL), np.ones(blocks))
        ),
        constraints=constraints,
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    if solution.status != 0:
        raise TimeoutError(
            f"no optimum of {queries} queries within {limit_s:g} s: {solution.message}"
        )
    return plan_of(outage, outage.taken(solution.x[:queries] > 0.5), room)
