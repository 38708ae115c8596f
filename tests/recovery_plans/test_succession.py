"""Partial plans as executors arrive: each valid, nothing twice, and everything in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.recovery_plans import (
    Nodes,
    Operator,
    Partition,
    Topology,
    best_density,
    greedy,
    next_step,
    operator_centric,
    succession,
)
from cec_store.recovery_plans.plans import Planner
from support.recovery_plans.outages import Case, cases

pytestmark = pytest.mark.crash

PLANNERS: dict[str, Planner] = {
    "best density": best_density, "greedy": greedy, "operator-centric": operator_centric,
}  # fmt: skip


def arriving(case: Case, count: int) -> list[dict[str, float]]:
    """Each can take the dearest partition and a share of all of them, and a last one the rest."""
    total = case.cost(case.failed)
    dearest = max((case.cost([each]) for each in case.failed), default=0)
    capacity = (dearest + total / count) / 0.8
    return [*({f"n{n}": capacity} for n in range(count)), {"last": 2 * total / 0.8}]


@given(cases(), st.integers(1, 5), st.sampled_from(sorted(PLANNERS)))
def test_enough_executors_bring_everything_that_is_needed_back(
    case: Case, count: int, planner: str
) -> None:
    steps = succession(
        case.topology, case.failed, Nodes.of({}), arriving(case, count), PLANNERS[planner]
    )
    assert len(steps) == count + 2
    recovered = [partition for step in steps for partition in step.places]
    assert len(recovered) == len(set(recovered)), "nothing is recovered twice"
    queries = [query for step in steps for query in step.plan.queries]
    assert sorted(queries) == sorted(case.needs), "each query comes back once"
    assert steps[-1].plan.waiting == ()
    needed = set().union(*case.needs.values())
    assert set(steps[-1].failed) <= case.failed - needed


@given(cases(), st.integers(1, 5), st.sampled_from(sorted(PLANNERS)))
def test_each_step_has_what_its_queries_need_and_fits(case: Case, count: int, planner: str) -> None:
    steps = succession(
        case.topology, case.failed, Nodes.of({}), arriving(case, count), PLANNERS[planner]
    )
    there: set[Partition] = set()
    for step in steps:
        back = case.back(there)
        there |= step.places.keys()
        assert set(step.failed) == case.failed - there
        assert set(step.plan.queries) == case.back(there) - back
        assert set(step.plan.partitions) == step.places.keys()
        assert (step.nodes.used <= 0.8 * step.nodes.capacity * (1 + 1e-6)).all()
        assert step.nodes.used.sum() == pytest.approx(case.cost(there))


@given(cases(), st.sampled_from(sorted(PLANNERS)))
def test_partitions_are_placed_in_the_order_in_which_they_are_started(
    case: Case, planner: str
) -> None:
    node = Nodes.of({"all": case.cost(case.failed) + 1.0}, cap=1)
    step = next_step(case.topology, case.failed, node, PLANNERS[planner])
    assert list(step.plan.partitions) == list(step.places)


def line(*costs: float) -> Topology:
    """An operator that all others read, and queries of these costs."""
    return Topology.of([
        Operator("in", (1.0,)), *(Operator(f"q{n}", (cost,), ("in",)) for n, cost in
                                  enumerate(costs)),
    ])  # fmt: skip


def test_what_a_step_has_recovered_costs_the_next_one_nothing() -> None:
    topology = line(1.0, 2.0)
    arrivals = [{"a": 2.5}, {"b": 2.5}]
    _, first, second = succession(topology, topology.partitions, Nodes.of({}), arrivals)
    assert [str(each) for each in first.plan.partitions] == ["in/0", "q0/0"]
    assert [str(each) for each in second.plan.partitions] == ["q1/0"]
    assert second.places == {Partition("q1", 0): "b"}


def test_room_of_a_query_that_fits_at_no_one_node_goes_to_others() -> None:
    topology = Topology.of([
        Operator("large", (3.0,), (), (10.0,)), Operator("a", (2.0,)), Operator("b", (2.0,)),
    ])  # fmt: skip
    nodes = Nodes.of({"n0": 2.0, "n1": 2.0}, cap=1)
    step = next_step(topology, topology.partitions, nodes)
    assert {str(each) for each in step.places} == {"a/0", "b/0"}
    assert step.refused == (Partition("large", 0),)
    assert "large/0: fits at no one node" in str(step)
    assert "a/0 on n0" in str(step)


def test_what_has_its_place_is_not_planned_for_again() -> None:
    """The first plan has "large", which fits nowhere, and "a"; the second what is left."""
    topology = Topology.of([
        Operator("large", (3.0,), (), (10.0,)), Operator("a", (2.0,), (), (3.0,)),
        Operator("b", (2.0,)), Operator("c", (2.0,)),
    ])  # fmt: skip
    nodes = Nodes.of({"n0": 2.0, "n1": 2.0, "n2": 2.0}, cap=1)
    step = next_step(topology, topology.partitions, nodes)
    assert {str(each) for each in step.places} == {"a/0", "b/0", "c/0"}
    assert set(step.places.values()) == set(nodes.names)
    assert step.nodes.used.tolist() == [2, 2, 2]


def test_a_step_without_room_for_the_cheapest_query_waits_and_says_so() -> None:
    topology = line(1.0)
    step = next_step(topology, topology.partitions, Nodes.of({"a": 1.0}))
    assert step.places == {}
    assert (
        str(step) == "0 of 1 queries, 0 of 0.8 in room\n1 wait: the cheapest takes 2, 0.8 are left"
    )


def test_a_step_is_the_same_when_asked_again() -> None:
    topology = line(1.0, 2.0, 3.0)
    nodes = Nodes.of({"a": 5.0, "b": 2.5})
    first, again = (next_step(topology, topology.partitions, nodes) for _ in range(2))
    assert first.places == again.places
    after = next_step(topology, first.failed, first.nodes)
    assert after.places == {}, "there was room for no more"


def test_a_second_failure_is_a_step_with_more_that_is_down() -> None:
    topology = line(1.0, 2.0)
    first = next_step(topology, topology.partitions, Nodes.of({"a": 5.0}))
    lost = [each for each, node in first.places.items() if node == "a"]
    nodes = first.nodes.lost({"a"}).joined({"b": 5.0})
    second = next_step(topology, [*first.failed, *lost], nodes)
    assert set(second.places.values()) == {"b"}
    assert len(second.plan.queries) == 2
