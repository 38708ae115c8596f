"""Plans: valid, as good as they are said to be, and what each algorithm prefers."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulators.topologies import Drawn, drawn
from cec_store.recovery_plans import (
    Operator,
    Outage,
    Partition,
    Plan,
    Topology,
    best_density,
    catch_up_order,
    dynamic_program,
    greedy,
    operator_centric,
    violations,
)
from cec_store.recovery_plans.plans import Planner
from support.recovery_plans.outages import Case, cases

pytestmark = pytest.mark.crash

APPROXIMATE: dict[str, Planner] = {
    "best density": best_density,
    "few pairs": partial(best_density, paired=2),
    "no pairs": partial(best_density, paired=0),
    "greedy": greedy,
    "operator-centric": operator_centric,
}
PLANNERS: dict[str, Planner] = {**APPROXIMATE, "dynamic program": dynamic_program}


def plans(case: Case, planners: dict[str, Planner] = PLANNERS) -> dict[str, Plan]:
    return {name: planner(case.outage, case.room) for name, planner in planners.items()}


def single(costs: list[float], priorities: list[float]) -> Outage:
    """Queries that share nothing."""
    operators = [
        Operator(f"q{n}", (cost,), (), (priority,))
        for n, (cost, priority) in enumerate(zip(costs, priorities, strict=True))
    ]
    topology = Topology.of(operators)
    return Outage.of(topology, topology.partitions)


def names(plan: Plan) -> list[str]:
    return [each.operator for each in plan.queries]


@given(cases())
def test_plans_fit_and_their_queries_lack_nothing(case: Case) -> None:
    for name, plan in plans(case).items():
        assert violations(case.outage, plan) == [], name
        taken = set(plan.partitions)
        assert taken <= case.failed, name
        assert case.cost(taken) == plan.cost <= case.room, name
        assert set(plan.queries) == case.back(taken), name
        assert plan.priority == case.value(taken), name
        assert set(plan.waiting) == set(case.needs) - set(plan.queries), name
        assert len(taken) == len(plan.partitions), "each once"
        down = set(case.failed)
        for each in plan.partitions:
            upstream = case.topology.upstream.of(case.topology.index[each]).tolist()
            lacking = {case.topology.partitions[place] for place in upstream} & down & taken
            assert not lacking, "upstream first"
            down.discard(each)


@given(cases())
def test_a_plan_starts_all_of_a_query_before_what_only_the_next_one_needs(case: Case) -> None:
    for name, plan in plans(case).items():
        rest = list(plan.partitions)
        for query in plan.queries:
            needed = case.needs[query] & set(rest)
            assert set(rest[: len(needed)]) == needed, name
            rest = rest[len(needed) :]


def test_with_room_for_all_the_densest_query_comes_first_and_what_it_reads_before_it() -> None:
    topology = Topology.of([
        Operator("source", (0.4,)),
        *(Operator(name, (0.4,), ("source",), (priority,))
          for name, priority in (("archive", 1.0), ("hourly", 2.0), ("alarms", 10.0))),
    ])  # fmt: skip
    order = catch_up_order(topology, topology.partitions)
    assert [each.operator for each in order] == ["source", "alarms", "hourly", "archive"]


@given(cases())
def test_query_centric_plans_take_nothing_that_brings_no_query_back(case: Case) -> None:
    for name, plan in plans(case).items():
        needed = set().union(*(case.needs[each] for each in plan.queries))
        assert name == "operator-centric" or set(plan.partitions) == needed


@given(cases())
def test_a_plan_says_what_the_cheapest_query_that_waits_would_cost(case: Case) -> None:
    for name, plan in plans(case).items():
        taken = set(plan.partitions)
        costs = [case.cost(case.needs[each] - taken) for each in plan.waiting]
        assert plan.needed == min(costs, default=0), name
        if name != "operator-centric" and plan.waiting:
            assert plan.cost + plan.needed > plan.room, "it fits, and would have been taken"


@given(cases())
def test_the_dynamic_program_finds_what_trying_everything_finds(case: Case) -> None:
    assert dynamic_program(case.outage, case.room).priority == case.best()


@given(cases())
def test_branch_and_bound_finds_what_trying_everything_finds(case: Case) -> None:
    pytest.importorskip("scipy")
    from cec_store.recovery_plans import optimum

    plan = optimum(case.outage, case.room)
    assert plan.priority == case.best()
    assert violations(case.outage, plan) == []


def test_the_optimum_stays_within_its_room_where_the_solver_would_not() -> None:
    pytest.importorskip("scipy")
    from cec_store.recovery_plans import optimum

    for outage, room in ((single([0.5, 0.5000003], [1, 1]), 1.0), (single([1e-7], [1]), 0.0)):
        plan = optimum(outage, room)
        assert violations(outage, plan) == []
        assert len(plan.queries) == (1 if room else 0)


@given(cases())
def test_nothing_is_better_than_the_optimum(case: Case) -> None:
    best = case.best()
    assert all(plan.priority <= best for plan in plans(case).values())


@given(cases())
def test_best_density_keeps_the_bound_of_theorem_5_1(case: Case) -> None:
    if d := case.outage.sharing_max:
        bound = (1 - math.exp(-1 / d)) * case.best()
        assert best_density(case.outage, case.room).priority >= bound - 1e-9


@given(cases(), st.integers(1, 3))
def test_with_few_pairs_it_keeps_half_of_the_bound(case: Case, paired: int) -> None:
    if d := case.outage.sharing_max:
        bound = (1 - math.exp(-1 / d)) * case.best() / 2
        assert best_density(case.outage, case.room, paired=paired).priority >= bound - 1e-9


def test_a_query_that_leaves_room_for_no_other_is_found() -> None:
    """Algorithm 3 as printed begins with the densest query and with pairs: it would find 2."""
    outage = single(costs=[10, 1], priorities=[10, 2])
    plan = best_density(outage, 10)
    assert names(plan) == ["q0"]
    assert plan.priority > (1 - math.exp(-1)) * 10
    assert greedy(outage, 10).priority == 2


def test_a_pair_that_the_densest_query_would_keep_out_is_found() -> None:
    outage = single(costs=[5, 5, 1], priorities=[9, 9, 2])
    assert sorted(names(best_density(outage, 10))) == ["q0", "q1"]
    assert sorted(names(best_density(outage, 10, paired=2))) == ["q0", "q1"]
    assert best_density(outage, 10, paired=1).priority == greedy(outage, 10).priority == 11


@given(cases())
def test_each_query_of_the_greedy_plan_is_the_densest_of_those_that_fit(case: Case) -> None:
    needs, room, there = case.needs, case.room, set[Partition]()
    plan = greedy(case.outage, room)
    sharing = {each: sum(each in needed for needed in needs.values()) for each in case.failed}

    def density(query: Partition) -> float:
        lacking = needs[query] - there
        weight = sum(case.cost([each]) / sharing[each] for each in lacking)
        return case.priority[query] / weight if weight else math.inf

    for query in plan.queries:
        open_to = set(needs) - case.back(there)
        fitting = [each for each in open_to if case.cost(needs[each] | there) <= room]
        if query in open_to:
            assert density(query) >= max(map(density, fitting)) * (1 - 1e-9)
        there |= needs[query]
    left = set(needs) - case.back(there)
    assert all(case.cost(needs[each] | there) > room for each in left)


def test_what_a_recovered_query_shares_makes_others_cheaper() -> None:
    """Alone each costs 9, and together the two that share cost 10."""
    topology = Topology.of([
        Operator("shared", (8.0,)),
        Operator("a", (1.0,), ("shared",), (5.0,)),
        Operator("b", (1.0,), ("shared",), (5.0,)),
        Operator("c", (9.0,), (), (6.0,)),
    ])  # fmt: skip
    outage = Outage.of(topology, topology.partitions)
    for planner in (best_density, greedy, dynamic_program):
        assert sorted(names(planner(outage, 10))) == ["a", "b"]


def test_a_query_that_others_have_brought_back_costs_nothing() -> None:
    topology = Topology.of([
        Operator("inner", (2.0,), (), (1.0,)),
        Operator("outer", (1.0,), ("inner",), (10.0,)),
    ])  # fmt: skip
    outage = Outage.of(topology, topology.partitions)
    for planner in (best_density, greedy, dynamic_program, operator_centric):
        assert set(names(planner(outage, 3))) == {"inner", "outer"}


def test_queries_start_with_the_densest() -> None:
    plan = best_density(single(costs=[4, 1, 2], priorities=[4, 3, 4]), 7)
    assert names(plan) == ["q1", "q2", "q0"]
    assert names(dynamic_program(single(costs=[4, 1, 2], priorities=[4, 3, 4]), 7)) == names(plan)


def test_operator_centric_recovery_begins_with_what_no_query_is_back_by() -> None:
    """Its sources are all up, and nobody reads them: the paper's Figure 2."""
    topology = Topology.of([
        *(Operator(f"source{n}", (1.0,)) for n in range(3)),
        *(Operator(f"q{n}", (1.0,), (f"source{n}",)) for n in range(3)),
    ])  # fmt: skip
    outage = Outage.of(topology, topology.partitions)
    plan = operator_centric(outage, 3)
    assert plan.queries == ()
    assert [each.operator for each in plan.partitions] == ["source0", "source1", "source2"]
    assert plan.needed == 1
    assert len(best_density(outage, 3).queries) == 1


