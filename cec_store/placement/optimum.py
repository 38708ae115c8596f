"""The optimal allocation of copies, exactly: the yardstick for Algorithm 3 on small cases.

The problem is NP-hard (5): some hundred copies take seconds, and thousands may not end. With no
bound on the spread it is no problem at all: each copy goes to its cheapest places.
"""

from __future__ import annotations

import math

import numpy as np

from cec_store.placement.allocation import allowed_places, room_of_a_node
from cec_store.placement.layout import Bools, Floats, Layout
from cec_store.placement.loads import Reading, costs, mean_loads


def optimum(
    layout: Layout,
    loads: Floats,
    copies: int = 1,
    *,
    spread: float = math.inf,
    may_hold: Bools | None = None,
    reading: Reading = Reading.NODE,
    least: float | None = None,
    limit_s: float = 60.0,
) -> Layout:
    """The allocation of the least score under both constraints.

    Arguments as `correlated`.

    Raises:
        ValueError: no allocation holds both constraints.
        TimeoutError: none was proven to be the best in time.
        ImportError: without SciPy, which is the extra ``optimum``.
    """
    import scipy.optimize
    import scipy.sparse

    allowed = allowed_places(layout, copies, may_hold)
    groups, nodes = allowed.shape
    if not groups or not copies:
        return layout.with_holders(np.zeros((groups, copies), np.int64))
    priced, weights = costs(loads, layout, reading, least), mean_loads(loads)
    # In shares of the greatest, since the solver's tolerances are absolute.
    priced = priced / (np.abs(priced).max() or 1.0)
    # A variable of 0 or 1 for each group and node, so a group's copies are at different nodes.
    each_group = scipy.sparse.kron(scipy.sparse.eye(groups), np.ones((1, nodes)))
    constraints = [scipy.optimize.LinearConstraint(each_group, copies, copies)]
    if not math.isinf(spread):
        taking = nodes if may_hold is None else int(may_hold.sum())
        at_node = scipy.sparse.kron(weights[None, :], scipy.sparse.eye(nodes))
        room = room_of_a_node(weights, copies, taking, spread)
        unit = room or 1.0
        constraints.append(scipy.optimize.LinearConstraint(at_node / unit, -np.inf, room / unit))
    solution = scipy.optimize.milp(
        priced.ravel(),
        integrality=np.ones(groups * nodes),
        bounds=scipy.optimize.Bounds(0, allowed.ravel().astype(np.float64)),
        constraints=constraints,
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    if solution.status == 1:
        raise TimeoutError(f"no optimum of {groups} groups on {nodes} nodes within {limit_s:g} s")
    if solution.status != 0:
        raise ValueError(f"no allocation holds both constraints: {solution.message}")
    chosen = solution.x.reshape(groups, nodes) > 0.5
    return layout.with_holders(np.nonzero(chosen)[1].reshape(groups, copies).astype(np.int64))
