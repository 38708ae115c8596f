"""Layouts, loads and correlations: what names come to, and what cannot be meant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.placement import (
    Layout,
    LoadHistory,
    Reading,
    baseline,
    correlations,
    costs,
    score,
    violations,
)
from cec_store.placement.layout import NOWHERE
from support.placement.layouts import Case, cases, made


def test_a_copy_that_helps_nobody_does_not_count() -> None:
    layout = Layout.of(
        {"a": "n1", "b": "gone", "c": None},
        ["n1", "n2", "n3"],
        {"a": ["n2", "n1", "n2", "gone"], "b": ["n1", "n3"]},
    )
    assert layout.owner.tolist() == [0, NOWHERE, NOWHERE]
    assert layout.holder_names() == {"a": ("n2",), "b": ("n1", "n3"), "c": ()}
    assert violations(layout) == []
    assert layout.owned.sum() == 1


def test_violations_are_named() -> None:
    layout = Layout(("a", "b"), ("n", "m"), np.array([0, 1]), np.array([[0, 1], [0, 0]]))
    assert violations(layout) == [
        "n processes a and holds a copy of it", "two copies of b are at one node",
    ]  # fmt: skip


def test_an_assisted_move_leaves_a_copy_behind() -> None:
    layout = Layout.of({"a": 0}, [0, 1, 2, 3], {"a": [1, 2]})
    assert layout.moved(0, 1).holder_names() == {"a": (0, 2)}
    assert layout.moved(0, 3).holder_names() == {"a": (1, 2)}
    assert layout.moved(0, 3).owner.tolist() == [3]
    assert layout.owner.tolist() == [0], "a layout never changes"


def test_after_a_direct_move_the_old_owner_has_a_copy_where_one_is_lacking() -> None:
    layout = Layout.of({"a": 0, "b": 0}, [0, 1, 2, 3], {"a": [1, 2], "b": [1]})
    assert layout.moved(1, 3).holder_names() == {"a": (1, 2), "b": (1, 0)}
    assert layout.moved(0, 3).holder_names() == {"a": (1, 2), "b": (1,)}
    without = Layout.of({"a": 0}, [0, 1])
    assert without.moved(0, 1).holder_names() == {"a": ()}
    lost = Layout.of({"a": None, "b": 0}, [0, 1], {"b": [1]})
    assert lost.moved(0, 1).holder_names() == {"a": (), "b": (1,)}


@given(cases(), st.data())
def test_constraint_1_holds_after_any_moves_and_no_copy_is_lost(
    case: Case, data: st.DataObject
) -> None:
    nodes, groups = len(case.layout.nodes), len(case.layout.groups)
    layout = baseline(case.layout, case.copies, case.random)
    lacking = data.draw(st.lists(st.integers(0, groups - 1), max_size=3))
    holders = layout.holders.copy()
    holders[lacking, 0] = NOWHERE
    layout = layout.with_holders(holders)
    for group in data.draw(st.lists(st.integers(0, groups - 1), max_size=6)):
        target = data.draw(st.integers(0, nodes - 1))
        before, owner = set(layout.holders[group].tolist()), int(layout.owner[group])
        if target == owner:
            continue
        layout = layout.moved(group, target)
        now = set(layout.holders[group].tolist())
        assert violations(layout) == []
        assert now - {NOWHERE} >= before - {NOWHERE, target}
        assert (owner in now) is (target in before or NOWHERE in before)


@pytest.mark.parametrize(("owner", "holders", "said"), [
    ([0], [[0], [0]], "shape"), ([0, 2], [[0], [0]], "2 nodes"), ([0, 1], [[0], [-2]], "2 nodes"),
])  # fmt: skip
def test_a_layout_of_other_nodes_is_refused(
    owner: list[int], holders: list[list[int]], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Layout(("a", "b"), ("n", "m"), np.array(owner), np.array(holders))


def test_a_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="named twice"):
        Layout.of({"a": 0}, [0, 0])


@given(cases())
def test_correlations_are_pearsons(case: Case) -> None:
    found = correlations(case.loads, case.layout, least=0)
    at_node = case.layout.owned.T @ case.loads
    for group, load in enumerate(case.loads):
        for node, total in enumerate(at_node):
            if np.std(load) < 1e-9 or np.std(total) < 1e-9:
                assert found[group, node] == 0
            else:
                expected = np.corrcoef(load, total)[0, 1]
                assert found[group, node] == pytest.approx(expected, abs=1e-6)


def test_correlations_with_groups_are_those_of_pairs() -> None:
    case = made(5, 2, 3)
    pairs = np.nan_to_num(np.corrcoef(case.loads))
    pairs[case.loads.std(axis=1) < 1e-9] = 0
    mean = correlations(case.loads, case.layout, Reading.GROUPS, least=0)
    total = correlations(case.loads, case.layout, Reading.SUM, least=0)
    for node in range(2):
        there = case.layout.owner == node
        assert total[:, node] == pytest.approx(pairs[:, there].sum(axis=1), abs=1e-6)
        assert mean[:, node] * max(1, there.sum()) == pytest.approx(total[:, node], abs=1e-6)


def test_a_correlation_that_chance_gives_is_none() -> None:
    layout = Layout.of({n: n for n in range(40)}, range(40))
    loads = np.random.default_rng(1).random((40, 90))
    others = correlations(loads, layout)[~np.eye(40, dtype=bool)]
    assert 0.01 < (others != 0).mean() < 0.1
    assert (correlations(loads, layout, least=0)[~np.eye(40, dtype=bool)] != 0).all()
    assert (correlations(loads[:, :2], layout) == 0).all(), "two samples say nothing"


def test_a_node_without_groups_correlates_with_none() -> None:
    layout = Layout.of({"a": 0, "b": 0}, [0, 1])
    assert correlations(np.random.default_rng(1).random((2, 9)), layout)[:, 1].tolist() == [0, 0]


def test_a_copy_that_is_nowhere_scores_as_at_the_dearest_node() -> None:
    case = made(6, 4, 2)
    priced = costs(case.loads, case.layout)
    nowhere = case.layout.with_holders(np.full((6, 1), NOWHERE))
    dearest = np.maximum(0, priced.max(axis=1)).sum()
    assert score(nowhere, priced) == pytest.approx(dearest)
    assert score(case.layout, priced) == 0


def test_a_history_keeps_the_newest_samples() -> None:
    history = LoadHistory(3)
    for number in range(5):
        history.add({"a": number, **({"b": 10 * number} if number > 2 else {})})
    assert len(history) == 3
    assert history.series(["b", "a"]).tolist() == [[0, 30, 40], [2, 3, 4]]
    assert LoadHistory().series(["a"]).shape == (1, 0)


def test_a_load_that_is_none_is_refused_and_nothing_is_added() -> None:
    history = LoadHistory()
    for load in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="the load of b"):
            history.add({"a": 1.0, "b": load})
    assert len(history) == 0
    with pytest.raises(ValueError, match="at least 2"):
        LoadHistory(1)