def test_operator_centric_recovery_passes_over_what_reads_a_partition_that_is_down() -> None:
    topology = Topology.of([
        Operator("dear", (9.0,)), Operator("q", (1.0,), ("dear",)), Operator("cheap", (1.0,)),
    ])  # fmt: skip
    plan = operator_centric(Outage.of(topology, topology.partitions), 5)
    assert [each.operator for each in plan.partitions] == ["cheap"]


def test_operator_centric_recovery_begins_with_the_cheapest_of_a_depth() -> None:
    plan = operator_centric(single(costs=[3, 1, 2], priorities=[9, 1, 1]), 4)
    assert sorted(names(plan)) == ["q1", "q2"]


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_what_costs_nothing_comes_back_without_room(planner: Planner) -> None:
    assert names(planner(single(costs=[0, 1], priorities=[1, 1]), 0)) == ["q0"]


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_room_for_all_brings_all_back(planner: Planner) -> None:
    outage = single(costs=[1, 2, 3], priorities=[1, 1, 1])
    for room in (6.0, math.inf):
        plan = planner(outage, room)
        assert len(plan.queries) == 3
        assert (plan.waiting, plan.needed) == ((), 0)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_less_room_than_the_cheapest_query_takes_is_said(planner: Planner) -> None:
    plan = planner(single(costs=[2, 1.5], priorities=[1, 1]), 1)
    assert plan.partitions == ()
    assert str(plan) == (
        "0 of 2 queries, 0 of 1 in room\n2 wait: the cheapest takes 1.5, 1 are left"
    )


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_nothing_that_failed_is_nothing_to_recover(planner: Planner) -> None:
    topology = Topology.of([Operator("a")])
    assert str(planner(Outage.of(topology, []), 1.0)) == "nothing to recover"


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_room_below_0_is_refused(planner: Planner) -> None:
    for room in (-1.0, math.nan):
        with pytest.raises(ValueError, match="room is"):
            planner(single([1], [1]), room)


