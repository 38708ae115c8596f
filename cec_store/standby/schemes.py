"""The availability schemes, and what they are told apart by: the availability paper's Tables 1, 5.

Rates, sizes and times are what Table 5 has; its values are the defaults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import Enum


class Scheme(str, Enum):
    """Availability schemes, which differ in the node that takes over and the state it starts with.

    Examples:
        >>> Scheme("active standby") is Scheme.ACTIVE
        True
    """

    AMNESIA = "amnesia"
    PASSIVE = "passive standby"
    UPSTREAM = "upstream backup"
    ACTIVE = "active standby"
    EVENTUAL = "eventual checkpoint"
    """Ours: no second node; the operator's own log has its state, and is read back."""


@dataclass(frozen=True)
class System:
    """Nodes and links: Table 5.

    Raises:
        ValueError: a value that no system has.
    """

    tuples_per_s: float = 1000.0
    """λ, over all input streams."""
    detection_s: float = 0.250
    """D: from a failure until the recovery node knows."""
    interval_s: float = 0.050
    """M: between two checkpoints, acknowledgements, trimmings or frames of the log."""
    redirect_s: float = 0.040
    """r: until input streams go to the recovery node."""
    tuple_bytes: float = 50.0
    id_bytes: float = 8.0
    bits_per_s: float = 16e6
    delay_s: float = 0.005
    """d, between any two nodes."""
    window_tuple_s: float = 10e-6
    """p of a filter, and of an aggregate for each window that a tuple is in."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_time = field.name in ("detection_s", "redirect_s", "delay_s", "window_tuple_s")
            if not math.isfinite(value) or value < 0 or (value == 0 and not is_time):
                least = "at least 0" if is_time else "greater than 0"
                raise ValueError(f"{field.name} is {value:g}, and has to be {least}")

    @property
    def tuple_s(self) -> float:
        """Seconds that one tuple occupies a link."""
        return 8 * self.tuple_bytes / self.bits_per_s

    @property
    def input_bytes_per_s(self) -> float:
        """Bytes of input per second, of which overheads are shares."""
        return self.tuples_per_s * self.tuple_bytes


def percent_of_input(system: System, overhead_bytes_per_s: float) -> float:
    """Bandwidth overhead as the paper's tables have it."""
    return 100 * overhead_bytes_per_s / system.input_bytes_per_s
