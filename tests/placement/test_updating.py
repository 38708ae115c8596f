"""The threshold: as few copies move as keep the score within it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.placement import (
    CopyMove,
    Layout,
    baseline,
    correlated,
    costs,
    score,
    updated,
    violations,
)
from cec_store.placement.allocation import ROUNDING, carried, room_of_a_node
from cec_store.placement.layout import NOWHERE
from cec_store.placement.loads import mean_loads
from support.placement.layouts import Case, cases, made

pytestmark = pytest.mark.crash


@given(cases(), st.floats(0, 20))
def test_the_score_is_within_the_threshold_and_not_a_move_too_many_was_made(
    case: Case, threshold: float
) -> None:
    priced = costs(case.loads, case.layout)
    now = baseline(case.layout, case.copies, case.random)
    proposed = correlated(case.layout, case.loads, case.copies)
    found = updated(now, proposed, priced, threshold)
    assert found.score_before == pytest.approx(score(now, priced))
    assert found.score_after == pytest.approx(score(found.layout, priced))
    assert found.score_after - found.score_proposed <= threshold + 1e-6
    if found.moves:
        last = found.moves[-1]
        assert found.score_after + last.gain - found.score_proposed > threshold - 1e-6
    gains = [each.gain for each in found.moves]
    assert gains == sorted(gains, reverse=True)
    if threshold == 0:
        assert found.score_after == pytest.approx(found.score_proposed)


@given(cases(), st.floats(0, 5))
def test_constraint_1_holds_after_each_move(case: Case, threshold: float) -> None:
    now = baseline(case.layout, case.copies, case.random)
    proposed = correlated(case.layout, case.loads, case.copies)
    found = updated(now, proposed, costs(case.loads, case.layout), threshold)
    holders = now.holders.copy()
    for each in found.moves:
        assert holders[each.group, each.copy] == each.source
        holders[each.group, each.copy] = each.target
        assert violations(now.with_holders(holders)) == []
    assert np.array_equal(holders, found.layout.holders)


@given(cases(), st.floats(0, 20), st.sampled_from([1.0, 1.3, 2.0]))
def test_the_threshold_and_constraint_2_are_kept_together(
    case: Case, threshold: float, spread: float
) -> None:
    priced, weights = costs(case.loads, case.layout), mean_loads(case.loads)
    now = baseline(case.layout, case.copies, case.random)
    proposed = correlated(case.layout, case.loads, case.copies, spread=spread)
    room = room_of_a_node(weights, case.copies, len(case.layout.nodes), spread)
    found = updated(now, proposed, priced, threshold, weights=weights, room=room)
    most = np.maximum(room, carried(proposed, weights)) * (1 + 2 * ROUNDING)

    def keeps_both(moves: Sequence[CopyMove]) -> bool:
        holders = now.holders.copy()
        for move in moves:
            holders[move.group, move.copy] = move.target
        layout = now.with_holders(holders)
        within = score(layout, priced) - score(proposed, priced) <= threshold + 1e-6
        return within and bool((carried(layout, weights) <= most).all())

    assert keeps_both(found.moves)
    assert violations(found.layout) == []
    assert not any(keeps_both(found.moves[:count]) for count in range(len(found.moves)))
    free = updated(now, proposed, priced, threshold)
    assert list(found.moves[: len(free.moves)]) == list(free.moves)


def test_a_node_above_its_room_is_relieved_by_the_cheapest_moves_alone() -> None:
    """Copies of groups 0 to 3 are at b, where two have room; nothing else asks for a move."""
    nodes = ("a", "b", "c", "d")
    layout = Layout.of(dict.fromkeys(range(4), "a"), nodes, {group: ["b"] for group in range(4)})
    proposed = layout.with_holders(np.array([[1], [2], [3], [2]]))
    weights = np.ones(4)
    priced = np.array([[0.0, 0, 0, 0], [0, 0, 3, 3], [0, 0, 1, 1], [0, 0, 2, 2]])
    assert updated(layout, proposed, priced, 100.0).moves == ()
    found = updated(layout, proposed, priced, 100.0, weights=weights, room=2.0)
    assert [(move.group, move.target) for move in found.moves] == [(2, 3), (3, 2)]
    # The proposal itself breaks a room of 1, and is carried out as it is.
    found = updated(layout, proposed, priced, 100.0, weights=weights, room=1.0)
    assert np.array_equal(found.layout.holders, proposed.holders)
    with pytest.raises(ValueError, match="a room of 2 without the weights"):
        updated(layout, proposed, priced, 100.0, room=2.0)


def test_copies_that_are_missing_or_with_their_owner_are_made_whatever_the_threshold() -> None:
    case = made(8, 4, 5)
    priced = costs(case.loads, case.layout)
    proposed = correlated(case.layout, case.loads, 1)
    holders = baseline(case.layout, 1, case.random).holders
    holders[0], holders[1] = NOWHERE, case.layout.owner[1]
    found = updated(case.layout.with_holders(holders), proposed, priced, 1e9)
    assert [each.group for each in found.moves] == [0, 1]
    assert violations(found.layout) == []
    assert (found.layout.holders != NOWHERE).all()
    # As where there are none at all yet, or fewer than are proposed.
    first = updated(case.layout, proposed, priced, 1e9)
    assert np.array_equal(first.layout.holders, proposed.holders)


def test_copies_at_nodes_that_take_none_leave_whatever_the_threshold() -> None:
    case = made(12, 4, 7)
    may_hold = np.array([True, True, True, False])
    now = baseline(case.layout, 2, case.random)
    proposed = correlated(case.layout, case.loads, 1, may_hold=may_hold)
    found = updated(now, proposed, costs(case.loads, case.layout), 1e9, may_hold)
    assert (now.holders == 3).any()
    assert found.layout.holders.max() < 3
    # Of two copies one is kept: that which need not leave.
    assert found.moves == ()
    only_there = now.with_holders(np.where(now.owner == 3, 0, 3)[:, None])
    found = updated(only_there, proposed, costs(case.loads, case.layout), 1e9, may_hold)
    assert {each.source for each in found.moves} == {3}
    assert violations(found.layout) == []


@pytest.mark.parametrize("threshold", [0.0, 5.0])
def test_of_copies_that_are_too_many_the_proposed_one_is_kept(threshold: float) -> None:
    now = Layout.of({"g": "a"}, "abc", {"g": ["b", "c"]})
    proposed = now.with_holders(np.array([[2]]))
    found = updated(now, proposed, np.array([[0.0, 1.0, -1.0]]), threshold)
    assert (found.layout.holders.tolist(), found.moves) == ([[2]], ())


def test_a_proposal_for_something_else_is_refused() -> None:
    case, other = made(8, 4, 5), made(8, 4, 6)
    priced = costs(case.loads, case.layout)
    with pytest.raises(ValueError, match="other owners"):
        updated(case.layout, other.layout, priced)
    with pytest.raises(ValueError, match="other groups"):
        updated(case.layout, Layout.of({"g": 0}, [0, 1]), priced)
    with pytest.raises(ValueError, match="threshold is -1"):
        updated(case.layout, case.layout, priced, -1)


def test_groups_may_have_different_numbers_of_copies() -> None:
    """What is more than the proposal has leaves, and nothing goes nowhere."""
    nodes = ("a", "b", "c", "d")
    layout = Layout.of({0: "a", 1: "b", 2: "c"}, nodes, {0: ["b", "c"], 1: [], 2: ["a"]})
    loads = np.ones((3, 4))
    proposed = correlated(layout, loads, np.array([1, 2, 0]))
    assert (proposed.holders != NOWHERE).sum(axis=1).tolist() == [1, 2, 0]
    found = updated(layout, proposed, costs(loads, layout), threshold=100.0)
    names = found.layout.holder_names()
    assert [len(names[group]) for group in range(3)] == [1, 2, 0]
    assert names[0] in (("b",), ("c",)), "one that is there stays"
    assert violations(found.layout) == []
    with pytest.raises(ValueError, match="4 copies of each group, and 4 nodes"):
        correlated(layout, loads, np.array([1, 4, 0]))
