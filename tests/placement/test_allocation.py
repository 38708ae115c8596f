"""Where copies go: the constraints, Algorithm 3 beside the exact optimum, and bad input."""

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.placement import Layout, baseline, correlated, costs, even, score, violations
from cec_store.placement.allocation import algorithm_3, carried, least_spread, room_of_a_node
from cec_store.placement.layout import NOWHERE
from cec_store.placement.loads import mean_loads
from support.placement.layouts import Case, cases, made

pytestmark = pytest.mark.crash


def allocations(case: Case, spread: float = math.inf) -> dict[str, Layout]:
    layout, copies = case.layout, case.copies
    return {
        "baseline": baseline(layout, copies, case.random),
        "even": even(layout, copies, case.random),
        "correlated": correlated(layout, case.loads, copies, spread=spread),
    }


@given(cases(), st.sampled_from([1.0, 1.5, math.inf]))
def test_no_copy_is_with_its_group_or_with_another_of_its_copies(case: Case, spread: float) -> None:
    for name, found in allocations(case, spread).items():
        assert violations(found) == [], name
        assert (found.holders != NOWHERE).all()
        assert found.holders.shape == (len(case.layout.groups), case.copies)


@given(cases())
def test_an_even_distribution_is_even_wherever_owners_allow_it(case: Case) -> None:
    case = replace(case, copies=1)
    nodes, groups = len(case.layout.nodes), len(case.layout.groups)
    counts = even(case.layout, 1, case.random).held.sum(axis=0)
    most = math.ceil(groups / nodes)
    # Hall: groups of one owner have all nodes but one; groups of two owners have all.
    of_one_owner = np.bincount(case.layout.owner, minlength=nodes).max()
    if of_one_owner <= (nodes - 1) * most:
        assert counts.max() <= most
    else:
        assert np.clip(counts - most, 0, None).sum() == of_one_owner - (nodes - 1) * most


@given(cases(), st.sampled_from([1.0, 1.2, 2.0]))
def test_spread_gives_way_only_to_a_copy_that_no_node_has_room_for(
    case: Case, spread: float
) -> None:
    found = correlated(case.layout, case.loads, case.copies, spread=spread)
    weights = mean_loads(case.loads)
    room = room_of_a_node(weights, case.copies, len(case.layout.nodes), spread)
    load = carried(found, weights)
    free = ~found.held & ~found.owned
    for node in np.flatnonzero(load > room):
        stuck = [
            group for group in np.flatnonzero(found.held[:, node])
            if not (free[group] & (load + weights[group] <= room)).any()
        ]  # fmt: skip
        assert stuck, f"node {node} has {load[node]} of {room}"


@given(cases(groups_max=8, nodes_max=5))
def test_without_a_bound_algorithm_3_is_the_optimum(case: Case) -> None:
    pytest.importorskip("scipy")
    from cec_store.placement import optimum

    priced = costs(case.loads, case.layout)
    ours = correlated(case.layout, case.loads, case.copies)
    best = optimum(case.layout, case.loads, case.copies)
    assert violations(best) == []
    assert score(ours, priced) == pytest.approx(score(best, priced), abs=1e-6)


@given(cases(groups_max=8, nodes_max=5), st.sampled_from([1.2, 1.5, 2.0]))
def test_under_a_bound_nothing_is_better_than_the_optimum(case: Case, spread: float) -> None:
    pytest.importorskip("scipy")
    from cec_store.placement import optimum

    layout, loads = case.layout, case.loads
    priced, weights = costs(loads, layout), mean_loads(loads)
    room = room_of_a_node(weights, case.copies, len(layout.nodes), spread)
    found = allocations(case, spread)
    within = {name: each for name, each in found.items() if carried(each, weights).max() <= room}
    try:
        best = optimum(layout, loads, case.copies, spread=spread)
    except ValueError:
        assert not within, "the optimum holds where another allocation does"
        return
    assert carried(best, weights).max() <= room * (1 + 1e-6)
    for name, each in within.items():
        assert score(best, priced) <= score(each, priced) + 1e-6, name


