"""The election of a node: by tables, and against a world of nodes with random histories."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.standby.lease_format import Cause
from cec_store.standby.leases import Sign
from cec_store.standby.nodes.election import Member, NodeRules, View, elect
from cec_store.standby.nodes.notes import NodeNote, NodeState
from cec_store.standby.nodes.orders import Order
from support.runs.counts import crash_count
from support.standby.node_world import SILENT_AFTER_S, World

pytestmark = pytest.mark.crash

RULES = NodeRules(lag_max=100, damping_s=30.0, turn_s=1.0)
END = 1_000


def member(name: str, position: int | None, state: NodeState = NodeState.READY,
           sign: Sign = Sign.ALIVE) -> Member:  # fmt: skip
    return Member(name, sign, NodeNote(state, position, END))


def view(me: str, **more: object) -> View:
    members = [member("a", 990), member("b", 1_000), member("c", 850)]
    return View(**{  # type: ignore[arg-type]
        "me": me, "sign": Sign.SILENT, "tenure": 7, "holder": "p", "members": members, "end": END,
        **more,
    })  # fmt: skip


def causes(rules: NodeRules = RULES, **more: object) -> dict[str, Cause | None]:
    return {me: elect(view(me, **more), rules).cause for me in "abc"}


def test_the_one_that_has_read_furthest_takes_over_at_once() -> None:
    assert causes() == {"a": None, "b": Cause.FAILOVER, "c": None}


def test_of_equal_ones_the_first_by_name_does() -> None:
    equal = [member(name, 1_000) for name in "cab"]
    assert causes(members=equal) == {"a": Cause.FAILOVER, "b": None, "c": None}


def test_the_next_one_waits_a_turn_for_each_that_is_ahead() -> None:
    assert causes(vacant_s=0.99)["a"] is None
    assert causes(vacant_s=1.0)["a"] is Cause.FAILOVER
    near = NodeRules(damping_s=30.0)
    assert causes(near, vacant_s=1.99)["c"] is None
    assert causes(near, vacant_s=2.0)["c"] is Cause.FAILOVER


def test_one_that_lags_too_far_never_takes_over_by_itself() -> None:
    assert causes(vacant_s=1e6)["c"] is None
    assert "lacks more than 100 records" in elect(view("c", vacant_s=1e6), RULES).reason


def test_one_that_is_silent_ended_or_refused_is_passed_over() -> None:
    for worst in (
        member("b", 1_000, sign=Sign.SILENT),
        member("b", 1_000, sign=Sign.RELEASED),
        member("b", 1_000, NodeState.REFUSED),
        member("b", 1_000, NodeState.PRIMARY),
    ):
        assert causes(members=[member("a", 990), worst])["a"] is Cause.FAILOVER


def test_nobody_takes_over_from_a_primary_that_is_at_work() -> None:
    told = Order(1, to="a", after=7)
    assert set(causes(sign=Sign.ALIVE, order=told).values()) == {None}


def test_a_failover_is_damped_and_a_handover_is_not() -> None:
    assert set(causes(failover_age_s=29.9, vacant_s=1e6).values()) == {None}
    assert "for 0.1 s more" in elect(view("b", failover_age_s=29.9), RULES).reason
    assert causes(failover_age_s=30.0)["b"] is Cause.FAILOVER
    assert causes(failover_age_s=1.0, sign=Sign.RELEASED)["b"] is Cause.HANDOVER


@pytest.mark.parametrize(
    "held_back", [{"failover_age_s": 1.0}, {"order": Order(1, is_paused=True)}]
)
def test_the_last_primary_goes_on_where_others_are_held_back(held_back: dict[str, object]) -> None:
    assert causes(holder="a", **held_back) == {"a": Cause.RESTART, "b": None, "c": None}


def test_an_order_is_for_one_node_and_one_tenure() -> None:
    told = Order(3, to="a", after=7)
    assert causes(order=told) == {"a": Cause.SWITCH, "b": None, "c": None}
    assert causes(order=told, sign=Sign.RELEASED)["a"] is Cause.SWITCH
    assert causes(order=Order(3, to="a", after=6))["b"] is Cause.FAILOVER
    # One that hangs is passed over after a turn, the best of the others first.
    assert causes(order=told, vacant_s=1.0)["b"] is Cause.FAILOVER


def test_an_order_is_carried_out_in_a_pause_and_under_damping() -> None:
    told = Order(3, is_paused=True, to="a", after=7)
    assert causes(order=told, failover_age_s=0.0)["a"] is Cause.SWITCH


def test_an_order_to_one_that_lags_too_far_needs_to_say_so() -> None:
    assert causes(order=Order(3, to="c", after=7)) == {
        "a": None, "b": Cause.FAILOVER, "c": None
    }  # fmt: skip
    told = Order(3, to="c", after=7, even_if_behind=True)
    assert causes(order=told)["c"] is Cause.SWITCH


def test_one_that_follows_nothing_comes_last_and_has_no_lag() -> None:
    cold = [member("a", None), member("b", 0)]
    assert causes(NodeRules(), members=cold)["b"] is Cause.FAILOVER
    assert causes(RULES, members=[member("a", None)], vacant_s=1e6)["a"] is None
    assert causes(NodeRules(), members=[member("a", None)])["a"] is Cause.FAILOVER


def test_before_the_first_primary_any_node_may_begin() -> None:
    first = [member(name, None, NodeState.WARMING) for name in "abc"]
    begun = causes(sign=Sign.NEVER, tenure=0, holder="", members=first, end=None)
    assert begun == {"a": Cause.START, "b": None, "c": None}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"lag_max": -1}, "lag_max=-1"), ({"lag_max": 1.5}, "lag_max=1.5"),
     ({"damping_s": -1}, "damping_s=-1"), ({"damping_s": math.nan}, "damping_s=nan"),
     ({"turn_s": "1"}, "turn_s='1'"), ({"turn_s": True}, "turn_s=True")],
)  # fmt: skip
def test_rules_that_nobody_can_keep_are_refused(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        NodeRules(**wrong)  # type: ignore[arg-type]


# -- random histories -------------------------------------------------------------------------


def disturb(world: World) -> None:
    rng = world.rng
    name = rng.choice(sorted(world.nodes))
    node = world.nodes[name]
    event = rng.random()
    if event < 0.3:
        (world.kill if node.is_up else world.restart)(name)
    elif event < 0.45 and node.is_up:
        world.wake(name) if node.is_stopped else setattr(node, "is_stopped", True)
    elif event < 0.6:
        node.reads = rng.choice([0, 1, 10, 1_000])
    elif event < 0.7 and world.tenures:
        world.told(to=name, after=world.tenures[-1].number, even_if_behind=rng.random() < 0.3)
    elif event < 0.8:
        world.told(is_paused=not world.order.is_paused)
    elif event < 0.9 and world.primary is not None and not world.primary.is_stopped:
        world.release()
    else:
        node.refuses = rng.random() < 0.2


def check_takeover(world: World) -> None:
    """Of the newest tenure: told, or allowed by the rules at the moment that it was decided."""
    made, before = world.tenures[-1], world.tenures[:-1]
    seen = world.decided_by
    assert seen is not None
    if made.cause is Cause.SWITCH:
        assert any(o.to == made.holder and o.after == before[-1].number for o in world.orders)
        return
    assert made.cause is Cause.RESTART or not seen.order.is_paused
    if made.cause is Cause.FAILOVER:
        last = [tenure.began_s for tenure in before if tenure.cause is Cause.FAILOVER]
        assert not last or made.began_s - last[-1] >= world.rules.damping_s
    if made.cause is Cause.RESTART:
        assert before[-1].holder == made.holder


def run_world(seed: int, steps: int) -> World:
    rng = random.Random(seed)
    rules = NodeRules(
        lag_max=rng.choice([None, 0, 100]), damping_s=rng.choice([0.0, 1.0, 5.0]),
        turn_s=rng.choice([0.2, 1.0]),
    )  # fmt: skip
    world = World("abc"[: rng.choice([2, 3, 3])], rules, rng)
    world.passes(0.05)
    for _ in range(steps):
        if rng.random() < 0.06:
            disturb(world)
        name = rng.choice(sorted(world.nodes))
        if rng.random() < 0.6:
            world.looks(name)
        elif world.acts(name) is not None:
            check_takeover(world)
        if rng.random() < 0.5:
            world.passes(rng.choice([0.01, 0.05, 0.1]))
    return world


@settings(max_examples=crash_count(60, 3_000), deadline=None)
@given(st.integers(0, 2**32))
def test_failovers_are_damped_in_any_history(seed: int) -> None:
    world = run_world(seed, 600)
    numbers = [tenure.number for tenure in world.tenures]
    assert numbers == [*range(1, len(numbers) + 1)]


@settings(max_examples=crash_count(60, 3_000), deadline=None)
@given(st.integers(0, 2**32))
def test_somebody_works_in_the_end_if_somebody_may(seed: int) -> None:
    world = run_world(seed, 300)
    world.told(is_paused=False, to=None)
    for name, node in world.nodes.items():
        world.restart(name)
        node.reads, node.refuses = 1_000_000, False
    rules = world.rules
    enough_s = SILENT_AFTER_S + rules.damping_s + len(world.nodes) * rules.turn_s + 1.0
    end_s = world.now_s + enough_s
    while world.now_s < end_s:
        world.passes(0.05)
        for name in world.nodes:
            world.looks(name)
        for name in world.nodes:
            world.acts(name)
    assert world.primary is not None


@settings(max_examples=crash_count(60, 1_000), deadline=None)
@given(st.integers(0, 2**32))
def test_the_most_caught_up_takes_over_after_a_kill(seed: int) -> None:
    """Nodes look in any order, and what they see of each other is at most a look old."""
    rng = random.Random(seed)
    world = World("abcd", NodeRules(damping_s=0.0, turn_s=1.0), rng)
    for name in world.nodes:
        world.passes(0.05)
        world.looks(name)
        world.acts(name)
    for node in world.nodes.values():
        node.reads = 0
    for _ in range(10):
        world.passes(0.1)
        name = rng.choice(sorted(world.nodes))
        world.nodes[name].position = rng.randint(world.nodes[name].position, world.end)
    primary = world.primary
    assert primary is not None
    world.kill(primary.name)
    world.passes(0.05)
    waiting = [node for node in world.nodes.values() if node is not primary]
    best = max(waiting, key=lambda node: (node.position, -ord(node.name)))
    while len(world.tenures) == 1:
        world.passes(0.05)
        for node in rng.sample(waiting, len(waiting)):
            world.looks(node.name)
            if rng.random() < 0.5:
                world.acts(node.name)
    assert world.tenures[-1].holder == best.name


def test_histories_have_all_that_they_are_to_show() -> None:
    worlds = [run_world(seed, 600) for seed in range(40)]
    causes_seen = {tenure.cause for world in worlds for tenure in world.tenures}
    assert causes_seen == {*Cause}
    assert sum(world.lost_races for world in worlds) > 3
    assert sum(world.seconds_best for world in worlds) > 3
