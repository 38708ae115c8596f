"""Places of key groups and their copies on nodes, and moves of groups: pure, from loads to plans.

Algorithms, constraints and figures are those of Madsen and Zhou, *Dynamic Resource Management in a
Massively Parallel Stream Processing Engine* (2015); docs/placement.md.
"""

from cec_store.placement.adaptation import plan
from cec_store.placement.allocation import (
    baseline,
    correlated,
    even,
    least_spread,
    room_of_a_node,
)
from cec_store.placement.drafting import usable_copies
from cec_store.placement.layout import Layout, violations
from cec_store.placement.loads import LoadHistory, Reading, correlations, costs, score
from cec_store.placement.optimum import optimum
from cec_store.placement.plans import Move, Nodes, Plan, Rules
from cec_store.placement.protocols import Cost, Group, Links, Protocol, cost
from cec_store.placement.updating import CopyMove, Update, updated

__all__ = [
    "CopyMove",
    "Cost",
    "Group",
    "Layout",
    "Links",
    "LoadHistory",
    "Move",
    "Nodes",
    "Plan",
    "Protocol",
    "Reading",
    "Rules",
    "Update",
    "baseline",
    "correlated",
    "correlations",
    "cost",
    "costs",
    "even",
    "least_spread",
    "optimum",
    "plan",
    "room_of_a_node",
    "score",
    "updated",
    "usable_copies",
    "violations",
]
