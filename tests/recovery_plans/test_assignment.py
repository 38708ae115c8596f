"""Which node recovers what: room, the cap, and queries that fit at no one node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.recovery_plans import (
    Nodes,
    Operator,
    Outage,
    Partition,
    Topology,
    assign,
    best_density,
    operator_centric,
)
from cec_store.recovery_plans.plans import Planner
from support.recovery_plans.outages import Case, cases

pytestmark = pytest.mark.crash


def outage_of(*operators: Operator) -> Outage:
    topology = Topology.of(operators)
    return Outage.of(topology, topology.partitions)


def nodes_for(case: Case, count: int, spare: float) -> Nodes:
    """Alike, with room for the case's room in all, and a quarter of their capacity used."""
    capacity = spare * case.room / count / 0.55
    names = [f"n{n}" for n in range(count)]
    return Nodes.of(dict.fromkeys(names, capacity), dict.fromkeys(names, capacity / 4))


@given(cases(), st.integers(1, 4), st.sampled_from([1.0, 2.0]))
def test_no_node_is_filled_beyond_its_cap(case: Case, count: int, spare: float) -> None:
    outage, nodes = case.outage, nodes_for(case, count, spare)
    planners: tuple[Planner, ...] = (best_density, operator_centric)
    for planner in planners:
        plan = planner(outage, case.room)
        found = assign(outage, plan, nodes)
        used = dict(zip(nodes.names, nodes.used.tolist(), strict=True))
        for partition, node in found.places.items():
            used[node] += case.cost([partition])
        assert found.nodes.used == pytest.approx(np.array(list(used.values())))
        assert (found.nodes.used <= 0.8 * nodes.capacity * (1 + 1e-6)).all()


@given(cases(), st.integers(1, 4), st.sampled_from([1.0, 2.0]))
def test_a_query_goes_whole_or_not_at_all(case: Case, count: int, spare: float) -> None:
    outage = case.outage
    plan = best_density(outage, case.room)
    found = assign(outage, plan, nodes_for(case, count, spare))
    assert set(plan.queries) - set(found.refused) <= case.back(found.places)
    placed = [case.needs[each] for each in plan.queries if each not in found.refused]
    assert set(found.places) == set().union(*placed)
    first = [min(n for n, needed in enumerate(placed) if each in needed) for each in found.places]
    assert first == sorted(first), "query after query"


@given(cases(), st.integers(1, 4))
def test_operator_centric_plans_place_nothing_whose_input_is_down(case: Case, count: int) -> None:
    outage, topology = case.outage, case.topology
    plan = operator_centric(outage, case.room)
    found = assign(outage, plan, nodes_for(case, count, 1.0))
    down = case.failed - found.places.keys()
    assert set(found.places) <= set(plan.partitions)
    for each in found.places:
        read = topology.upstream.of(topology.index[each])
        assert not {topology.partitions[place] for place in read} & down


def test_each_partition_goes_to_the_node_with_the_most_room() -> None:
    outage = outage_of(*(Operator(f"q{n}", (float(cost),)) for n, cost in enumerate([1, 2, 4])))
    nodes = Nodes.of({"small": 5, "large": 10}, {"large": 1})
    found = assign(outage, best_density(outage, 7), nodes)
    # 4 and 7 in room: the large one takes 1 and 2 and has 4, as the small one, which is first.
    places = {each.operator: node for each, node in found.places.items()}
    assert places == {"q0": "large", "q1": "large", "q2": "small"}
    assert found.nodes.room.tolist() == [0, 4]
    assert found.refused == ()


def test_the_dearest_partition_of_a_query_goes_first() -> None:
    outage = outage_of(Operator("q", (3.0,), ("in",)), Operator("in", (1.0,)))
    found = assign(outage, best_density(outage, 4), Nodes.of({"a": 3, "b": 2}, cap=1))
    assert {str(each): node for each, node in found.places.items()} == {"q/0": "a", "in/0": "b"}
    assert next(iter(found.places)) == Partition("in", 0), "what others read starts first"


def test_a_query_that_does_not_go_whole_takes_nothing_from_others() -> None:
    outage = outage_of(Operator("large", (1.5, 1.5), (), ()), Operator("end", (1.0,), ("large",),
                       (9.0,)), Operator("other", (2.0,)))  # fmt: skip
    found = assign(outage, best_density(outage, 6), Nodes.of({"a": 2, "b": 2}, cap=1))
    assert found.refused == (Partition("end", 0),)
    assert found.places == {Partition("other", 0): "a"}


def test_what_reads_a_partition_that_fits_nowhere_is_not_placed() -> None:
    outage = outage_of(
        Operator("in", (3.0,)), Operator("inner", (1.0,), ("in",)), Operator("q", (9.0,),
                                                                           ("inner",)),
    )  # fmt: skip
    plan = operator_centric(outage, 4)
    assert [each.operator for each in plan.partitions] == ["in", "inner"]
    assert assign(outage, plan, Nodes.of({"a": 2, "b": 2}, cap=1)).places == {}


def test_a_query_that_fits_at_no_one_node_leaves_its_inputs_to_others() -> None:
    outage = outage_of(
        Operator("large", (1.0, 3.0), (), (9.0, 9.0)), Operator("q", (2.0,), ("large",)),
        Operator("other", (1.0,)),
    )  # fmt: skip
    nodes = Nodes.of({"a": 2.5, "b": 2.5}, cap=1)
    found = assign(outage, best_density(outage, 7), nodes)
    assert {str(each) for each in found.refused} == {"large/1", "q/0"}
    assert {str(each) for each in found.places} == {"large/0", "other/0"}


def test_without_nodes_every_query_is_refused() -> None:
    outage = outage_of(Operator("q"))
    found = assign(outage, best_density(outage, 1), Nodes.of({}))
    assert found.places == {}
    assert found.refused == (Partition("q", 0),)


def test_nodes_join_and_are_lost() -> None:
    nodes = Nodes.of({"a": 10.0}, {"a": 9.0}).joined({"b": 5.0})
    assert nodes.room.tolist() == [0, 4], "what is above the cap is no room below 0"
    assert nodes.lost({"a", "unknown"}).names == ("b",)
    assert nodes.lost({"a"}).room.tolist() == [4]
    with pytest.raises(ValueError, match="named twice"):
        nodes.joined({"a": 1.0})


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        (lambda: Nodes.of({"a": -1.0}), "capacity has to be at least 0"),
        (lambda: Nodes.of({"a": 1.0}, {"a": float("nan")}), "used has to be at least 0"),
        (lambda: Nodes.of({"a": 1.0}, cap=1.1), "cap is 1.1"),
        (lambda: Nodes.of({"a": 1.0}, cap=0), "cap is 0"),
        (lambda: Nodes(("a",), np.ones(2), np.ones(1)), "1 nodes, but capacity of shape"),
    ],
)
def test_what_are_no_nodes_is_refused(nodes, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=says):
        nodes()
