"""Nodes of one queue: who begins, who takes over, switchovers, pauses, and what is refused."""

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cec_store import (
    Fenced,
    Job,
    LeaseHeld,
    Node,
    NodeRules,
    NotAQueue,
    QueueInput,
    StandbyRefused,
    leases_of,
    open_queue,
    wait_until_warm,
)
from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.operators import BSort, Runner
from cec_store.standby.lease import Lease
from cec_store.standby.lease_format import Cause
from cec_store.standby.nodes.asking import set_paused, switch
from cec_store.standby.nodes.damping import LastFailover
from cec_store.standby.nodes.members import seen_leases
from cec_store.standby.nodes.notes import (
    NodeNote,
    NodeState,
    decode_note,
    encode_note,
    node_lease,
    node_of,
)
from cec_store.standby.nodes.orders import (
    Order,
    Orders,
    decode_order,
    encode_document,
    order_name,
)
from cec_store.storage.stores.local_store import LocalStore
from support.crashes.acknowledged_chains import ROWS
from support.standby.node_threads import KEEP_ALIVE, NodeThreads
from support.standby.two_nodes import expected
from support.stores.s3_server import BUCKET, options_of


@pytest.fixture
def running(tmp_path: Path):
    with NodeThreads(tmp_path, damping_s=600.0, turn_s=5.0) as nodes:
        yield nodes


def test_of_nodes_that_start_one_begins_and_the_others_follow(running: NodeThreads) -> None:
    running.start("a", "b", "c")
    first = running.primary()
    running.feed(100)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 100)))
    running.wait_ready(*({"a", "b", "c"} - {first}))
    assert running.rows() == expected("count windows", 100)
    assert running.tenures() == [(1, first, "start")]


def test_a_node_that_ends_as_planned_is_replaced_however_fresh_the_last_failover(
    running: NodeThreads,
) -> None:
    running.start("a")
    assert running.primary() == "a"
    running.feed(50)
    running.start("b")
    running.wait_ready("b")
    running.end("a")
    assert running.primary() == "b"
    running.feed(50)
    running.start("a")
    running.wait_ready("a")
    running.end("b")
    assert running.primary() == "a"
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 100)))
    assert running.rows() == expected("count windows", 100)
    assert [cause for _, _, cause in running.tenures()] == ["start", "handover", "handover"]


def test_a_switchover_loses_no_row_and_its_gap_is_less_than_a_batch(running: NodeThreads) -> None:
    """A batch comes every half second here; what is between two primaries is less."""
    running.start("a", "b")
    before = running.primary()
    (to,) = {"a", "b"} - {before}
    running.wait_ready(to)
    gaps_s, leases = [], leases_of(running.output)
    for _ in range(3):
        running.feed(40)
        done = switch(leases, "primary", to, timeout_s=30.0)
        assert running.primary() == to
        assert running.tenures()[-1] == (done.tenure, to, "switch")
        changes = list(running.changes)
        let_go_s = max(at_s for at_s, name, state in changes
                       if (name, state) == (before, NodeState.WARMING))  # fmt: skip
        works_s = max(at_s for at_s, name, state in changes
                      if (name, state) == (to, NodeState.PRIMARY))  # fmt: skip
        gaps_s.append(works_s - let_go_s)
        before, to = to, before
        running.wait_ready(to)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 120)))
    assert running.rows() == expected("count windows", 120)
    print(f"gaps between two primaries: {', '.join(f'{1000 * gap_s:.0f} ms' for gap_s in gaps_s)}")
    assert min(gaps_s) < 0.5


def test_in_a_pause_the_last_primary_alone_goes_on(running: NodeThreads) -> None:
    running.start("a")
    assert running.primary() == "a"
    running.start("b")
    running.wait_ready("b")
    leases = leases_of(running.output)
    assert set_paused(leases, "primary", True).is_paused
    assert set_paused(leases, "primary", True).number == 1
    running.end("a")
    running.wait(lambda: "paused" in running.nodes["b"].waits_because)
    (lease,) = seen_leases(leases)
    assert [(m.name, m.note.reason[:20]) for m in lease.nodes if m.is_alive] == [
        ("b", "takeovers are paused")
    ]  # fmt: skip
    assert running.state("b") is NodeState.READY
    running.start("a")
    assert running.primary() == "a"
    assert running.tenures()[-1] == (2, "a", "restart")
    switch(leases, "primary", "b", timeout_s=30.0)
    assert running.primary() == "b"
    set_paused(leases, "primary", False)
    running.wait_ready("a")
    running.end("b")
    assert running.primary() == "a"


