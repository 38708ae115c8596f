"""Life of a node: it joins, stands by, takes over when elected, works, and stands by again."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import current_process

from cec_store.errors import (
    CecError,
    CorruptLog,
    Fenced,
    LeaseHeld,
    NotAQueue,
    OutOfRange,
    RecoveryError,
    StandbyRefused,
    StoreUnreachable,
    UnsupportedVersion,
)
from cec_store.standby.lease import Lease
from cec_store.standby.leases import KeepAlive, Sighting, Sign, leases_of
from cec_store.standby.nodes.damping import LastFailover
from cec_store.standby.nodes.election import Decision, Member, NodeRules, View, elect
from cec_store.standby.nodes.job import Job
from cec_store.standby.nodes.members import Members
from cec_store.standby.nodes.notes import NodeNote, NodeState, encode_note, node_lease
from cec_store.standby.nodes.orders import Order, Orders
from cec_store.standby.standby import Standby
from cec_store.standby.takeover import Takeover

_log = logging.getLogger(__name__)


class _HandOver(Exception):
    """Ends a run of the primary between two steps."""


class Node:
    """A process that is primary or standby as needs be. For one thread.

    Examples:
        >>> node = Node("a", Job("averages", averages, lambda: [source]))
        >>> node.run(lambda: node.note.state != "primary")
        >>> node.note.lag
        0
    """

    def __init__(
        self,
        name: str,
        job: Job,
        *,
        rules: NodeRules | None = None,
        lease: str = "primary",
        keep_alive: KeepAlive | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_change: Callable[[NodeNote, str], object] = lambda note, reason: None,
    ) -> None:
        """``name`` is this node's alone; job, rules, lease and times are those of all nodes.

        ``on_change`` is called with the note and a reason whenever the state has changed.

        Raises:
            StandbyRefused: the operator cannot have the scheme, or the rules do not fit it.
            NotAQueue: an input is not there.
            ValueError: not a name of a node or a lease.
        """
        self.name = name
        self._own_lease = node_lease(lease, name)
        self._rules = rules or NodeRules()
        job.check(self._rules)
        self._job = job
        self._lease_name = lease
        self._keep_alive = keep_alive or KeepAlive()
        self._clock = clock
        self._sleep = sleep
        self._on_change = on_change
        self._leases = leases_of(job.queue, job.storage_options)
        objects = self._leases.objects(lease)
        self._orders = Orders(objects)
        self._failovers = LastFailover(objects, clock)
        self._members = Members(self._leases, lease, clock=clock)
        self._watch = self._leases.watch(lease, self._keep_alive)
        self._vacant: tuple[int, float] | None = None
        self._refused_tenure = -1
        self._warm_at: int | None = None
        self._unread_order = ""
        self.waits_because = ""
        """Reason why this node does not take over; empty while it works."""
        self.note = NodeNote()
        """State and position, which the next sign of life tells."""
        self.decided_by: View | None = None
        """View by which this node has decided to take over last."""

    def run(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Stand by and work in turns until ``goes_on`` says no, which is asked between steps.

        A primary that ends so finishes its step and lets go of the lease; another node takes over.

        Raises:
            LeaseHeld: a node of this name runs already; nothing was done.
            Fenced: another one has taken this name, while this process was stopped.
            CecError: as the operator's runner and standby raise; the primary's lease falls silent.
        """
        own = self._joined()
        try:
            while goes_on():
                taken = self._stand_by(own, goes_on)
                if taken is not None:
                    self._work(taken, own, goes_on)
        finally:
            self._members.close()
            self._watch.close()
            own.release()

    def _joined(self) -> Lease:
        try:
            return self._leases.hold(
                self._own_lease,
                holder=f"{platform.node()}:{current_process().pid}",
                keep_alive=self._keep_alive,
                note=lambda: encode_note(self.note),
            )
        except LeaseHeld as error:
            what = f"a node {self.name!r} of {self._lease_name!r} runs already"
            raise LeaseHeld(f"{what}: {error}; give each node a name of its own") from error

    # -- standby --------------------------------------------------------------------------------

    def _stand_by(self, own: Lease, goes_on: Callable[[], bool]) -> Takeover | None:
        """Follow until this node is the one to take over; ``None`` once it does not go on."""
        standby: Standby | None = None
        self._warm_at = None
        self._tell(NodeNote(), "joins")
        while goes_on():
            _refuse_if_lost(own)
            if standby is not None and standby.is_over:
                standby = None  # its takeover failed behind the fence, and it takes over once
            with suppress(StoreUnreachable):  # a store that does not answer says nothing
                standby, is_idle = self._followed(standby)
                seen = self._watch.look()
                view = self._view(seen)
                decision = elect(view, self._rules)
                self._waits(view, decision)
                if decision.cause is not None:
                    taken = self._take(standby, view, decision)
                    if taken is not None:
                        return taken
                if not is_idle:
                    continue
            self._sleep(self._keep_alive.period_s / 2)
        if standby is not None:
            standby.close()
        return None

    def _followed(self, standby: Standby | None) -> tuple[Standby | None, bool]:
        """Return the standby after it took what is new, and True if that was nothing."""
        if standby is None:
            try:
                standby = self._job.standby()
            except NotAQueue:  # there has not been a primary yet
                self._tell(replace(self.note, position=None, end=None), "waits for a first primary")
                return None, True
        is_idle = not standby.follow()
        position, end = standby.followed_offset, standby.log_end
        if self._warm_at is None:
            self._warm_at = end or 0
        state = self.note.state
        if state is NodeState.WARMING and (position is None or position >= self._warm_at):
            state = NodeState.READY
        self._tell(replace(self.note, state=state, position=position, end=end), "follows")
        return standby, is_idle

    def _view(self, seen: Sighting) -> View:
        if seen.sign is Sign.ALIVE:
            self._vacant = None
            return View(self.name, seen.sign, seen.tenure, seen.holder, ())
        now_s = self._clock()
        if self._vacant is None or self._vacant[0] != seen.tenure:
            self._vacant = seen.tenure, now_s
        if self.note.state is NodeState.REFUSED and seen.tenure != self._refused_tenure:
            self._tell(replace(self.note, state=NodeState.READY, reason=""), "may try again")
        others = [member for member in self._members.look() if member.name != self.name]
        return View(
            me=self.name,
            sign=seen.sign,
            tenure=seen.tenure,
            holder=seen.holder,
            members=[*others, Member(self.name, Sign.ALIVE, self.note)],
            end=self.note.end,
            vacant_s=now_s - self._vacant[1],
            failover_age_s=self._failovers.age_s(seen.tenure),
            order=self._order(),
        )

    def _take(self, standby: Standby | None, view: View, decision: Decision) -> Takeover | None:
        """Take over; ``None`` where another node was quicker, or nothing can be taken over."""
        cause, newest = decision.cause, view.tenure
        assert cause is not None
        self.decided_by = view

        def hold() -> Lease:
            nonlocal newest
            lease = self._leases.hold(
                self._lease_name,
                holder=self.name,
                keep_alive=self._keep_alive,
                after=view.tenure,
                cause=cause,
            )
            newest = lease.number
            return lease

        if view.holder:
            _log.warning(
                "%s: %s takes over from %r (%s): %s",
                self._leases.path, self.name, view.holder, cause.value, decision.reason,
            )  # fmt: skip
        else:
            _log.info("%s: %s begins, as the first primary", self._leases.path, self.name)
        try:
            if standby is not None:
                return standby.take_over_with(hold)
            return self._begin(hold)
        except (LeaseHeld, Fenced) as error:
            _log.warning("%s: %s was not first: %s", self._leases.path, self.name, error)
        except (StandbyRefused, RecoveryError, OutOfRange) as error:
            # It may have been refused under a tenure that was taken for it, and let go again.
            self._refused_tenure = newest
            self._tell(replace(self.note, state=NodeState.REFUSED, reason=str(error)), str(error))
        return None

    def _begin(self, hold: Callable[[], Lease]) -> Takeover:
        """Be the first primary: make the queue under the lease."""
        lease = hold()
        try:
            return self._job.begin().take_over_with(lambda: lease)
        except BaseException:
            lease.release()
            raise

    # -- primary --------------------------------------------------------------------------------

    def _work(self, taken: Takeover, own: Lease, goes_on: Callable[[], bool]) -> None:
        """Run the operator until an order, ``goes_on`` or another primary ends that."""
        lease = taken.lease
        assert lease is not None
        asked: tuple[int, int] | None = None
        """The order that was seen, and the durable end at that moment."""
        looked_s = self._clock()

        def look(rows: int) -> None:
            nonlocal looked_s, asked
            if not goes_on():
                raise _HandOver("it was told to end")
            now_s = self._clock()
            if now_s - looked_s < self._keep_alive.period_s / 2:
                return
            looked_s = now_s
            _refuse_if_lost(own)
            _refuse_if_lost(lease)
            self._tell_primary(taken)
            asked = self._due(lease.number, asked, taken.queue.durable_offset)

        self._tell_primary(taken)
        try:
            try:
                while True:
                    before = taken.runner.records_written
                    taken.runner.run(look)
                    look(0)
                    if taken.runner.records_written == before:
                        taken.runner.tick()
                        self._sleep(self._keep_alive.period_s / 2)
            except _HandOver as order:
                _log.warning("%s: %s hands over: %s", self._leases.path, self.name, order)
                taken.queue.sync()
                taken.runner.acknowledge()
                taken.close()
                lease.release()
        except Fenced as error:
            _log.warning("%s: %s is fenced: %s", self._leases.path, self.name, error)
            _let_go(taken)
            lease.abandon()
        except BaseException:
            _let_go(taken)
            lease.abandon()
            raise

    def _tell_primary(self, taken: Takeover) -> None:
        durable = taken.queue.durable_offset
        self._tell(NodeNote(NodeState.PRIMARY, durable, durable), "works")

    def _due(
        self, tenure: int, asked: tuple[int, int] | None, durable: int
    ) -> tuple[int, int] | None:
        """Raise :class:`_HandOver` once the node that an order names has caught up.

        Returns the order, and the end of the log when it was first seen.
        """
        with suppress(StoreUnreachable):
            order = self._order()
            name = order.names(tenure)
            if name is None or name == self.name:
                return None
            if asked is None or asked[0] != order.number:
                asked = order.number, durable
            member = next((m for m in self._members.look() if m.name == name), None)
            if member is not None and may_receive(member, order, asked[1]):
                raise _HandOver(f"order {order.number} of {order.asked_by} names {name}")
        return asked

    def _order(self) -> Order:
        """Return the order that counts. One that cannot be read must end no node."""
        try:
            return self._orders.newest()
        except (CorruptLog, UnsupportedVersion) as error:
            if str(error) != self._unread_order:
                self._unread_order = str(error)
                _log.error("%s goes on by the order before it: %s", self.name, error)
            return self._orders.known

    def _tell(self, note: NodeNote, reason: str) -> None:
        is_other = note.state is not self.note.state
        self.note = note
        if is_other:
            _log.info("%s: %s is %s: %s", self._leases.path, self.name, note.state.value, reason)
            self._on_change(note, reason)

    def _waits(self, view: View, decision: Decision) -> None:
        is_vacant = view.sign is not Sign.ALIVE and decision.cause is None
        if self.note.state is not NodeState.REFUSED:
            self.note = replace(self.note, reason=decision.reason if is_vacant else "")
        before, self.waits_because = self.waits_because, decision.reason
        if decision.cause is not None:
            self.waits_because = ""
        elif decision.reason.partition(":")[0] != before.partition(":")[0]:
            _log.info("%s: %s waits: %s", self._leases.path, self.name, decision.reason)


def may_receive(member: Member, order: Order, end: int) -> bool:
    """Return True if the node that an order names can take over from a primary that is at work.

    ``end`` is the log's end when the primary saw the order. A node that has read that far keeps up.
    """
    if not member.is_alive or member.note.state not in (NodeState.WARMING, NodeState.READY):
        return False
    position = member.note.position
    return order.even_if_behind or position is None or position >= end


def _refuse_if_lost(lease: Lease) -> None:
    if lease.is_lost:
        lease.check()


def _let_go(taken: Takeover) -> None:
    with suppress(CecError):
        taken.close()