def test_algorithm_3_comes_near_the_optimum_under_a_bound() -> None:
    pytest.importorskip("scipy")
    from cec_store.placement import optimum

    shares = []
    for seed in range(10):
        case = made(16, 5, seed)
        priced = costs(case.loads, case.layout)
        ours = score(correlated(case.layout, case.loads, spread=1.5), priced)
        best = score(optimum(case.layout, case.loads, spread=1.5), priced)
        random = score(even(case.layout, 1, case.random), priced)
        assert best < 0
        shares.append((ours - random) / (best - random))
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_the_optimum_is_one_in_any_unit(unit: float) -> None:
    pytest.importorskip("scipy")
    from cec_store.placement import optimum

    case = made(24, 6, 3)
    in_ones = optimum(case.layout, case.loads, spread=1.3)
    other = optimum(case.layout, case.loads * unit, spread=1.3)
    priced = costs(case.loads, case.layout)
    assert score(other, priced) == pytest.approx(score(in_ones, priced), abs=1e-6)
    weights = mean_loads(case.loads)
    assert carried(other, weights).max() <= room_of_a_node(weights, 1, 6, 1.3) * (1 + 1e-6)


def test_copies_stand_where_load_falls_while_that_of_their_group_rises() -> None:
    rising, falling = np.arange(10.0), np.arange(10.0)[::-1]
    layout = Layout.of({"a": 0, "b": 1, "c": 2}, [0, 1, 2])
    found = correlated(layout, np.array([rising, falling, np.full(10, 5.0)]))
    assert found.holder_names()["a"] == (1,)
    assert found.holder_names()["b"] == (0,)


def test_groups_without_correlation_are_spread_by_load() -> None:
    owners = {f"g{n}": n % 4 for n in range(40)}
    layout = Layout.of(owners, range(4))
    found = correlated(layout, np.ones((40, 10)))
    assert found.held.sum(axis=0).tolist() == [10, 10, 10, 10]


def test_the_copy_that_loses_most_goes_first() -> None:
    # Two groups want the node with room for one: "b" has more to lose.
    times = np.linspace(0, 2 * np.pi, 40)
    up, down = 2 + np.sin(times), 2 - np.sin(times)
    mixed = 2 + 0.5 * np.sin(times) + np.cos(3 * times)
    layout = Layout.of({"a": 0, "b": 0, "down": 1, "flat": 2}, [0, 1, 2])
    loads = np.array([mixed, up, down, np.full(40, 2.0)])
    found = correlated(layout, loads, spread=1.0).holder_names()
    assert found["b"] == (1,)
    assert found["a"] != (1,)


def places(priced: list[list[float]], allowed: list[str], room: float) -> list[int]:
    """Of one copy of each group, all of load 1."""
    may = np.array([[each == "1" for each in row] for row in allowed])
    found = algorithm_3(np.array(priced), np.ones(len(priced)), may, 1, room)
    return [int(node) for [node] in found]


def test_what_is_lost_next_decides_once_the_best_place_is_taken() -> None:
    # The last two both lose node 0; then the third would lose 9 without node 1, the second 0.5.
    priced = [[-20, -1, 0], [-10, -8, -7.5], [-10, -9, 0]]
    assert places(priced, ["111"] * 3, room=1) == [0, 2, 1]


def test_a_copy_that_has_one_place_left_goes_before_those_that_have_a_choice() -> None:
    priced = [[-20, 0, 0, 0], [0, -15, 0, 0], [-9, -4, -1, 0], [0, 0, -0.3, 0]]
    assert places(priced, ["1111", "1111", "1110", "0011"], room=1) == [0, 1, 2, 3]


def test_a_copy_that_fits_nowhere_goes_to_its_cheapest_place() -> None:
    assert places([[-5, -1, -3]], ["011"], room=0.5) == [2]
    assert places([[-5, -3, -3], [-5, -3, -3]], ["011"] * 2, room=0.5) == [1, 2], "or least load"