def test_a_second_failover_waits_and_an_order_does_not(
    running: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that ends is silent here, as one that was killed."""
    monkeypatch.setattr(Lease, "release", _silently)
    running.start("a")
    assert running.primary() == "a"
    running.start("b", "c")
    running.wait_ready("b", "c")
    running.end("a")
    second = running.primary()
    (third,) = {"b", "c"} - {second}
    running.end(second)
    running.wait(lambda: "last failover" in running.nodes[third].waits_because)
    assert running.state(third) is NodeState.READY
    assert running.tenures()[-1] == (2, second, "failover")
    switch(leases_of(running.output), "primary", third, timeout_s=30.0)
    assert running.primary() == third
    assert running.tenures()[-1] == (3, third, "switch")


def _silently(self: Lease) -> None:
    self._is_abandoned = True
    self._bell.put(None)
    self._ended.wait_for(lambda: self._has_ended, 5.0)


def test_a_primary_that_was_fenced_while_it_hands_over_stands_by(
    running: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.start("a")
    running.primary()
    running.start("b")
    running.wait_ready("b")
    acknowledge = Runner.acknowledge
    fenced = []

    def fence_first(runner: Runner) -> None:
        if not fenced:
            fenced.append(True)
            raise Fenced("somebody has taken over")
        acknowledge(runner)

    order = Orders(leases_of(running.output).objects("primary"))
    monkeypatch.setattr("cec_store.standby.nodes.node.may_receive", _then(
        lambda: monkeypatch.setattr(Runner, "acknowledge", fence_first)
    ))  # fmt: skip
    order.give(lambda before: replace(before, to="b", after=1))
    running.wait(lambda: running.state("b") is NodeState.PRIMARY)
    assert fenced
    running.wait_ready("a")
    assert running.errors == {}


def _then(act: Callable[[], object]) -> Callable[..., bool]:
    def may_receive(*_: object) -> bool:
        act()
        return True

    return may_receive


def test_an_order_that_cannot_be_read_ends_no_node(running: NodeThreads) -> None:
    running.start("a")
    running.primary()
    running.start("b")
    running.wait_ready("b")
    leases = leases_of(running.output)
    objects = leases.objects("primary")
    set_paused(leases, "primary", True)
    objects.store.create(order_name(2), [b"no order"])
    running.feed(40)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 40)))
    with pytest.raises(CorruptLog, match=r"2\.order.*give the order again"):
        seen_leases(leases)
    running.end("a")
    running.wait(lambda: "paused" in running.nodes["b"].waits_because)
    objects.store.delete([order_name(2)])
    set_paused(leases, "primary", False)
    assert running.primary() == "b"
    assert running.errors == {}


def test_notes_and_orders_are_read_in_a_store(s3_address: str, tmp_path: Path) -> None:
    url, options = f"s3://{BUCKET}/{tmp_path.name}", options_of(s3_address)
    leases = leases_of(url, options)
    note = NodeNote(NodeState.READY, 41, 43)
    with leases.hold(node_lease("primary", "b"), note=lambda: encode_note(note)):
        assert wait_until_warm(url, "b", lag_max=2, timeout_s=30.0, storage_options=options)
        assert not wait_until_warm(url, "b", lag_max=1, timeout_s=0.1, storage_options=options)
        (seen,) = seen_leases(leases)
        assert [(member.name, member.note) for member in seen.nodes] == [("b", note)]
    set_paused(leases, "primary", True)
    assert Orders(leases.objects("primary")).newest().is_paused
    with leases.hold("primary", cause=Cause.FAILOVER, after=0) as lease:
        failovers = LastFailover(leases.objects("primary"), clock=lambda: 0.0)
        assert 0 <= failovers.age_s(lease.number) < 60


def test_the_age_of_a_failover_grows_by_the_clock_that_is_given(tmp_path: Path) -> None:
    leases = leases_of(tmp_path)
    now_s = [100.0]
    failovers = LastFailover(leases.objects("primary"), clock=lambda: now_s[0])
    assert failovers.age_s(0) == math.inf
    leases.hold("primary", after=0, cause=Cause.FAILOVER).release()
    leases.hold("primary", after=1, cause=Cause.SWITCH).release()
    before_s = failovers.age_s(2)
    now_s[0] += 3600.0
    assert failovers.age_s(2) == pytest.approx(before_s + 3600.0)
    assert before_s < 60


def test_two_nodes_of_one_name_are_refused_before_the_second_does_anything(
    running: NodeThreads,
) -> None:
    running.start("a")
    running.primary()
    second = Node("a", running.job(), keep_alive=KEEP_ALIVE)
    with pytest.raises(LeaseHeld, match="a node 'a' of 'primary' runs already"):
        second.run()
    assert running.primary() == "a"
    assert running.tenures() == [(1, "a", "start")]


def test_what_an_operator_cannot_have_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    bids = open_queue(tmp_path / "in", "x", schema=ROWS)
    bids.close()
    before = sorted(path for path in tmp_path.rglob("*"))

    def inputs() -> list[QueueInput]:
        return [QueueInput(open_queue(tmp_path / "in"), "out")]

    def sort() -> BSort:
        return BSort("v", 3, ROWS)

    for job, rules, named in (
        (Job(tmp_path / "out", sort, inputs), NodeRules(), "can_be_followed"),
        (Job(tmp_path / "out", sort, inputs, "hot standby"), NodeRules(), "hot standby"),
        (Job(tmp_path / "out", sort, list), NodeRules(), "can_be_followed"),
        (Job(tmp_path / "out", sort, inputs, "eventual checkpoint"), NodeRules(lag_max=5),
         "lag_max=5"),
    ):  # fmt: skip
        with pytest.raises(StandbyRefused, match=named):
            Node("a", job, rules=rules)
    job = Job(tmp_path / "out", sort, inputs, "eventual checkpoint")
    for name in ("", "a/b", "a.node.b", "x" * 95):
        with pytest.raises(ValueError, match="name"):
            Node(name, job)
    with pytest.raises(ValueError, match="name"):
        Node("a", job, lease="primary.node.a")
    with pytest.raises(NotAQueue):
        Node("a", replace(job, inputs=lambda: [QueueInput(open_queue(tmp_path / "no"), "x")]))
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_switches_that_nobody_could_carry_out_are_refused(running: NodeThreads) -> None:
    leases = leases_of(running.output)
    with pytest.raises(StandbyRefused, match="no nodes run under the lease 'primary'"):
        switch(leases, "primary", "b")
    running.start("a", "b")
    first = running.primary()
    (other,) = {"a", "b"} - {first}
    with pytest.raises(StandbyRefused, match="no node 'z'; there are a, b"):
        switch(leases, "primary", "z")
    with pytest.raises(StandbyRefused, match="is the primary"):
        switch(leases, "primary", first)
    running.wait_ready(other)
    running.end(other)
    with pytest.raises(StandbyRefused, match="is not alive"):
        switch(leases, "primary", other)
    assert Orders(leases.objects("primary")).newest() == Order()


def test_an_order_that_is_not_carried_out_in_time_is_taken_back(
    running: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.start("a", "b")
    first = running.primary()
    (other,) = {"a", "b"} - {first}
    running.wait_ready(other)
    monkeypatch.setattr("cec_store.standby.nodes.node.may_receive", lambda *_: False)
    leases = leases_of(running.output)
    with pytest.raises(StandbyRefused, match=r"has not taken over within 0\.1 s"):
        switch(leases, "primary", other, timeout_s=0.1)
    assert Orders(leases.objects("primary")).newest().to is None
    monkeypatch.undo()
    running.feed(40)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 40)))
    assert running.tenures() == [(1, first, "start")]


def test_a_node_that_cannot_take_over_leaves_it_to_another(
    running: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.start("c")
    running.primary()
    running.start("a", "b")
    running.wait_ready("a", "b")
    takes = running.nodes["a"]._take

    def refuse(standby, view, decision):
        monkeypatch.setattr(
            standby, "_check", lambda: (_ for _ in ()).throw(StandbyRefused("its input is gone"))
        )
        return takes(standby, view, decision)

    monkeypatch.setattr(running.nodes["a"], "_take", refuse)
    running.end("c")
    assert running.primary() == "b"
    assert running.nodes["a"].note.reason == "its input is gone"
    running.wait(lambda: told_of(running, "a").state is NodeState.REFUSED, "a tells of it")
    with pytest.raises(StandbyRefused, match="its input is gone"):
        wait_until_warm(running.output, "a", timeout_s=30.0)


def test_a_takeover_that_fails_behind_the_fence_is_not_tried_again_and_again(
    running: NodeThreads,
) -> None:
    """The output was begun anew, while the input's consumer knows what the old one had."""
    running.start("a")
    running.primary()
    running.feed(100)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 100)))
    running.end("a")
    shutil.rmtree(running.output)
    running.start("b")
    running.wait(lambda: running.nodes["b"].note.state is NodeState.REFUSED, "b is refused")
    tenure = len(running.tenures())
    time.sleep(20 * KEEP_ALIVE.period_s)
    assert running.nodes["b"].note.state is NodeState.REFUSED
    assert len(running.tenures()) == tenure