def test_plans_are_told_for_people() -> None:
    plan = best_density(single(costs=[1, 5], priorities=[1, 1]), 2)
    assert str(plan).splitlines() == [
        "1 of 2 queries, 1 of 2 in room",
        "q0/0: recovered",
        "1 wait: the cheapest takes 5, 1 are left",
    ]


def test_what_is_wrong_with_a_plan_is_found() -> None:
    topology = Topology.of([Operator("a", (3.0,)), Operator("b", (1.0,), ("a",)), Operator("c")])
    a, b, c = (Partition(name, 0) for name in "abc")
    outage = Outage.of(topology, [a, b])
    wrong = Plan((b,), (b, b, c), 1.0, 2.0, 1.5, (), 0.0)
    assert violations(outage, wrong) == [
        "c/0 has not failed",
        "a partition is recovered twice",
        "it costs 3, and there is room for 1.5",
        "b/0 needs a/0, which is not recovered",
    ]


def test_exact_planners_give_up_in_time() -> None:
    topology = drawn(Drawn(queries=40, size=20, sharing_max=4), np.random.default_rng(1))
    outage = Outage.of(topology, topology.partitions)
    with pytest.raises(TimeoutError, match="40 queries within 0 s"):
        dynamic_program(outage, float(topology.cost.sum()) / 2, limit_s=0.0)


@pytest.mark.parametrize("queries", [60, 120])
def test_many_queries_are_planned_near_the_optimum(queries: int) -> None:
    pytest.importorskip("scipy")
    from cec_store.recovery_plans import optimum

    topology = drawn(Drawn(queries=queries, sharing_max=3), np.random.default_rng(5))
    outage = Outage.of(topology, topology.partitions)
    room = float(topology.cost.sum()) * 0.6
    found = {name: planner(outage, room) for name, planner in APPROXIMATE.items()}
    assert all(violations(outage, plan) == [] for plan in found.values())
    assert found["best density"].priority >= found["greedy"].priority
    assert found["best density"].priority >= 0.9 * optimum(outage, room).priority


def test_plans_that_grow_in_several_lots_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = drawn(Drawn(), np.random.default_rng(2))
    outage = Outage.of(topology, topology.partitions)
    plan: Callable[[], Plan] = partial(best_density, outage, float(topology.cost.sum()) / 2)
    at_once = plan()
    monkeypatch.setattr("cec_store.recovery_plans.density.CELLS_MAX", 1)
    assert plan().queries == at_once.queries
