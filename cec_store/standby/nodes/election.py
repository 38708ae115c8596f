"""Election of the node that takes over: a pure function of what one node sees.

Each node decides for itself. Two that decide alike at the same moment are told apart by the next
tenure, which one of them alone can create, so a wrong decision costs time and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cec_store.standby.lease_format import Cause
from cec_store.standby.leases import Sign
from cec_store.standby.nodes.notes import NodeNote, NodeState
from cec_store.standby.nodes.orders import Order


@dataclass(frozen=True)
class NodeRules:
    """NodeRules by which nodes take over; give all nodes the same.

    Examples:
        >>> NodeRules(lag_max=10_000, damping_s=60.0).turn_s
        1.0
    """

    lag_max: int | None = None
    """Records of the log that a node may lack and still take over by itself; by default any."""
    damping_s: float = 30.0
    """Seconds after a failover before which there is no other one by itself."""
    turn_s: float = 1.0
    """Seconds that a node waits for each one that is ahead of it."""

    def __post_init__(self) -> None:
        if self.lag_max is not None and (type(self.lag_max) is not int or self.lag_max < 0):
            raise ValueError(f"lag_max={self.lag_max!r}: a whole number of records, 0 or more")
        for name in ("damping_s", "turn_s"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= 86_400:
                raise ValueError(f"{name}={value!r}: 0 to 86,400 seconds")


class Member(NamedTuple):
    """A node as another one sees it."""

    name: str
    sign: Sign
    """Sign of the lease that the node itself holds."""
    note: NodeNote

    @property
    def is_alive(self) -> bool:
        """True unless it has ended, or has been silent for long enough."""
        return self.sign is Sign.ALIVE

    def lag(self, end: int) -> int | None:
        """Records that it lacks of a log that ends here; ``None`` where it follows nothing."""
        return None if self.note.position is None else max(0, end - self.note.position)


@dataclass(frozen=True)
class View:
    """Facts that one node sees at one moment. Seconds are measured by its own clock."""

    me: str
    sign: Sign
    tenure: int
    """Number of the newest tenure; 0 where there was none."""
    holder: str
    members: Sequence[Member]
    end: int | None = None
    """End of the log; ``None`` where there is none yet."""
    vacant_s: float = 0.0
    """Seconds since this node first saw that the tenure is over."""
    failover_age_s: float = math.inf
    """Age of the last failover; infinite where there was none."""
    order: Order = field(default_factory=Order)


class Decision(NamedTuple):
    """Result of an election, for one node."""

    cause: Cause | None
    """Reason of the tenure that the node is to create; ``None``: it waits."""
    reason: str
    """Sentence for people."""


def elect(view: View, rules: NodeRules) -> Decision:
    """Return whether the node that sees this takes over now."""
    if view.sign is Sign.ALIVE:
        return _wait(f"{view.holder} is at work")
    usable = [
        member
        for member in view.members
        if member.is_alive and member.note.state in (NodeState.WARMING, NodeState.READY)
    ]
    if not any(member.name == view.me for member in usable):
        return _wait("this node has refused, or is not seen to be alive")
    told = _told(view, rules, usable)
    if told is not None:
        return told
    is_mine = view.holder == view.me
    if not is_mine and (reason := _why_held_back(view, rules)):
        return _wait(reason)
    ranking = candidates(view, rules, usable)
    if view.me not in ranking:
        return _wait(f"this node lacks more than {rules.lag_max:,} records of the log")
    # The last primary may go on at any time where nobody else may.
    ahead = 0 if is_mine and _why_held_back(view, rules) else ranking.index(view.me)
    if view.vacant_s < ahead * rules.turn_s:
        return _wait(f"{ranking[0]} has read further, or is first by name")
    return Decision(_cause(view, is_mine), "this node has read furthest of those that may")


def candidates(view: View, rules: NodeRules, usable: Sequence[Member]) -> list[str]:
    """Return the names of the nodes that may take over by themselves, the best one first."""

    def rank(member: Member) -> tuple[int, str]:
        return -(-1 if member.note.position is None else member.note.position), member.name

    return [member.name for member in sorted(usable, key=rank) if is_near(member, view, rules)]


def is_near(member: Member, view: View, rules: NodeRules) -> bool:
    """Return True if the node lacks no more of the log than the rules allow."""
    if rules.lag_max is None or view.end is None:
        return True
    lag = member.lag(view.end)
    return lag is not None and lag <= rules.lag_max


def _wait(reason: str) -> Decision:
    return Decision(None, reason)


def _told(view: View, rules: NodeRules, usable: Sequence[Member]) -> Decision | None:
    """Return what an order to switch asks of this node; ``None`` where there is none to follow."""
    name = view.order.names(view.tenure)
    member = next((member for member in usable if member.name == name), None)
    if member is None:
        return None
    if not is_near(member, view, rules) and not view.order.even_if_behind:
        return None
    if name == view.me:
        return Decision(Cause.SWITCH, "an order names this node")
    # It may have hung since. Then the others go on as if there were no order.
    return _wait(f"an order names {name}") if view.vacant_s < rules.turn_s else None


def _why_held_back(view: View, rules: NodeRules) -> str:
    """Return why only the last primary may go on; empty where others may take over."""
    if view.order.is_paused:
        return "takeovers are paused; `cec-store standby resume` or `switch` ends that"
    if view.sign is Sign.SILENT and view.failover_age_s < rules.damping_s:
        left_s = rules.damping_s - view.failover_age_s
        return f"damped after the last failover: for {left_s:.1f} s more"
    return ""


def _cause(view: View, is_mine: bool) -> Cause:
    if view.sign is Sign.NEVER:
        return Cause.START
    if is_mine:
        return Cause.RESTART
    return Cause.HANDOVER if view.sign is Sign.RELEASED else Cause.FAILOVER
