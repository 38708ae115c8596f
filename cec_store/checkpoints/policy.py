"""Policies that decide when a CHECK is worth writing: targets, cost and benefit, a recovery time.

CEC paper, III.A. A policy judges what recovery would have to do, q records to load and u input rows
to replay; :mod:`cec_store.checkpoints.checkpointer` then checks as few of the oldest windows as
satisfy it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cec_store.checkpoints.rates import Rates
from cec_store.format.columns import Bools, Ints


@dataclass(frozen=True)
class Budget:
    """Budget of at most ``interval_ms`` of every ``period_ms`` for CHECKs (the paper's CI and CP).

    Examples:
        >>> Targets(budget=Budget(interval_ms=5, period_ms=100)).budget.interval_ms
        5
    """

    interval_ms: float = 10.0
    period_ms: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.interval_ms <= self.period_ms:
            raise ValueError(
                f"interval_ms={self.interval_ms}, period_ms={self.period_ms}: "
                "needs 0 < interval <= period"
            )


class Policy(Protocol):
    """Judges what a crash now would cost."""

    @property
    def budget(self) -> Budget | None:
        """Time that CHECKs may take; ``None`` for as much as they need."""

    def acceptable(self, q: Ints, u: Ints, open_windows: int, rates: Rates) -> Bools:
        """Return, for each pair of extent (records) and replay length (rows), if it is good enough.

        Once true, it stays true for smaller q and u.
        """

    def attainable(self, open_windows: int) -> bool:
        """``False`` where even checking every window cannot satisfy the policy."""
        return True


@dataclass(frozen=True)
class Never(Policy):
    """No CHECKs: OPEN records alone keep the state recoverable (the paper's baseline).

    Examples:
        >>> with open_queue("averages", "a") as queue:
        ...     runner = Runner(averages(), [source], queue, Never())
    """

    budget: Budget | None = None

    def acceptable(self, q: Ints, u: Ints, open_windows: int, rates: Rates) -> Bools:
        """Return True for every pair, so that no CHECK is written."""
        return np.ones(len(q), np.bool_)


@dataclass(frozen=True)
class Targets(Policy):
    """Q and U (the paper's second method).

    Q is ``extent_records``, or ``extent_factor`` times the open windows but at least
    ``extent_floor``, because loading a thousand records takes no time. U is
    ``replay_rows``. A Q below the number of open windows cannot be met, since each needs a
    record: the open windows are used in its place, and a warning says so.

    Examples:
        >>> with open_queue("averages", "a") as queue:
        ...     runner = Runner(averages(), [source], queue, Targets(extent_records=1000))
    """

    extent_records: int | None = None
    extent_factor: float | None = 2.0
    replay_rows: int | None = None
    extent_floor: int = 1024
    budget: Budget | None = None

    def __post_init__(self) -> None:
        for name in ("extent_records", "extent_factor", "replay_rows"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value}: must be above 0")

    def extent_target(self, open_windows: int) -> float:
        """Q for this many open windows, met or not; infinite where none is set."""
        if self.extent_records is not None:
            return self.extent_records
        if self.extent_factor is None:
            return math.inf
        return max(self.extent_factor * open_windows, self.extent_floor)

    def acceptable(self, q: Ints, u: Ints, open_windows: int, rates: Rates) -> Bools:
        """Return True where q and u are within their targets; q may always be the open windows."""
        fits: Bools = q <= max(self.extent_target(open_windows), open_windows)
        return fits if self.replay_rows is None else fits & (u <= self.replay_rows)

    def attainable(self, open_windows: int) -> bool:
        """Return True if the target for the extent is not below the open windows."""
        return self.extent_target(open_windows) >= open_windows


@dataclass(frozen=True)
class CostBenefit(Policy):
    """Q where the next CHECK costs as much as it saves (the paper's first method, left open there).

    Let the log advance by x = Q − N records between two CHECKs of the same window, r be the records
    the operator appends in a second, and λ the failures in a second. CHECKs then cost N·c·r/x
    seconds in each second; a failure costs (N + x)·l for the load and x·i·p for the replay, where
    i is input rows per record. The sum is least at x = sqrt(N·c·r / (λ·(l + i·p))), the
    square-root rule that Young found for whole checkpoints.

    Examples:
        >>> daily = CostBenefit(mean_time_between_failures_s=86400)
        >>> with open_queue("averages", "a") as queue:
        ...     runner = Runner(averages(), [source], queue, daily)
    """

    mean_time_between_failures_s: float = 86_400.0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.mean_time_between_failures_s <= 0:
            raise ValueError("mean_time_between_failures_s must be above 0")

    def extent_target(self, open_windows: int, rates: Rates) -> float:
        """The Q that costs least, with what has been measured so far."""
        checking = open_windows * rates.check_s_per_record * rates.output_records_per_s
        recovering = rates.load_s_per_record + rates.input_rows_per_output * rates.replay_s_per_row
        return open_windows + math.sqrt(checking * self.mean_time_between_failures_s / recovering)

    def acceptable(self, q: Ints, u: Ints, open_windows: int, rates: Rates) -> Bools:
        """Return True where q is within the extent of least cost; u is not looked at."""
        fits: Bools = q <= self.extent_target(open_windows, rates)
        return fits


@dataclass(frozen=True)
class RecoveryTime(Policy):
    """Back within ``seconds``: load and replay, at the rates measured while running.

    Examples:
        >>> with open_queue("averages", "a") as queue:
        ...     runner = Runner(averages(), [source], queue, RecoveryTime(2.0))
    """

    seconds: float
    budget: Budget | None = field(default=None)

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds={self.seconds}: must be above 0")

    def estimate_s(self, q: Ints, u: Ints, rates: Rates) -> NDArray[np.float64]:
        """Return the estimated seconds of a recovery for each pair of q and u."""
        estimate: NDArray[np.float64] = (
            rates.fixed_s + q * rates.load_s_per_record + u * rates.replay_s_per_row
        )
        return estimate

    def acceptable(self, q: Ints, u: Ints, open_windows: int, rates: Rates) -> Bools:
        """Return True where the estimated recovery takes at most :attr:`seconds`."""
        fits: Bools = self.estimate_s(q, u, rates) <= self.seconds
        # Less than one record a window cannot be had, however short the time.
        fits |= (q <= open_windows) & (u == 0)
        return fits
