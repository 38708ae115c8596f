"""Query partitions, and what of them has failed."""

import numpy as np
import pytest
from hypothesis import given

from bench.simulators.topologies import Drawn, drawn
from cec_store.recovery_plans import Operator, Outage, Partition, Topology
from cec_store.recovery_plans.outage import NONE
from support.recovery_plans.outages import Case, cases, outputs, upstream

pytestmark = pytest.mark.crash


def traffic(aligned: bool = True) -> Topology:
    """The paper's Figure 1: users see what O3, O4 and O5 put out."""
    ones = (1.0, 1.0)
    return Topology.of([
        Operator("O5", ones, ("O3", "O4"), aligned=aligned),
        Operator("O3", ones, ("O1",), ones, aligned=aligned),
        Operator("O4", ones, ("O2",), ones, aligned=aligned),
        Operator("O1", ones),
        Operator("O2", ones),
    ])  # fmt: skip


def named(*names: str) -> set[Partition]:
    return {Partition(name[:2], int(name[3:])) for name in names}


def test_a_query_is_its_output_partition_and_all_upstream_of_it() -> None:
    topology = traffic()
    assert len(topology.outputs) == 6
    found = topology.query(Partition("O5", 0))
    assert found == named("O1/0", "O2/0", "O3/0", "O4/0", "O5/0")
    assert topology.query(Partition("O3", 1)) == named("O1/1", "O3/1")
    assert str(min(found)) == "O1/0"


def test_partitions_that_are_not_aligned_read_all_of_an_operator() -> None:
    found = traffic(aligned=False).query(Partition("O4", 1))
    assert found == named("O4/1", "O2/0", "O2/1")


@given(cases())
def test_queries_are_what_definition_1_says(case: Case) -> None:
    topology = case.topology
    found = {topology.partitions[each] for each in topology.outputs}
    assert found == set(outputs(case.operators))
    for output in found:
        assert topology.query(output) == upstream(case.operators, output)


@given(cases())
def test_partitions_stand_after_all_that_they_read(case: Case) -> None:
    upstream = case.topology.upstream
    assert len(upstream) == len(case.topology.partitions)
    for place in range(len(upstream)):
        assert (upstream.of(place) < place).all()
        assert (case.topology.depth[upstream.of(place)] < case.topology.depth[place]).all()


@given(cases())
def test_an_outage_has_the_queries_that_need_what_failed(case: Case) -> None:
    outage, needs = case.outage, case.needs
    assert set(outage.number) == set(needs)
    for output, number in outage.number.items():
        failed = {case.topology.partitions[place] for place in outage.failed}
        lacking = outage.failed[outage.failed_of(number)]
        assert {case.topology.partitions[place] for place in lacking} == needs[output]
        assert outage.query_cost[number] == case.cost(needs[output])
        assert outage.priority[number] == case.priority[output]
        assert failed == case.failed


@given(cases())
def test_partitions_share_a_block_if_the_same_failed_queries_need_them(case: Case) -> None:
    outage, needs = case.outage, case.needs
    users = [
        frozenset(output for output in needs if case.topology.partitions[place] in needs[output])
        for place in outage.failed
    ]
    for queries, block in zip(users, outage.block_of.tolist(), strict=True):
        assert (block == NONE) is (not queries)
        same = [other == block for other in outage.block_of]
        assert same == [other == queries for other in users]
    assert outage.sharing_max == max(map(len, users), default=0)
    for number in range(len(outage.queries)):
        shares = [
            case.cost([case.topology.partitions[outage.failed[n]]]) / len(users[n])
            for n in outage.failed_of(number)
        ]
        assert outage.weight[number] == pytest.approx(sum(shares))


def test_queries_that_are_left_out_need_nothing() -> None:
    topology = traffic()
    failed = named("O1/0", "O3/0", "O4/1")
    outage = Outage.of(topology, failed, left_out=named("O3/0", "O5/0"))
    assert set(outage.number) == named("O4/1", "O5/1")
    assert outage.block_of.tolist().count(NONE) == 2


def test_priorities_are_1_unless_given() -> None:
    assert traffic().priority.tolist() == [1.0] * 6
    topology = Topology.of([Operator("a"), Operator("b", (1.0,), ("a",), (7.5,))])
    assert topology.priority.tolist() == [7.5]


@pytest.mark.parametrize(
    ("operators", "says"),
    [
        ([Operator("a"), Operator("a")], "named twice"),
        ([Operator("a", reads=("b",))], "a reads b, which is no operator"),
        (
            [Operator("a", reads=("c",)), Operator("b", reads=("a",)), Operator("c", reads=("b",))],
            "read each other: ",
        ),
        (
            [Operator("a", (1.0, 1.0)), Operator("b", reads=("a",), aligned=True)],
            "b is aligned and has 1 partitions, a has 2",
        ),
    ],
)
def test_what_is_no_topology_is_refused(operators: list[Operator], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Topology.of(operators)


@pytest.mark.parametrize(
    ("costs", "priorities", "says"),
    [
        ((), (), "give one of at least 0 a partition"),
        ((-1.0,), (), "costs"),
        ((float("nan"),), (), "costs"),
        ((1.0,), (1.0, 2.0), "1 partitions, 2 priorities"),
        ((1.0,), (0.0,), "above 0"),
        ((1.0,), (float("inf"),), "above 0"),
    ],
)
def test_what_is_no_operator_is_refused(
    costs: tuple[float, ...], priorities: tuple[float, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Operator("a", costs, (), priorities)


def test_partitions_that_are_not_there_cannot_fail() -> None:
    with pytest.raises(ValueError, match="O1/7 is no partition"):
        Outage.of(traffic(), [Partition("O1", 7)])
    with pytest.raises(ValueError, match="O1/0 is no query's output"):
        traffic().query(Partition("O1", 0))


@pytest.mark.parametrize("skew", [None, 0.5])
def test_drawn_topologies_are_as_asked_for(skew: float | None) -> None:
    how = Drawn(queries=18, size=10, sharing_max=6, skew=skew)
    topology = drawn(how, np.random.default_rng(3))
    assert len(topology.outputs) == 18
    for output in topology.outputs:
        assert len(topology.query(topology.partitions[output])) == 10
    assert Outage.of(topology, topology.partitions).sharing_max == 6
    again = drawn(how, np.random.default_rng(3))
    assert again.cost.tolist() == topology.cost.tolist()


def test_priorities_may_grow_with_the_workload() -> None:
    topology = drawn(Drawn(by_workload=True), np.random.default_rng(1))
    outage = Outage.of(topology, topology.partitions)
    order = np.lexsort((outage.priority, outage.query_cost))
    assert (np.diff(outage.priority[order]) >= 0).all()
    assert (outage.priority.min(), outage.priority.max()) == (1, 10)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="no such topology"):
        Drawn(queries=2, sharing_max=3)
