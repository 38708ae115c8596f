"""When groups move, and where to: what every plan holds, and each rule of its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.placement import (
    Layout,
    Nodes,
    Plan,
    Protocol,
    Rules,
    baseline,
    plan,
    usable_copies,
    violations,
)
from cec_store.placement.drafting import Draft
from support.placement.layouts import Case, cases

pytestmark = pytest.mark.crash

BALANCES = Rules(scales=False, fills=False)


def at_nodes(layout: Layout, load: np.ndarray, nodes: Nodes) -> np.ndarray:
    return load @ layout.owned + nodes.external


def carried_out(layout: Layout, found: Plan) -> Layout:
    """The moves, one after the other, each checked against who owns the group then."""
    for move in found.moves:
        group, target = layout.groups.index(move.group), layout.nodes.index(move.target)
        assert layout.nodes[layout.owner[group]] == move.source != move.target
        assert move.protocol.is_assisted == bool(layout.held[group, target])
        layout = layout.moved(group, target)
    return layout


def given_nodes(case: Case, fullness: float) -> Nodes:
    """Alike, and on average as full as this; one has other work, and one may not have groups."""
    random = case.random
    count = len(case.layout.nodes)
    nodes = Nodes.alike(count, max(1e-3, case.loads[:, 0].sum()) / count / fullness)
    nodes.external[random.integers(count)] = 0.3 * nodes.capacity[0]
    if count > 2:
        nodes.capacity[random.integers(count)] = 0
    nodes.draining[random.integers(count)] = random.random() < 0.3
    return nodes


@given(cases(groups_max=20), st.floats(0.1, 1.2), st.booleans())
def test_a_plan_can_be_carried_out_and_overloads_no_node(
    case: Case, fullness: float, scales: bool
) -> None:
    layout = baseline(case.layout, 1, case.random)
    load, nodes = case.loads[:, 0], given_nodes(case, fullness)
    rules = Rules(scales=scales, fills=scales)
    found = plan(layout, load, nodes, rules)
    after = carried_out(layout, found)
    assert np.array_equal(after.owner, found.layout.owner)
    assert np.array_equal(after.holders, found.layout.holders)
    assert violations(after) == []
    draining = {layout.nodes[n] for n in np.flatnonzero(nodes.draining)}
    assert not draining & {move.target for move in found.moves}
    forced = {move.target for move in found.moves if move.source in draining}
    limits = rules.overload * nodes.capacity * (1 + 1e-6)
    used, before = at_nodes(after, load, nodes), at_nodes(layout, load, nodes)
    for node, name in enumerate(layout.nodes):
        assert used[node] <= max(limits[node], before[node]) + 1e-6 or name in forced


@given(cases(groups_max=20), st.floats(0.3, 1.0))
def test_a_node_stays_overloaded_only_if_none_of_its_groups_fits_anywhere(
    case: Case, fullness: float
) -> None:
    nodes = Nodes.alike(len(case.layout.nodes), case.loads[:, 0].sum() / fullness / 3 + 1e-3)
    load = case.loads[:, 0]
    after = plan(case.layout, load, nodes, BALANCES).layout
    used = at_nodes(after, load, nodes)
    limit = BALANCES.overload * nodes.capacity[0]
    for node in np.flatnonzero(used > limit + 1e-6):
        for group in np.flatnonzero((after.owner == node) & (load > 0)):
            others = np.delete(used, node)
            assert (others + load[group] > limit - 1e-6).all()


@given(cases(groups_max=20), st.floats(0.05, 1.2), st.booleans())
def test_the_same_loads_come_to_rest(case: Case, fullness: float, paired: bool) -> None:
    layout, nodes = baseline(case.layout, 1, case.random), given_nodes(case, fullness)
    rules = Rules(paired=paired)
    for _ in range(2 * len(layout.groups) + 2 * len(layout.nodes)):
        found = plan(layout, case.loads[:, 0], nodes, rules)
        layout = found.layout
        for name in found.freed:
            nodes.draining[layout.nodes.index(name)] = True
        if not found.moves:
            return
    raise AssertionError(f"groups still move: {found}")


def test_nothing_is_done_where_nothing_is_overloaded() -> None:
    layout = Layout.of({"a": 0, "b": 1}, [0, 1], {"a": [1]})
    found = plan(layout, np.array([0.5, 0.4]), Nodes.alike(2))
    assert (found.moves, found.nodes_wanted, found.freed) == ((), 0, ())
    assert str(found) == "nothing to do"


def test_a_group_with_a_copy_where_there_is_room_goes_first() -> None:
    layout = Layout.of({"a": 0, "b": 0, "c": 1}, [0, 1, 2], {"a": [1], "b": [2]})
    found = plan(layout, np.array([0.5, 0.4, 0.6]), Nodes.alike(3), BALANCES)
    [move] = found.moves
    assert (move.group, move.target, move.protocol) == ("b", 2, Protocol.CPAL)
    assert str(move) == "b: 0 -> 2, cpal (0 is at 90%, above 80%)"
    assert found.layout.holder_names()["b"] == (0,)
    assert found.assisted == 1


def test_without_a_usable_copy_the_move_is_direct_and_to_the_emptiest_node() -> None:
    layout = Layout.of({"a": 0, "b": 0, "c": 1, "d": 2}, range(4), {"a": [1], "b": [1]})
    load, nodes = np.array([0.5, 0.4, 0.6, 0.2]), Nodes.alike(4)
    [move] = plan(layout, load, nodes, BALANCES).moves
    assert (move.target, move.protocol) == (3, Protocol.DIRECT)
    assert usable_copies(layout, load, nodes, 0.8) == (0, 2)
    assert usable_copies(layout, load, nodes, 0.9 - 1e-3) == (0, 2)
    assert usable_copies(layout, load, nodes, 0.9) == (0, 0)


def test_paired_nodes_move_groups_to_the_least_used_node_and_no_other() -> None:
    layout = Layout.of({"a": 0, "b": 0, "c": 1, "d": 2}, range(3), {"a": [1], "b": [1]})
    load, nodes = np.array([0.5, 0.4, 0.3, 0.2]), Nodes.alike(3)
    assert plan(layout, load, nodes, BALANCES).assisted == 1
    [move] = plan(layout, load, nodes, replace(BALANCES, paired=True)).moves
    assert (move.target, move.protocol) == (2, Protocol.DIRECT)
    there = Layout.of({"a": 0, "b": 0, "c": 1, "d": 2}, range(3), {"a": [2], "b": [1]})
    [move] = plan(there, load, nodes, replace(BALANCES, paired=True)).moves
    assert (move.group, move.protocol) == ("a", Protocol.CPAL)


def test_the_lightest_group_that_is_enough_alone_moves_or_else_the_heaviest() -> None:
    layout = Layout.of(dict.fromkeys("abc", 0), [0, 1])
    [move] = plan(layout, np.array([0.1, 0.3, 0.5]), Nodes.alike(2), BALANCES).moves
    assert move.group == "a", "0.1 is what is too much"
    moves = plan(layout, np.array([0.35, 0.4, 0.6]), Nodes.alike(2), BALANCES).moves
    assert [each.group for each in moves] == ["c"]
    moves = plan(layout, np.array([0.4, 0.45, 0.5]), Nodes.alike(2), BALANCES).moves
    assert [each.group for each in moves] == ["c"], "0.5 does not bring it to 0.8, but near"


def test_so_many_moves_and_no_more() -> None:
    layout = Layout.of(dict.fromkeys(range(10), 0), [0, 1])
    load = np.full(10, 0.15)
    found = plan(layout, load, Nodes.alike(2), Rules(moves_max=2))
    assert len(found.moves) == 2
    assert found.nodes_wanted == 0, "it is not known yet that they do not suffice"


def test_what_fits_nowhere_asks_for_nodes() -> None:
    layout = Layout.of({n: n % 2 for n in range(8)}, [0, 1])
    found = plan(layout, np.full(8, 0.4), Nodes.alike(2))
    # 1.6 on each: 0.8 too much on each, in nodes that are to be 0.7 full.
    assert found.moves == ()
    assert found.nodes_wanted == 3
    assert str(found) == "3 more nodes are needed"
    assert plan(layout, np.full(8, 0.4), Nodes.alike(2), BALANCES).nodes_wanted == 0


def test_a_node_that_joins_gets_its_fair_share_copies_first() -> None:
    layout = Layout.of({n: n % 2 for n in range(12)}, [0, 1, 2], {3: [2], 4: [2]})
    found = plan(layout, np.full(12, 0.01), Nodes.alike(3))
    assert np.bincount(found.layout.owner).tolist() == [4, 4, 4]
    assert {move.group for move in found.moves[:2]} == {3, 4}
    assert all(move.reason == "2 owns too few" for move in found.moves)
    assert plan(found.layout, np.full(12, 0.01), Nodes.alike(3), Rules(scales=False)).moves == ()


def test_the_fullest_node_is_relieved_first() -> None:
    layout = Layout.of({"a": 0, "a2": 0, "b": 1, "b2": 1, "c": 2}, range(3))
    found = plan(layout, np.array([0.3, 0.6, 0.4, 0.6, 0.4]), Nodes.alike(3), BALANCES)
    assert [(move.group, move.target) for move in found.moves] == [("b", 2)]


def test_a_draft_knows_where_copies_are_after_a_move() -> None:
    layout = Layout.of({"a": 0}, [0, 1], {"a": [1]})
    draft = Draft(layout, np.array([0.5]), Nodes.alike(2), Rules())
    draft.move(0, 1, "there")
    draft.move(0, 0, "and back")
    assert [each.protocol.is_assisted for each in draft.moves] == [True, True]
    assert draft.at_node.tolist() == [0.5, 0]
    assert np.array_equal(draft.held, draft.layout.held)


def test_a_node_that_drains_is_emptied_even_beyond_the_threshold() -> None:
    layout = Layout.of({"a": 0, "idle": 0, "b": 1}, [0, 1])
    nodes = Nodes.alike(2)
    nodes.draining[0] = True
    found = plan(layout, np.array([0.5, 0.0, 0.5]), nodes)
    assert found.layout.owner.tolist() == [1, 1, 1]
    assert found.freed == (0,)
    assert "0: can be freed" in str(found)


def test_idle_nodes_are_freed_one_at_a_time_down_to_the_least() -> None:
    layout, nodes = Layout.of({n: n % 3 for n in range(6)}, range(3)), Nodes.alike(3)
    load = np.array([0.02, 0.05, 0.05, 0.02, 0.05, 0.05])
    found = plan(layout, load, nodes)
    assert found.freed == (0,)
    assert 0 not in found.layout.owner
    assert plan(layout, load, nodes, Rules(nodes_min=3)).freed == ()
    assert plan(layout, load * 8, nodes).freed == (), "busy ones are kept"
    fuller = np.array([0.2, 0.2, 0.3, 0.1, 0.0, 0.2])
    assert plan(layout, fuller, nodes, Rules(underload=0.4)).freed == (1,)
    assert plan(layout, fuller, nodes, Rules(underload=0.4, aim=0.45)).freed == (), "too full then"
    assert plan(layout, load, nodes, Rules(moves_max=1)).moves == (), "wholly, or not at all"


def test_a_plan_moves_a_group_once() -> None:
    """Of two moves of one, the first alone would be done, or the second directly."""
    layout = Layout.of({"g": "A", "h": "A", "k": "B", "l": "B"}, "ABC", {"g": ["B"]})
    found = plan(layout, np.array([0.5, 0.5, 0.1, 0.1]), Nodes.alike(3))
    assert len({move.group for move in found.moves}) == len(found.moves) == 2
    every = Layout.of(dict.fromkeys("abc", "A"), "ABC", {group: ["B"] for group in "abc"})
    nodes = Nodes.alike(3)
    nodes.draining[0] = True
    found = plan(every, np.array([0.4, 0.4, 0.4]), nodes)
    assert sorted(move.group for move in found.moves) == ["a", "b", "c"]


def test_a_node_with_as_many_groups_as_may_move_is_freed() -> None:
    layout, nodes = Layout.of({"a": 0, "b": 1}, [0, 1]), Nodes.alike(2)
    found = plan(layout, np.array([0.0, 0.1]), nodes, Rules(moves_max=1, fills=False))
    assert found.freed == (0,)


def test_rules_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="in this order"):
        Rules(overload=0.5, aim=0.7)
    with pytest.raises(ValueError, match="in this order"):
        Rules(underload=0)
    with pytest.raises(ValueError, match="nodes_min 0"):
        Rules(nodes_min=0)
    with pytest.raises(ValueError, match="assisted is direct"):
        Rules(assisted=Protocol.DIRECT)


def test_loads_and_nodes_that_do_not_fit_are_refused() -> None:
    layout = Layout.of({"a": 0, "b": 1}, [0, 1])
    with pytest.raises(ValueError, match="2 groups on 2 nodes"):
        plan(layout, np.ones(3), Nodes.alike(2))
    with pytest.raises(ValueError, match="2 groups on 2 nodes"):
        plan(layout, np.ones(2), Nodes.alike(3))
    with pytest.raises(ValueError, match="finite numbers"):
        plan(layout, np.array([1, np.nan]), Nodes.alike(2))
    with pytest.raises(ValueError, match="different lengths"):
        Nodes(np.ones(2), np.ones(3), np.zeros(2, np.bool_))
    with pytest.raises(ValueError, match="external has to be"):
        Nodes(np.ones(2), -np.ones(2), np.zeros(2, np.bool_))
