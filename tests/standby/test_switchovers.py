"""Switchovers that time out: which orders are taken back, by a clock and leases of the test."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cec_store import KeepAlive, StandbyRefused, leases_of
from cec_store.standby.leases import Leases
from cec_store.standby.nodes.asking import Switchover, set_paused, switch
from cec_store.standby.nodes.notes import NodeNote, NodeState, encode_note, node_lease
from cec_store.standby.nodes.orders import Order, Orders

KEEP_ALIVE = KeepAlive(0.02, 50)


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Leases]:
    """The leases of a primary a, and of the nodes b and c."""
    leases = leases_of(tmp_path)
    note = encode_note(NodeNote(NodeState.READY, 3, 3))
    nodes = [node_lease("primary", name) for name in "bc"]
    held = [leases.hold(node, keep_alive=KEEP_ALIVE, note=lambda: note) for node in nodes]
    held.append(leases.hold("primary", holder="a", keep_alive=KEEP_ALIVE))
    yield leases
    for lease in held:
        lease.release()


def switched_to_b(leases: Leases, act: Callable[[], object]) -> Switchover:
    """Ask for a switchover to b, and act in the last moment before it times out."""
    now_s = [0.0]

    def sleep(_: float) -> None:
        act()
        now_s[0] += 1.0

    return switch(leases, "primary", "b", timeout_s=1.0, clock=lambda: now_s[0], sleep=sleep)


def newest_order(leases: Leases) -> Order:
    return Orders(leases.objects("primary")).newest()


def test_an_order_that_times_out_leaves_a_later_one_of_somebody_else(leases: Leases) -> None:
    orders = Orders(leases.objects("primary"))
    with pytest.raises(StandbyRefused, match=r"order 2 of \S+ has replaced it"):
        switched_to_b(leases, lambda: orders.give(lambda before: replace(before, to="c", after=1)))
    assert newest_order(leases).to == "c"
    assert newest_order(leases).number == 2


def test_an_order_that_times_out_in_a_pause_is_taken_back_and_the_pause_stays(
    leases: Leases,
) -> None:
    with pytest.raises(StandbyRefused, match="the order was taken back"):
        switched_to_b(leases, lambda: set_paused(leases, "primary", True))
    assert newest_order(leases).to is None
    assert newest_order(leases).is_paused


def test_a_takeover_in_the_last_moment_of_a_switchover_counts(leases: Leases) -> None:
    done = switched_to_b(leases, lambda: leases.hold("primary", holder="b", after=1).release())
    assert (done.node, done.tenure) == ("b", 2)


def test_a_takeover_while_an_order_is_taken_back_counts(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    give = Orders.give

    def give_and_lose(orders: Orders, change: Callable[[Order], Order]) -> Order:
        order = give(orders, change)
        if order.to is None:
            leases.hold("primary", holder="b", after=1).release()
        return order

    monkeypatch.setattr(Orders, "give", give_and_lose)
    assert switched_to_b(leases, lambda: None).tenure == 2
