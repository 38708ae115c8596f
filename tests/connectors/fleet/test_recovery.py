"""Which queries run after a correlated failure, by a clock of the test's own."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.connectors.spark.fleet.declaration import Graph, Query
from cec_store.connectors.spark.fleet.recovery import (
    Outage,
    Situation,
    begun,
    forecast,
    observed,
    waits_for,
)
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.recovery_plans.topology import Operator, Topology

RULES = Rules()
COSTS = {"source": 1.0, "cheap": 0.4, "dear": 2.0, "last": 0.6}


def topology(costs: dict[str, float] = COSTS) -> Topology:
    function = "m:f"
    graph = Graph.of(
        [
            Query("source", function, ("/in",), "/source"),
            Query("cheap", function, ("/source",), "/cheap", priority=2),
            Query("dear", function, ("/source",), "/dear", priority=9),
            Query("last", function, ("/dear",), "/last", priority=1),
        ]
    )
    return graph.topology(costs)


def cores(*names: int) -> dict[str, float]:
    return {str(name): 1.0 for name in names}


def full(count: int = 6) -> Situation:
    return observed(Situation({}), cores(*range(count)), 0.0, topology(), RULES)


def test_all_runs_while_nothing_is_lost() -> None:
    assert set(full().running(topology())) == set(COSTS)


def test_one_lost_executor_is_no_correlated_failure() -> None:
    now = observed(full(), cores(0, 1, 2, 3, 4), 1.0, topology(), RULES)
    assert now.outage is None
    # A global checkpoint later the second one is the first again.
    again = observed(now.checkpointed(), cores(0, 1, 2, 3), 2.0, topology(), RULES)
    assert again.outage is None
    assert observed(now, cores(0, 1, 2, 3), 2.0, topology(), RULES).outage is not None


def test_executors_that_were_replaced_before_anybody_looked_are_no_failure() -> None:
    """All cores are there: nothing has to wait, and nobody else will come and end it."""
    dear = topology({**COSTS, "dear": 9.0})
    now = observed(Situation({}), cores(*range(6)), 0.0, dear, RULES)
    now = observed(now, cores(0, 1, 2, 3, 6, 7), 1.0, dear, RULES)
    assert (now.lost, now.outage) == (2, None)
    assert observed(now, cores(0, 1, 2, 3, 6), 2.0, dear, RULES).outage is not None


def test_plans_follow_the_arrivals() -> None:
    now = observed(full(), cores(0, 1), 10.0, topology(), RULES)
    assert now.outage is not None
    assert now.running(topology()) == ("source", "cheap")  # 1.4 of 1.6
    assert now.outage.needed == 2.0
    assert waits_for("last", now, topology()) == ("dear",)
    assert waits_for("dear", now, topology()) == ()
    now = observed(now, cores(0, 1, 7), 20.0, topology(), RULES)
    assert now.running(topology()) == ("source", "cheap")
    expected = forecast(now, 20.0, topology(), RULES)
    assert (expected["dear"].arrivals, expected["dear"].at_s) == (2, 40.0)
    assert (expected["last"].arrivals, expected["last"].at_s) == (2, 40.0)
    now = observed(now, cores(0, 1, 7, 8, 9), 40.0, topology(), RULES)
    assert now.outage is None  # 4.0 of 4.0


def test_a_plan_extends_and_does_not_swap() -> None:
    now = observed(full(), cores(0, 1), 10.0, topology(), RULES)
    running: tuple[str, ...] = ()
    for count in range(2, 6):
        now = observed(now, cores(*range(count)), 10.0 + count, topology(), RULES)
        assert now.running(topology())[: len(running)] == running or now.outage is None
        running = now.running(topology())


def test_it_says_so_and_waits_where_the_cheapest_query_has_no_room() -> None:
    now = observed(full(), cores(0), 10.0, topology(), RULES)
    assert now.running(topology()) == ()
    assert now.outage is not None
    assert now.outage.needed == pytest.approx(1.4)
    assert forecast(now, 11.0, topology(), RULES)["cheap"].at_s is None
    assert forecast(now, 11.0, topology(), RULES)["cheap"].arrivals == 1


def test_what_has_no_room_any_more_is_planned_anew() -> None:
    now = observed(full(), cores(0, 1, 2, 3), 10.0, topology(), RULES)
    assert set(now.running(topology())) == {"source", "dear"}
    now = observed(now, cores(0, 1), 11.0, topology(), RULES)
    assert now.running(topology()) == ("source", "cheap")


def test_a_driver_that_dies_goes_on_with_the_plan() -> None:
    """Its executors have other names, and come one by one."""
    before = observed(full(), cores(0, 1, 2), 10.0, topology(), RULES)
    assert before.running(topology()) == ("source", "cheap")
    now = begun(before, {"new": 1.0, "newer": 1.0}, 30.0, topology(), RULES)
    assert now.running(topology()) == before.running(topology())
    assert now.outage is not None
    assert now.outage.since_s == 10.0
    assert now.outage.cores_before == 6.0


def test_a_driver_that_begins_with_too_few_executors_starts_what_has_room() -> None:
    now = begun(replace(full(), executors={}), cores(0, 1), 5.0, topology(), RULES)
    assert now.running(topology()) == ("source", "cheap")
    first = begun(Situation({}), cores(0, 1), 5.0, topology(), RULES)
    assert first.outage is None  # nobody knows of more


def test_with_the_cores_that_there_were_all_runs() -> None:
    """Whatever the cap says: it was so before."""
    dear = topology({**COSTS, "dear": 9.0})
    now = observed(Situation({}), cores(*range(4)), 0.0, dear, RULES)
    now = observed(now, cores(0, 1), 1.0, dear, RULES)
    assert now.outage is not None
    assert observed(now, cores(0, 1, 5, 6), 2.0, dear, RULES).outage is None


def densest_first() -> Topology:
    """Four queries of the same cost read one: the one declared last is worth most."""
    worth = {"archive": 1, "hourly": 2, "weekly": 1, "alarms": 10}
    readers = [Query(n, "m:f", ("/parsed",), f"/{n}", priority=p) for n, p in worth.items()]
    graph = Graph.of([Query("parsed", "m:f", ("/in",), "/parsed"), *readers])
    return graph.topology(dict.fromkeys(("parsed", *worth), 0.4))


def test_queries_catch_up_densest_first_at_a_start_a_recovery_and_a_takeover() -> None:
    graph = densest_first()
    whole = ("parsed", "alarms", "hourly", "archive", "weekly")
    now = begun(Situation({}), cores(*range(4)), 0.0, graph, RULES)
    assert now.running(graph) == whole
    now = observed(now, {}, 10.0, graph, RULES)
    assert now.running(graph) == ()
    now = observed(now, cores(8, 9), 60.0, graph, RULES)  # 1.6 of 1.6
    assert now.running(graph) == whole[:4]
    successor = begun(now, cores(20, 21), 70.0, graph, RULES)
    assert successor.running(graph) == whole[:4]
    assert observed(now, cores(8, 9, 10, 11), 90.0, graph, RULES).running(graph) == whole
    assert begun(now, cores(*range(20, 24)), 90.0, graph, RULES).running(graph) == whole


def test_queries_that_run_stay_before_those_that_come_later_when_all_fits() -> None:
    """What runs has caught up so far; what is worth more comes behind it, and not in its place."""
    graph = densest_first()
    outage = Outage(10.0, 4.0, running=("parsed", "weekly"))
    before = Situation(cores(0), 4.0, 4, 3, outage)
    now = observed(before, cores(0, 1, 2, 3), 20.0, graph, RULES)
    assert now.outage is None
    assert now.running(graph) == ("parsed", "weekly", "alarms", "hourly", "archive")


@given(st.data())
def test_what_runs_has_room_and_has_all_that_it_reads(data: st.DataObject) -> None:
    """Whatever comes and goes."""
    amount = st.floats(0, 3)
    costs = {name: data.draw(amount) for name in COSTS}
    graph = topology(costs)
    now = observed(Situation({}), cores(*range(8)), 0.0, graph, RULES)
    for at in range(data.draw(st.integers(1, 12))):
        there = data.draw(st.sets(st.integers(0, 20), max_size=8))
        step = begun if data.draw(st.integers(0, 4)) == 0 else observed
        now = step(now, cores(*there), float(at), graph, RULES)
        running = now.running(graph)
        assert len(set(running)) == len(running)
        if now.outage is not None:
            assert now.cores < now.outage.cores_before
            used = sum(costs[name] for name in running)
            assert used <= RULES.cap * len(there) * (1 + 1e-6)
            for name in running:
                assert waits_for(name, now, graph) == ()
            waiting = [name for name in COSTS if name not in running]
            assert waiting
            assert forecast(now, float(at), graph, RULES).keys() == set(waiting)
        else:
            assert set(running) == set(COSTS)


def test_a_plan_that_ignores_sharing_is_seen() -> None:
    """The planted bug: each query is planned for as if it had all that it reads."""
    alone = Topology.of(Operator(name, (cost,)) for name, cost in COSTS.items())
    for planned_by, is_right in ((topology(), True), (alone, False)):
        now = observed(full(), cores(0), 10.0, planned_by, RULES)
        started = now.running(planned_by)
        assert all(waits_for(name, now, topology()) == () for name in started) is is_right
