"""Settings of a fleet, such as thresholds and intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cec_store.errors import BadFleet
from cec_store.recovery_plans.assignment import CAP
from cec_store.standby.leases import KeepAlive

KEEP_ALIVE = KeepAlive(0.5, 10)
"""Keep-alive rule of a fleet's lease, which its driver or a rollback holds."""


@dataclass(frozen=True)
class Rules:
    """Settings of a fleet.

    Raises:
        BadFleet: a value that is not allowed.

    Examples:
        >>> Rules(lost_executors=3).cap
        0.8
    """

    lost_executors: int = 2
    """Executors lost since the last global checkpoint that make a correlated failure; the paper's
    X."""
    cap: float = CAP
    """The share of the executors' cores that is planned for."""
    checkpoint_s: float = 10.0
    """Seconds between two global checkpoints."""
    kept_checkpoints: int = 20
    """Number of the newest global checkpoints that are kept."""
    wait_first_s: float = 1.0
    """Seconds before a failed query is started again; they double each time that it fails."""
    wait_most_s: float = 300.0
    cost_window_s: float = 600.0
    """Age in seconds at which a measurement counts half as much for a query's cost."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            is_whole = setting.type == "int"
            kinds = (int,) if is_whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1e9:
                kind = "a whole number" if is_whole else "a number"
                raise BadFleet(f"rules.{setting.name}: {value!r}; give {kind} above 0")
        if self.cap > 1:
            raise BadFleet(f"rules.cap: {self.cap!r}; a share of the executors' cores, 1 at most")
