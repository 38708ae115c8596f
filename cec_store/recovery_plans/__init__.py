"""Plans for recovery after many nodes have failed: which queries first, and where. Pure functions.

Problem, algorithms and names are those of Su and Zhou, *Incremental Recovery in Distributed Stream
Processing Systems*, and of the short paper before it, *Progressive Recovery of Correlated Failures
in Distributed Stream Processing Engines*; docs/recovery-plans.md.
"""

from cec_store.recovery_plans.assignment import Assignment, Nodes, assign
from cec_store.recovery_plans.density import best_density, greedy
from cec_store.recovery_plans.dynamic import dynamic_program
from cec_store.recovery_plans.operators_first import operator_centric
from cec_store.recovery_plans.optimum import optimum
from cec_store.recovery_plans.outage import Outage
from cec_store.recovery_plans.plans import Plan, Planner, catch_up_order, violations
from cec_store.recovery_plans.succession import Step, next_step, succession
from cec_store.recovery_plans.topology import Operator, Partition, Topology

__all__ = [
    "Assignment",
    "Nodes",
    "Operator",
    "Outage",
    "Partition",
    "Plan",
    "Planner",
    "Step",
    "Topology",
    "assign",
    "best_density",
    "catch_up_order",
    "dynamic_program",
    "greedy",
    "next_step",
    "operator_centric",
    "optimum",
    "succession",
    "violations",
]
