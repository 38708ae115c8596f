"""Query networks: what a node runs, what each tuple costs it, which outputs come of which input.

Tuples stand in arrays and are known by their numbers in the node's input.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cec_store.operators.taxonomy import NetworkType

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Operator:
    """A filter or a union that passes every tuple on, or an aggregate over windows of time."""

    type: NetworkType = NetworkType.REPEATABLE
    window_s: float = 0.0
    """0: it has no windows, and no state."""
    advance_s: float = 0.0
    extra_s: float = 0.0
    """Seconds of the processor for each tuple, beside those of its windows."""

    @property
    def windows(self) -> float:
        """Windows that a tuple is in, and that are open at a time; 1 without windows (Table 5)."""
        return self.window_s / self.advance_s if self.window_s else 1.0


@dataclass(frozen=True)
class Network:
    """A chain of operators between one output stream and the input streams."""

    name: str
    operators: tuple[Operator, ...]
    streams: int = 1
    refills: bool = True
    """True if windows open one after the other from an empty state; else all are open at once."""

    @property
    def type(self) -> NetworkType:
        """The operators' type that comes last in :class:`NetworkType`."""
        order = list(NetworkType)
        return max((operator.type for operator in self.operators), key=order.index)

    @property
    def stateful(self) -> tuple[Operator, ...]:
        """Operators that have windows."""
        return tuple(operator for operator in self.operators if operator.window_s)

    def with_extra(self, extra_s: float) -> Network:
        """Each aggregate takes more for a tuple than Table 5 says."""
        operators = tuple(
            replace(operator, extra_s=extra_s) if operator.window_s else operator
            for operator in self.operators
        )
        return replace(self, operators=operators)


def filter_network() -> Network:
    """Return a network of one filter."""
    return Network("filter", (Operator(),))


def union_network() -> Network:
    """Two streams of half the rate each."""
    return Network("union", (Operator(NetworkType.ARBITRARY),), streams=2)


def aggregate_network(
    window_s: float = 0.100, advance_s: float = 0.010, operators: int = 1
) -> Network:
    """A chain of aggregates, one by default."""
    operator = Operator(NetworkType.CONVERGENT, window_s, advance_s)
    return Network("aggregate", (operator,) * operators)


@dataclass(frozen=True)
class Stage:
    """The tuples between two operators, in order."""

    time_s: Floats
    """Their timestamps."""
    low: Ints
    """The oldest input that is needed to make each again: the low watermark."""
    by: Ints
    """The input whose processing put each out: the high watermark."""

    def count_by(self, processed: int) -> int:
        """Return how many are out once so many inputs are processed."""
        return int(np.searchsorted(self.by, processed))


@dataclass(frozen=True)
class Processing:
    """Tuples that some input causes, beginning with an empty state."""

    stages: tuple[Stage, ...]
    """The input, then what each operator puts out."""
    cost_s: Floats
    """Seconds of the processor for each input, with the work that it causes further down."""
    operators: tuple[Operator, ...] = field(repr=False)

    @property
    def output(self) -> Stage:
        """Stage of the last operator's output."""
        return self.stages[-1]

    def oldest_needed(self, number: int, processed: int) -> int:
        """The oldest tuple that an operator's state holds, as an index of its input's stage."""
        operator, before = self.operators[number], self.stages[number]
        if not operator.window_s:
            return before.count_by(processed)
        after = self.stages[number + 1]
        closed = after.count_by(processed)
        if not closed:
            return 0
        begins = after.time_s[closed - 1] + operator.advance_s - operator.window_s
        return int(np.searchsorted(before.time_s, begins - 1e-9))

    def oldest_in_state(self, processed: int) -> int:
        """The oldest input that any operator's state goes back to."""
        first = processed
        for number, stage in enumerate(self.stages[:-1]):
            oldest = self.oldest_needed(number, processed)
            if oldest < stage.count_by(processed):
                first = min(first, int(stage.low[oldest]))
        return first


def process(network: Network, time_s: Floats, window_tuple_s: float) -> Processing:
    """Run a network over input tuples with these timestamps."""
    count = len(time_s)
    numbers = np.arange(count, dtype=np.int64)
    stages = [Stage(time_s, numbers, numbers)]
    cost_s = np.zeros(count)
    for operator in network.operators:
        before = stages[-1]
        seconds = window_tuple_s * _windows_of(operator, before.time_s, network.refills)
        weights = seconds + operator.extra_s
        cost_s += np.bincount(before.by, weights=weights, minlength=count)[:count]
        stages.append(_closed(operator, before, network.refills) if operator.window_s else before)
    return Processing(tuple(stages), cost_s, network.operators)


def _windows_of(operator: Operator, time_s: Floats, refills: bool) -> Floats:
    """Return the number of open windows that each tuple goes into."""
    most = np.full(len(time_s), operator.windows)
    if not operator.window_s or not refills or not len(time_s):
        return most
    first = np.floor(time_s[0] / operator.advance_s + 1e-9)
    open_windows = np.floor(time_s / operator.advance_s + 1e-9) - first + 1
    in_windows: Floats = np.minimum(open_windows, most)
    return in_windows


def _closed(operator: Operator, before: Stage, refills: bool) -> Stage:
    """The results of an aggregate: a window closes with the first tuple at or after its end."""
    if not len(before.time_s):
        return before
    advance_s, window_s = operator.advance_s, operator.window_s
    first = np.floor(before.time_s[0] / advance_s + 1e-9)
    ends = np.arange(first, np.floor(before.time_s[-1] / advance_s + 1e-9) + 1) * advance_s
    ends = ends[1:] if not refills else ends[ends >= first * advance_s + window_s - 1e-9]
    # Boundaries and timestamps are sums of floats, so equal moments may differ by rounding.
    closing = np.searchsorted(before.time_s, ends - 1e-9)
    oldest = np.searchsorted(before.time_s, ends - window_s - 1e-9)
    filled = closing > oldest
    ends, closing, oldest = ends[filled], closing[filled], oldest[filled]
    return Stage(ends, before.low[oldest], before.by[closing])
