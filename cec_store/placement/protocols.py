"""Ways to move a key group, and what each costs in closed form: the paper's section 4, Table 3.

Messages count as Table 2 has them: one that goes past the queue takes the time of a message, one
that waits in it the queue's as well, and one with data the time to send them. Turning a copy into
state, or state into a copy, is part of all protocols and in none of the costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import Enum


class Protocol(str, Enum):
    """Ways in which state reaches the node that takes over a group."""

    DIRECT = "direct"
    """A copy is made and sent while the group waits."""
    CPA = "cpa"
    """Copy-assisted: the target has one, and catches up while the group waits."""
    CPAL = "cpal"
    """The same with low latency: the target catches up while the old owner still works."""

    @property
    def is_assisted(self) -> bool:
        """True if the target has a copy of the state already."""
        return self is not Protocol.DIRECT


@dataclass(frozen=True)
class Links:
    """Between nodes.

    Raises:
        ValueError: a value that no network has.
    """

    message_s: float = 0.001
    """The unit of Table 2."""
    queue_s: float = 0.010
    """C: how long a message waits behind data at its receiver, at most."""
    bytes_per_s: float = 125e6
    state_bytes_per_s: float = 25e6
    """Bytes per second at which a state is written as bytes and read again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_rate = field.name.endswith("bytes_per_s")
            if not math.isfinite(value) or value < 0 or (value == 0 and is_rate):
                least = "greater than 0" if is_rate else "at least 0"
                raise ValueError(f"{field.name} is {value:g}, and has to be {least}")


@dataclass(frozen=True)
class Group:
    """A key group at the moment when it moves.

    Raises:
        ValueError: a number below 0, or no upstream.
    """

    state_bytes: float
    replay_rows: float
    """Rows after the newest copy: β over all upstream instances."""
    row_bytes: float = 100.0
    row_s: float = 10e-6
    """μ: to process one."""
    rows_per_s: float = 0.0
    """Rows per second that come meanwhile."""
    upstreams: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name == "upstreams" else 0
            if not math.isfinite(value) or value < least:
                raise ValueError(f"{field.name} is {value:g}, and has to be at least {least}")
        if self.rows_per_s * self.row_s >= 1:
            raise ValueError("rows come faster than they are processed: no target catches up")


@dataclass(frozen=True)
class Cost:
    """Completion time and added latency of one migration, in seconds."""

    completion_s: float
    """Seconds from the order until the target alone is responsible."""
    latency_s: float
    """Seconds that rows of the group wait."""


def cost(protocol: Protocol, group: Group, links: Links) -> Cost:
    """Return the cost of a migration in seconds.

    A direct migration has nothing to replay, because its copy is new.
    """
    if protocol is Protocol.DIRECT:
        moving_s = group.state_bytes * (1 / links.bytes_per_s + 1 / links.state_bytes_per_s)
        moving_s += 2 * links.message_s
        return Cost(moving_s, moving_s)
    # All upstream instances send at once, and their buffers are processed one after the other.
    sent_s = group.replay_rows / group.upstreams * group.row_bytes / links.bytes_per_s
    replay_s = sent_s + group.replay_rows * group.row_s
    if protocol is Protocol.CPA:
        caught_up_s = 2 * links.message_s + replay_s
        return Cost(caught_up_s, caught_up_s)
    # Rows that come during the replay wait behind it, then those that come meanwhile, and so on.
    behind_s = (replay_s + links.queue_s) / (1 - group.rows_per_s * group.row_s)
    # The first syncGroup may find an empty queue and the last a full one; the rows of that time
    # are processed in one go.
    latency_s = links.queue_s * (1 + group.rows_per_s * group.row_s)
    return Cost(4 * links.message_s + behind_s + latency_s, latency_s)
