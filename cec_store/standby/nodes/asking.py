"""Orders of people to nodes: pause and resume takeovers, and switch to a named node."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cec_store.errors import StandbyRefused
from cec_store.standby.leases import Leases, Sign
from cec_store.standby.nodes.election import Member
from cec_store.standby.nodes.members import SeenLease, seen_leases
from cec_store.standby.nodes.notes import NodeState
from cec_store.standby.nodes.orders import Order, Orders

_LOOK_S = 0.05


class Switchover(NamedTuple):
    """Result of a switchover: the tenure of the new primary, and the seconds until it had it."""

    node: str
    tenure: int
    seconds: float


def set_paused(leases: Leases, lease: str, is_paused: bool) -> Order:
    """Hold takeovers back, or let nodes take over again; return the order that counts.

    Raises:
        StandbyRefused: the lease has no nodes.
        StorageError: the order could not be written.
    """
    _seen(leases, lease)
    orders = Orders(leases.objects(lease))
    newest = orders.newest()
    if newest.is_paused is is_paused:
        return newest
    return orders.give(lambda before: replace(before, is_paused=is_paused))


def switch(
    leases: Leases,
    lease: str,
    to: str,
    *,
    even_if_behind: bool = False,
    timeout_s: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Switchover:
    """Make a node the primary, and return once it is.

    A primary at work goes on until the node has read as far as the log reached when it was told.
    With ``even_if_behind`` it does not wait for that, and no bound on a lag holds.

    Raises:
        StandbyRefused: there is no such node, it is not alive, it has refused or it is the primary:
            nothing was written. Or it has not taken over within ``timeout_s``: the order has been
            taken back, unless a later one has replaced it; or another node has.
        StorageError: the order could not be written.
    """
    seen = _seen(leases, lease)
    _refuse(seen, to)
    objects = leases.objects(lease)
    orders = Orders(objects)
    began_s, after = clock(), seen.holder.tenure
    given = orders.give(
        lambda before: replace(before, to=to, after=after, even_if_behind=even_if_behind)
    )
    while (tenure := objects.tenure(after + 1)) is None and clock() - began_s < timeout_s:
        sleep(_LOOK_S)
    if tenure is None:
        outcome = _take_back(orders, given)
        tenure = objects.tenure(after + 1)  # it may have been taken meanwhile
        if tenure is None:
            raise StandbyRefused(
                f"{leases.path}: {to} has not taken over within {timeout_s:g} s, and {outcome}; "
                "`cec-store standby list` says how far it is; --even-if-behind does not wait for "
                "that"
            )
    if tenure.holder != to:
        raise StandbyRefused(f"{leases.path}: {tenure.holder} has taken over, and not {to}")
    return Switchover(to, tenure.number, clock() - began_s)


def _take_back(orders: Orders, given: Order) -> str:
    """Take back a switchover, unless another one was ordered since; return what was done.

    Pauses that were ordered since repeat the switchover, and stay.
    """

    def is_asked_for(order: Order) -> bool:
        asked = (order.to, order.after, order.even_if_behind)
        return asked == (given.to, given.after, given.even_if_behind)

    def without(before: Order) -> Order:
        if not is_asked_for(before):
            return before
        return replace(before, to=None, after=0, even_if_behind=False)

    newest = orders.newest()
    if not is_asked_for(newest):
        return f"order {newest.number} of {newest.asked_by} has replaced it"
    orders.give(without)
    return "the order was taken back"


def _seen(leases: Leases, lease: str) -> SeenLease:
    leases.objects(lease)  # refuses what is no name
    seen = next(iter(seen_leases(leases, only=lease)), None)
    if seen is None or not seen.nodes:
        raise StandbyRefused(
            f"{leases.path}: no nodes run under the lease {lease!r}; start them with "
            "`cec-store standby node`"
        )
    return seen


def _refuse(seen: SeenLease, to: str) -> None:
    known: dict[str, Member] = {member.name: member for member in seen.nodes}
    if to not in known:
        raise StandbyRefused(f"no node {to!r}; there are {', '.join(known)}")
    member = known[to]
    if not member.is_alive:
        raise StandbyRefused(f"node {to!r} is not alive; start it, and ask again")
    if seen.holder.sign is Sign.ALIVE and seen.holder.holder == to:
        raise StandbyRefused(f"node {to!r} is the primary")
    if member.note.state is NodeState.REFUSED:
        raise StandbyRefused(f"node {to!r} cannot take over: {member.note.reason}")
