"""Costs in closed form, against the simulator and against what must hold of them."""

from dataclasses import replace
from functools import cache

import pytest

from bench.simulators.standby.networks import aggregate_network, filter_network
from bench.simulators.standby.protocols import Readings
from bench.simulators.standby.runs import Point, Size, simulate
from cec_store.standby.costs import Cost, Query, costs, windowed
from cec_store.standby.costs_here import FENCE_S, cheapest, costs_here
from cec_store.standby.schemes import Scheme, System

# Of 30 runs each has intervals at times of its own, which the closed forms average over.
SIZE = Size(runs=30, run_s=5.0, failures=8)
QUERIES = {
    "filter": (0.0, 0.0, 0.05),
    "aggregate": (0.1, 0.01, 0.05),
    "long windows": (0.5, 0.02, 0.05),
    "rare messages": (0.3, 0.01, 0.1),
}


@cache
def both(name: str, scheme: Scheme, extent_factor: float = 2.0) -> tuple[Cost, Point]:
    window_s, advance_s, interval_s = QUERIES[name]
    system = System(interval_s=interval_s)
    network = aggregate_network(window_s, advance_s) if window_s else filter_network()
    cost = costs(system, windowed(system, window_s, advance_s), extent_factor=extent_factor)
    own_times = Readings(aligned=False)
    return cost[scheme], simulate(
        system, network, scheme, SIZE, own_times, extent_factor=extent_factor
    )


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("name", QUERIES)
def test_recovery_time_is_what_the_simulator_has(name: str, scheme: Scheme) -> None:
    cost, point = both(name, scheme)
    # Some hundred microseconds are the phases that 30 runs happened to have.
    assert 1e3 * cost.recovery_s == pytest.approx(point.recovery_ms, rel=0.05, abs=0.8)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("name", QUERIES)
def test_bandwidth_is_what_the_simulator_has(name: str, scheme: Scheme) -> None:
    cost, point = both(name, scheme)
    assert 100 * cost.bandwidth_share == pytest.approx(point.overhead_percent, rel=0.1, abs=0.02)


def test_checking_every_window_each_frame_is_what_the_simulator_has() -> None:
    cost, point = both("aggregate", Scheme.EVENTUAL, 1.0)
    assert 1e3 * cost.recovery_s == pytest.approx(point.recovery_ms, rel=0.02)
    assert 100 * cost.bandwidth_share == pytest.approx(point.overhead_percent, rel=0.1)


def test_amnesia_loses_what_the_simulator_says() -> None:
    for name in QUERIES:
        cost, point = both(name, Scheme.AMNESIA)
        assert cost.lost_tuples == pytest.approx(point.lost, rel=0.03)
    assert both("filter", Scheme.PASSIVE)[0].lost_tuples == 0


def test_outputs_of_the_eventual_checkpoint_wait_as_in_the_simulator() -> None:
    cost, point = both("aggregate", Scheme.EVENTUAL)
    assert 1e3 * cost.held_s == pytest.approx(point.held_ms, rel=0.1)


def found(system: System, query: Query, **how: bool) -> dict[Scheme, Cost]:
    return costs(system, query, **how)


def test_the_cheapest_is_the_slowest_that_is_in_time() -> None:
    system = System()
    every = costs_here(system, windowed(system, 0.5, 0.01)).values()
    for within_s, scheme in (
        (1.0, Scheme.UPSTREAM), (0.45, Scheme.EVENTUAL), (0.31, Scheme.PASSIVE),
        (0.295, Scheme.ACTIVE),
    ):  # fmt: skip
        best = cheapest(every, system, within_s)
        assert best is not None
        assert best.scheme is scheme
    assert cheapest(every, system, 0.289) is None


def test_amnesia_is_named_only_where_input_may_be_lost() -> None:
    system = System()
    every = costs_here(system, windowed(system, 0.1, 0.01)).values()
    lossy = cheapest(every, system, 1.0, may_lose=True)
    assert lossy is not None
    assert lossy.scheme is Scheme.AMNESIA
    assert lossy.lost_rows > system.tuples_per_s * system.detection_s
    assert cheapest(every, system, 0.28, may_lose=True) is None


@pytest.mark.parametrize("extent_factor", [1.0, 1.5, 2.0])
def test_costs_here_are_of_a_log_that_all_output_waits_for(extent_factor: float) -> None:
    system = System()
    query = windowed(system, 0.1, 0.01)
    here = costs_here(system, query, extent_factor=extent_factor)
    paper = costs(system, query, extent_factor=extent_factor)
    assert all(each.held_s > system.interval_s / 2 for each in here.values())
    # The primary writes footprints where somebody may read them back.
    bare = {Scheme.AMNESIA, Scheme.UPSTREAM}
    written = {each.log_bytes_per_s for each in here.values() if each.scheme not in bare}
    assert len(written) == 1
    assert written.pop() > here[Scheme.UPSTREAM].log_bytes_per_s
    # Only these read while nothing fails: the log, and all input.
    reading = {each.scheme for each in here.values() if each.read_bytes_per_s}
    assert reading == {Scheme.PASSIVE, Scheme.ACTIVE}
    assert here[Scheme.PASSIVE].read_bytes_per_s > system.input_bytes_per_s
    # Reading the log back is the paper's, without redirected streams.
    slower_s = here[Scheme.EVENTUAL].outage_s - paper[Scheme.EVENTUAL].outage_s(system)
    assert -system.redirect_s <= slower_s <= FENCE_S


def test_precise_recovery_repeats_nothing_and_costs_upstream_backup_watermarks() -> None:
    system = System()
    query = windowed(system, 0.1, 0.01)
    plain, precise = found(system, query), found(system, query, is_precise=True)
    assert all(cost.repeated_tuples == 0 for cost in precise.values())
    more = precise[Scheme.UPSTREAM].bandwidth_share - plain[Scheme.UPSTREAM].bandwidth_share
    assert more == pytest.approx(0.16)
    assert precise[Scheme.ACTIVE].recovery_s == system.redirect_s


def test_no_messages_where_nothing_comes() -> None:
    slow = System(tuples_per_s=0.01)
    cost = found(slow, windowed(slow, 0.0, 0.0))[Scheme.UPSTREAM]
    assert cost.bandwidth_bytes_per_s <= 2 * slow.tuples_per_s * slow.id_bytes


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tuples_per_s": 0.0}, "tuples_per_s"),
        ({"interval_s": -1.0}, "interval_s"),
        ({"bits_per_s": float("nan")}, "bits_per_s"),
        ({"delay_s": float("inf")}, "delay_s"),
    ],
)
def test_a_system_that_cannot_be_is_refused(change: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        replace(System(), **change)


def test_a_query_that_cannot_be_is_refused() -> None:
    system = System()
    for window_s, advance_s in ((0.1, 0.0), (-1.0, 0.1), (0.1, 0.2), (float("nan"), 0.1)):
        with pytest.raises(ValueError, match=r"(window|advance)_s"):
            windowed(system, window_s, advance_s)
    with pytest.raises(ValueError, match="results_per_s"):
        Query(1.0, 0.0, 1e-5)
    with pytest.raises(ValueError, match="processors"):
        costs(system, Query(1.0, 1.0, 1e-3))
    with pytest.raises(ValueError, match="extent_factor"):
        costs(system, windowed(system, 0.1, 0.01), extent_factor=0.5)
