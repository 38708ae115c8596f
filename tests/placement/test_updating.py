"""The threshold: as few copies move as keep the score within it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.placement import Layout, baseline, correlated, costs, score, updated, violations
from cec_store.placement.layout import NOWHERE
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
