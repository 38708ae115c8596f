"""Jobs of the paper's section 7.3: operators, where they begin, and what their key groups load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cec_store.placement.layout import Floats, Layout
from cec_store.placement.plans import Nodes


@dataclass(frozen=True, eq=False)
class OperatorLoad:
    """Recorded rows of one operator.

    Raises:
        ValueError: rows of another shape, or no node.
    """

    name: str
    rows_per_s: Floats
    """Shape (groups, steps)."""
    row_s: float
    """Seconds of a processor for one row."""
    nodes: tuple[int, ...]
    """Nodes on which its groups begin, the same number on each as far as that goes."""
    state_row_bytes: float = 0.0
    """Bytes by which each row makes the state larger."""

    def __post_init__(self) -> None:
        if self.rows_per_s.ndim != 2 or not self.nodes:
            raise ValueError(f"{self.name}: rows of shape {self.rows_per_s.shape}, or no node")


@dataclass(frozen=True, eq=False)
class Job:
    """Input of a simulation; a step is ``interval_s`` long."""

    layout: Layout
    """Layout at the start, without copies."""
    nodes: Nodes
    interval_s: float
    loads: Floats
    """Shares of a node; shape (groups, steps)."""
    rows_per_s: Floats
    row_s: Floats
    """Shape (groups,)."""
    state_bytes: Floats
    """Bytes of state at the end of each step; shape (groups, steps)."""


def job_of(
    operators: Sequence[OperatorLoad],
    nodes: Nodes,
    interval_s: float,
    random: np.random.Generator | None = None,
) -> Job:
    """Groups are dealt out to their operator's nodes, in an order that ``random`` shuffles.

    Raises:
        ValueError: no operators, of different numbers of steps, or a node that is not there.
    """
    if not operators or len({operator.rows_per_s.shape[1] for operator in operators}) > 1:
        raise ValueError("give operators that were recorded for the same time")
    count = len(nodes.capacity)
    owner: list[int] = []
    names: list[str] = []
    for operator in operators:
        groups = len(operator.rows_per_s)
        order = np.arange(groups) if random is None else random.permutation(groups)
        owner += [operator.nodes[place % len(operator.nodes)] for place in order.tolist()]
        names += [f"{operator.name}, {group}" for group in range(groups)]
    if not 0 <= min(owner) <= max(owner) < count:
        raise ValueError(f"there are {count} nodes; an operator begins at another")
    rows = np.concatenate([operator.rows_per_s for operator in operators])
    row_s = np.concatenate(
        [np.full(len(operator.rows_per_s), operator.row_s) for operator in operators]
    )
    grown = [
        np.cumsum(operator.rows_per_s, axis=1) * interval_s * operator.state_row_bytes
        for operator in operators
    ]
    layout = Layout(
        tuple(names),
        tuple(f"node {number}" for number in range(count)),
        np.array(owner, np.int64),
        np.zeros((len(names), 0), np.int64),
    )
    return Job(layout, nodes, interval_s, rows * row_s[:, None], rows, row_s, np.concatenate(grown))


TWO_OPERATORS_OVERLOAD = 0.7


def two_operators(steps: int = 100, groups: int = 10, share: float = 0.6) -> Job:
    """The case with correlation -1, whose allocations can be deduced (7.2).

    A second is a step; in each, one per cent more of the input goes to operator 2. Nodes 0 and 2
    have 70 % of other load, which is all that they may have. Node 3 is the control node: it takes
    no groups, but its part of evenly distributed copies.

    Args:
        share: of a node that all of the input takes.
    """
    moved = np.arange(1, steps + 1) / steps
    rates = (np.tile(1 - moved, (groups, 1)), np.tile(moved, (groups, 1)))
    row_s = share / groups
    operators = [
        OperatorLoad(f"operator {number}", rate, row_s, (number,))
        for number, rate in enumerate(rates, 1)
    ]
    nodes = Nodes(
        np.array([1.0, 1.0, 1.0, 0.0]),
        np.array([TWO_OPERATORS_OVERLOAD, 0.0, TWO_OPERATORS_OVERLOAD, 0.0]),
        np.zeros(4, np.bool_),
    )
    return job_of(operators, nodes, 1.0)