def test_copies_go_only_to_nodes_that_take_them() -> None:
    case = made(20, 5, 1)
    may_hold = np.array([True, True, True, False, False])
    for found in (
        baseline(case.layout, 2, case.random, may_hold),
        even(case.layout, 2, case.random, may_hold),
        correlated(case.layout, case.loads, 2, may_hold=may_hold),
    ):
        assert found.holders.max() == 2
        assert violations(found) == []


def test_more_copies_than_nodes_to_take_them_are_refused_in_numbers() -> None:
    case = made(6, 3, 0)
    for allocate in (
        lambda: baseline(case.layout, 3, case.random),
        lambda: even(case.layout, 3, case.random),
        lambda: correlated(case.layout, case.loads, 3),
    ):
        with pytest.raises(ValueError, match=r"3 copies of each group, and 3 nodes.*at most 2"):
            allocate()


def test_what_cannot_be_meant_is_refused() -> None:
    case = made(6, 3, 0)
    with pytest.raises(ValueError, match="copies is -1"):
        even(case.layout, -1, case.random)
    with pytest.raises(ValueError, match=r"spread is 0\.5"):
        correlated(case.layout, case.loads, spread=0.5)
    with pytest.raises(ValueError, match="6 groups, but loads of shape"):
        correlated(case.layout, case.loads[1:])
    with pytest.raises(ValueError, match="finite numbers"):
        correlated(case.layout, -case.loads)
    with pytest.raises(ValueError, match="may_hold of shape"):
        correlated(case.layout, case.loads, may_hold=np.ones(2, np.bool_))


def spreads_of_all_allocations(layout: Layout, copies: np.ndarray, may_hold: np.ndarray) -> float:
    """The least ratio of the fullest node to the average, over all allocations and loads.

    Loads of 0 and 1 are enough, because no ratio is below that of equal loads on some groups.
    """
    nodes = np.flatnonzero(may_hold)
    options = [
        list(combinations([n for n in nodes if n != owner], count))
        for owner, count in zip(layout.owner.tolist(), copies.tolist(), strict=True)
    ]
    ratios = []
    for places in product(*options):
        held = np.array([[n in at for n in range(len(layout.nodes))] for at in places], float)
        for weights in product([0.0, 1.0], repeat=len(places)):
            load = np.array(weights) @ held
            if load.sum():
                ratios.append(load.max() / (load.sum() / len(nodes)))
    return min(ratios, default=1.0)


@given(
    st.integers(2, 4).flatmap(
        lambda nodes: st.tuples(
            st.just(nodes),
            st.lists(st.integers(0, nodes - 1), min_size=1, max_size=4),
            st.lists(st.booleans(), min_size=nodes, max_size=nodes),
            st.sampled_from([1, 2]),
        )
    )
)
def test_the_least_spread_is_that_of_all_allocations_and_loads(
    case: tuple[int, list[int], list[bool], int],
) -> None:
    nodes, owners, holding, most = case
    layout = Layout.of(dict(enumerate(owners)), range(nodes))
    may_hold = np.array(holding)
    places = [sum(holding) - holding[owner] for owner in owners]
    copies = np.minimum(places, most)
    least, brute = least_spread(layout, copies, may_hold), 0.0
    brute = spreads_of_all_allocations(layout, copies, may_hold)
    assert least <= brute + 1e-9
    if copies.max() <= 1:
        assert least == pytest.approx(brute)


def test_no_groups_are_no_copies() -> None:
    layout = Layout.of({}, ["n"])
    assert correlated(layout, np.zeros((0, 5)), 0).holders.shape == (0, 0)
    assert even(Layout.of({"g": "n"}, ["n"]), 0, np.random.default_rng(1)).holders.shape == (1, 0)


def test_an_optimum_that_holds_no_constraint_is_refused() -> None:
    pytest.importorskip("scipy")
    from cec_store.placement import optimum

    layout = Layout.of({"a": 0, "b": 0}, [0, 1])
    with pytest.raises(ValueError, match="no allocation holds both constraints"):
        optimum(layout, np.ones((2, 4)), spread=1.0)
