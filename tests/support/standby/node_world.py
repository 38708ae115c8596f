"""A store, a log and nodes that elect by `elect`, step by step: time passes only as told.

What nodes see may be old: each looks at its own moments, and acts a while after it has looked.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

from cec_store.standby.lease_format import Cause
from cec_store.standby.leases import Sign
from cec_store.standby.nodes.election import Decision, Member, NodeRules, View, elect
from cec_store.standby.nodes.notes import NodeNote, NodeState
from cec_store.standby.nodes.orders import Order

SILENT_AFTER_S = 0.3


@dataclass
class ModelTenure:
    number: int
    holder: str
    cause: Cause
    began_s: float
    """By the store's clock."""
    end: int
    """Of the log at that moment."""
    beat_s: float
    has_released: bool = False


@dataclass
class ModelNode:
    name: str
    clock_rate: float
    """Seconds of its clock for one of the world's."""
    is_up: bool = True
    is_stopped: bool = False
    position: int = 0
    reads: int = 1_000
    """Records that it follows at most in one look."""
    noted: NodeNote = field(default_factory=NodeNote)
    noted_s: float = -math.inf
    refuses: bool = False
    vacant: tuple[int, float] | None = None
    planned: tuple[View, Decision, list[int]] | None = None
    """Decision that it has taken and not carried out yet, and the positions that it saw."""

    @property
    def runs(self) -> bool:
        return self.is_up and not self.is_stopped


class World:
    """Nodes of one lease. `check` is called with each takeover, before it counts."""

    def __init__(self, names: str, rules: NodeRules, rng: random.Random) -> None:
        self.rules, self.rng = rules, rng
        self.now_s = 1_000.0
        self.end = 0
        self.tenures: list[ModelTenure] = []
        self.order = Order()
        self.nodes = {name: ModelNode(name, rng.choice([0.999, 1.0, 1.001])) for name in names}
        self.orders = [self.order]
        self.decided_by: View | None = None
        """View of the node that has taken over last, when it decided that."""
        self.lost_races = 0
        self.seconds_best = 0
        """Takeovers by a node that was not the best of those that it saw."""

    # -- what happens ---------------------------------------------------------------------------

    @property
    def primary(self) -> ModelNode | None:
        """The node of the newest tenure, if it is at work."""
        if not self.tenures or self.tenures[-1].has_released:
            return None
        node = self.nodes[self.tenures[-1].holder]
        return node if node.is_up and node.noted.state is NodeState.PRIMARY else None

    def passes(self, seconds: float) -> None:
        """Time passes, in which the primary writes and all that run give signs of life."""
        self.now_s += seconds
        primary = self.primary
        if primary is not None and not primary.is_stopped:
            self.end += self.rng.choice([0, 3, 50])
            self.tenures[-1].beat_s = self.now_s
            primary.position = self.end
        for node in self.nodes.values():
            if node.runs:
                node.noted = replace(node.noted, position=node.position, end=self.end)
                node.noted_s = self.now_s

    def kill(self, name: str) -> None:
        self.nodes[name].is_up = False
        self.nodes[name].planned = None

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        node.is_up, node.is_stopped, node.position = True, False, 0
        node.noted, node.vacant, node.planned = NodeNote(), None, None
        node.noted_s = self.now_s

    def wake(self, name: str) -> None:
        """A primary that finds that it is fenced becomes a standby."""
        node = self.nodes[name]
        node.is_stopped = False
        if node.noted.state is NodeState.PRIMARY and self.tenures[-1].holder != name:
            self.restart(name)

    def release(self) -> None:
        """The primary ends as planned, and stands by."""
        primary = self.primary
        assert primary is not None
        self.tenures[-1].has_released = True
        primary.noted = NodeNote(NodeState.READY, primary.position, self.end)

    def told(self, **change: object) -> None:
        self.order = replace(self.order, number=self.order.number + 1, **change)
        self.orders.append(self.order)

    # -- what nodes do --------------------------------------------------------------------------

    def looks(self, name: str) -> None:
        """A node follows, looks and decides; a decision is carried out later."""
        node = self.nodes[name]
        if not node.runs or node.planned is not None:
            return
        if node.noted.state is NodeState.PRIMARY:
            if self.tenures[-1].holder != name:
                self.restart(name)
            elif self._may_hand_over(node):
                self.release()
            return
        node.position += min(node.reads, self.end - node.position)
        state = NodeState.REFUSED if node.refuses else NodeState.READY
        node.noted = replace(node.noted, state=state, position=node.position, end=self.end)
        view = self.view(node)
        decision = elect(view, self.rules)
        if decision.cause is not None:
            seen = [m.note.position or 0 for m in view.members if _may(m)]
            node.planned = view, decision, seen

    def _may_hand_over(self, node: ModelNode) -> bool:
        name = self.order.names(self.tenures[-1].number)
        if name is None or name == node.name:
            return False
        other = self.nodes[name]
        is_ready = other.runs and other.noted.state is NodeState.READY
        return is_ready and (other.position >= self.end or self.order.even_if_behind)

    def view(self, node: ModelNode) -> View:
        tenure = self.tenures[-1] if self.tenures else None
        sign, number, holder = Sign.NEVER, 0, ""
        if tenure is not None:
            number, holder = tenure.number, tenure.holder
            is_silent = self.now_s - tenure.beat_s >= SILENT_AFTER_S
            sign = Sign.SILENT if is_silent else Sign.ALIVE
            sign = Sign.RELEASED if tenure.has_released else sign
        if sign is Sign.ALIVE:
            node.vacant = None
            return View(node.name, sign, number, holder, ())
        own_s = self.now_s * node.clock_rate
        if node.vacant is None or node.vacant[0] != number:
            node.vacant = number, own_s
        others = [self.seen(other) for other in self.nodes.values() if other is not node]
        failovers = [t.began_s for t in self.tenures if t.cause is Cause.FAILOVER]
        return View(
            me=node.name, sign=sign, tenure=number, holder=holder,
            members=[*others, Member(node.name, Sign.ALIVE, node.noted)],
            end=self.end if self.tenures else None, vacant_s=own_s - node.vacant[1],
            failover_age_s=self.now_s - failovers[-1] if failovers else math.inf,
            order=self.order,
        )  # fmt: skip

    def seen(self, node: ModelNode) -> Member:
        is_silent = self.now_s - node.noted_s >= SILENT_AFTER_S
        return Member(node.name, Sign.SILENT if is_silent else Sign.ALIVE, node.noted)

    def acts(self, name: str) -> ModelTenure | None:
        """A node carries out what it has decided: the tenure, if nobody else has created it."""
        node = self.nodes[name]
        if not node.runs or node.planned is None:
            return None
        (view, decision, seen), node.planned = node.planned, None
        assert decision.cause is not None
        if len(self.tenures) != view.tenure:
            self.lost_races += 1
            return None
        self.seconds_best += (view.members[-1].note.position or 0) < max(seen)
        made = ModelTenure(
            view.tenure + 1, name, decision.cause, self.now_s, self.end, self.now_s
        )  # fmt: skip
        self.tenures.append(made)
        self.decided_by = view
        node.noted = NodeNote(NodeState.PRIMARY, self.end, self.end)
        node.position, node.vacant = self.end, None
        return made


def _may(member: Member) -> bool:
    return member.is_alive and member.note.state in (NodeState.WARMING, NodeState.READY)