@pytest.mark.parametrize("tenure", [b"", b'{"version": 2}'])
def test_a_lease_of_another_node_that_cannot_be_read_ends_no_node(
    running: NodeThreads, tenure: bytes
) -> None:
    running.start("a")
    running.primary()
    other = Path(running.output) / "leases" / "primary.node.c"
    other.mkdir()
    (other / f"{1:020d}").write_bytes(tenure)
    running.start("b")
    running.wait_ready("b")
    running.end("a")
    assert running.primary() == "b"


def told_of(running: NodeThreads, name: str) -> NodeNote:
    (lease,) = seen_leases(leases_of(running.output))
    return next(member.note for member in lease.nodes if member.name == name)


def test_a_standby_that_was_killed_while_warm_is_not_warm(tmp_path: Path) -> None:
    leases = leases_of(tmp_path)
    note = encode_note(NodeNote(NodeState.READY, 3, 3))
    lease = leases.hold(node_lease("primary", "a"), keep_alive=KEEP_ALIVE, note=lambda: note)
    assert wait_until_warm(tmp_path, "a", timeout_s=30.0)
    lease.abandon()
    assert not wait_until_warm(tmp_path, "a", timeout_s=0.2)


def test_standbys_are_listed_and_waited_for(running: NodeThreads) -> None:
    assert not wait_until_warm(running.output, timeout_s=0)
    running.start("a")
    running.primary()
    running.feed(50)
    running.start("b")
    assert wait_until_warm(running.output, timeout_s=30.0)
    assert wait_until_warm(running.output, "b", lag_max=0, timeout_s=30.0)
    assert wait_until_warm(running.output, "a", timeout_s=30.0), "the primary is warm"
    (lease,) = seen_leases(leases_of(running.output))
    assert (lease.name, lease.holder.holder, lease.holder.is_alive) == ("primary", "a", True)
    assert [(m.name, m.note.state, m.note.lag) for m in lease.nodes] == [
        ("a", NodeState.PRIMARY, 0), ("b", NodeState.READY, 0)
    ]  # fmt: skip
    running.end("b")
    assert not wait_until_warm(running.output, "b", timeout_s=0.1)


