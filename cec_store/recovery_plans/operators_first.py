"""Operator-centric recovery: what systems do that know operators and not queries; a yardstick."""

from __future__ import annotations

import numpy as np

from cec_store.recovery_plans.outage import EQUAL, Outage
from cec_store.recovery_plans.plans import Plan, checked_room, plan_of


def operator_centric(outage: Outage, room: float) -> Plan:
    """Return a plan in topological order, the cheapest first: the OC of the paper's section 7.

    Partitions of the same depth are recovered by cost, then those of the next. One that does not
    fit is passed over, and with it all that reads it.

    Raises:
        ValueError: a room below 0.
    """
    topology, failed = outage.topology, outage.failed
    cost, depth = topology.cost[failed], topology.depth[failed]
    is_up = np.ones(len(topology.partitions), np.bool_)
    is_up[failed] = False
    taken = np.zeros(len(failed), np.bool_)
    left, slack = checked_room(room), room * EQUAL if np.isfinite(room) else 0.0
    for number in np.lexsort((failed, cost, depth)).tolist():
        place = int(failed[number])
        if cost[number] <= left + slack and is_up[topology.upstream.of(place)].all():
            is_up[place] = taken[number] = True
            left -= float(cost[number])
    return plan_of(outage, taken, room)