# -- bytes ------------------------------------------------------------------------------------

NOTE = NodeNote(NodeState.READY, 41, 43)
NOTE_BYTES = b'{"end": 43, "position": 41, "reason": "", "state": "ready"}'
ORDER = Order(3, True, "b", 7, False, "node:1", "0123456789abcdef" * 2)
ORDER_BYTES = (
    b'{"after": 7, "asked_by": "node:1", "even_if_behind": false, "is_paused": true, '
    b'"number": 3, "to": "b", "token": "0123456789abcdef0123456789abcdef", "version": 1}'
)


def test_bytes_of_notes_and_orders_are_as_the_format_says() -> None:
    assert encode_note(NOTE) == NOTE_BYTES
    assert decode_note(NOTE_BYTES) == NOTE
    assert decode_note(NOTE_BYTES.replace(b"{", b'{"later": 1, ')) == NOTE
    assert NOTE.lag == 2
    assert encode_document(ORDER) == ORDER_BYTES
    assert decode_order(ORDER_BYTES, "x") == ORDER


def test_a_long_reason_is_cut() -> None:
    note = decode_note(encode_note(NodeNote(NodeState.REFUSED, reason="ä" * 10_000)))
    assert note is not None
    assert note.reason == "ä" * 500


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", NOTE_BYTES.replace(b"ready", b"x"),
     NOTE_BYTES.replace(b"41", b"-1"), NOTE_BYTES.replace(b"41", b"4.5"),
     NOTE_BYTES.replace(b'""', b"1")],
)  # fmt: skip
def test_bytes_that_are_no_note_are_none(data: bytes) -> None:
    assert decode_note(data) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", ORDER_BYTES.replace(b"7", b"-7"),
     ORDER_BYTES.replace(b"true", b"1"), ORDER_BYTES.replace(b'"b"', b'"../b"'),
     ORDER_BYTES.replace(b'"to"', b'"whom"')],
)  # fmt: skip
def test_bytes_that_are_no_order_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="not the bytes of an order"):
        decode_order(data, "leases/primary/3.order")


def test_an_order_of_a_later_release_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        decode_order(ORDER_BYTES.replace(b'version": 1', b'version": 2'), "x")


def test_names_of_nodes_leases_are_read_back() -> None:
    assert node_of(node_lease("primary", "a.b-1")) == ("primary", "a.b-1")
    assert node_of("primary") is None
    assert node_of("primary.node.") is None


def test_of_two_orders_at_once_both_count(tmp_path: Path) -> None:
    objects = leases_of(tmp_path).objects("primary")
    first, second = Orders(objects), Orders(objects)
    first.newest()
    second.newest()
    first.give(lambda before: replace(before, is_paused=True))
    order = second.give(lambda before: replace(before, to="b", after=4))
    assert (order.number, order.is_paused, order.to) == (2, True, "b")
    assert first.newest() == order
    assert sorted(os.listdir(tmp_path / "leases" / "primary")) == [
        f"{number:020d}.order" for number in (1, 2)
    ]
    assert [entry.name for entry in LocalStore(tmp_path / "leases").list()] == ["primary"]
