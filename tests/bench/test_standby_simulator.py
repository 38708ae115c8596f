"""The simulator: what must hold of each scheme, and that a run is its seed's."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulators.standby.execution import departures, execute
from bench.simulators.standby.networks import (
    aggregate_network,
    filter_network,
    process,
    union_network,
)
from bench.simulators.standby.protocols import Readings
from bench.simulators.standby.runs import Point, Size, simulate
from cec_store.operators.taxonomy import NetworkType
from cec_store.standby.schemes import Scheme, System

SYSTEM = System()
SIZE = Size(runs=3, run_s=6.0, failures=25)
AGGREGATE = aggregate_network()


def point(scheme: Scheme, **how: object) -> Point:
    given = {"system": SYSTEM, "network": AGGREGATE, "size": SIZE, **how}
    return simulate(scheme=scheme, **given)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_point() -> None:
    assert point(Scheme.UPSTREAM) == point(Scheme.UPSTREAM)
    assert point(Scheme.UPSTREAM) != point(Scheme.UPSTREAM, size=replace(SIZE, seed=1))


def test_active_standby_recovers_within_detection_and_a_round_trip() -> None:
    for network in (filter_network(), AGGREGATE, union_network()):
        assert point(Scheme.ACTIVE, network=network).recovery_ms < 2e3 * SYSTEM.delay_s
    precise = point(Scheme.ACTIVE, is_precise=True)
    assert precise.recovery_ms == pytest.approx(1e3 * SYSTEM.redirect_s)


def test_only_amnesia_loses_input_and_it_has_no_overhead() -> None:
    lost = {scheme: point(scheme).lost for scheme in Scheme}
    assert {scheme for scheme, count in lost.items() if count} == {Scheme.AMNESIA}
    assert point(Scheme.AMNESIA).overhead_percent == 0
    # What came until input was redirected, and the windows that were open.
    assert lost[Scheme.AMNESIA] == pytest.approx(290 + 95, rel=0.05)


def test_passive_standby_replays_half_an_interval() -> None:
    for interval_s in (0.05, 0.2):
        found = point(Scheme.PASSIVE, system=replace(SYSTEM, interval_s=interval_s))
        assert found.replayed == pytest.approx(1000 * interval_s / 2, rel=0.2)


def test_upstream_backup_replays_the_state_and_what_was_not_acknowledged() -> None:
    for window_s in (0.1, 0.3):
        network = aggregate_network(window_s)
        found = point(Scheme.UPSTREAM, network=network, readings=Readings(at_once=True))
        # M/2 since the acknowledgement, its way and that of the output, half an advance.
        assert found.replayed == pytest.approx(1000 * (window_s + 0.025 + 0.01 + 0.005), rel=0.07)


def test_passive_standby_sends_the_input_in_windows_and_the_output() -> None:
    found = point(Scheme.PASSIVE)
    # 100 % of new tuples, 10 % of output, and five identifiers for 50 tuples.
    assert found.overhead_percent == pytest.approx(111.6, rel=0.02)
    longer = point(Scheme.PASSIVE, system=replace(SYSTEM, interval_s=0.2))
    assert longer.overhead_percent < 65, "what came and went between two checkpoints is in none"


def test_an_eventual_checkpoint_repeats_nothing_and_holds_output_until_it_is_in_the_log() -> None:
    found = point(Scheme.EVENTUAL)
    assert found.repeated == found.lost == 0
    assert found.held_ms > 1e3 * (SYSTEM.interval_s / 2 + SYSTEM.delay_s) - 3
    assert point(Scheme.PASSIVE).held_ms == 0


@pytest.mark.parametrize(("scheme", "message_bytes"), [
    (Scheme.EVENTUAL, 50 * 50 + 264), (Scheme.PASSIVE, 50 * 50 + 32),
])  # fmt: skip
def test_a_message_that_is_on_its_way_counts_for_nothing(
    scheme: Scheme, message_bytes: int
) -> None:
    # A frame or a checkpoint takes most of an interval of this link.
    slow = replace(SYSTEM, bits_per_s=8 * message_bytes / 0.04)
    size = replace(SIZE, failures=120)
    found = point(scheme, system=slow, network=filter_network(), size=size)
    assert found.replayed == pytest.approx(25 + 40, rel=0.1)
    fast = point(scheme, network=filter_network(), size=size)
    assert fast.replayed == pytest.approx(25 + 8e3 * message_bytes / 16e6, rel=0.1)


def test_footprints_on_their_way_count_for_nothing() -> None:
    # Each frame checks every window; the one before is what a restart finds meanwhile.
    slow = replace(SYSTEM, bits_per_s=8 * (60 * 50 + 264) / 0.04)
    network, size = aggregate_network(0.1, 0.0025), replace(SIZE, failures=120)
    found = point(Scheme.EVENTUAL, system=slow, network=network, size=size, extent_factor=1.0)
    tuples = 25 + 40
    assert found.replayed == pytest.approx(tuples, rel=0.1)
    least_ms = 45 + tuples * 1e3 * (slow.tuple_s + network.operators[0].windows * 1e-5)
    assert found.recovery_ms == pytest.approx(least_ms, rel=0.1)


def test_a_smaller_extent_costs_bandwidth_and_saves_recovery_time() -> None:
    loose, tight = point(Scheme.EVENTUAL), point(Scheme.EVENTUAL, extent_factor=1.0)
    assert tight.overhead_percent > loose.overhead_percent
    assert tight.recovery_ms < loose.recovery_ms
    assert tight.replayed == pytest.approx(25, rel=0.2), "every window is checked each interval"


def test_passive_standby_holds_output_back_only_for_precise_arbitrary_networks() -> None:
    held = {
        (network.name, is_precise): point(Scheme.PASSIVE, network=network, is_precise=is_precise)
        for network in (AGGREGATE, union_network())
        for is_precise in (False, True)
    }
    assert {key for key, each in held.items() if each.held_ms} == {("union", True)}


def test_arrays_are_what_a_server_that_takes_one_after_the_other_does() -> None:
    random = np.random.default_rng(7)
    at_s, service_s = np.cumsum(random.exponential(1.0, 300)), random.exponential(0.9, 300)
    free_s, expected = 0.0, []
    for arrived, takes in zip(at_s, service_s, strict=True):
        free_s = max(free_s, arrived) + takes
        expected.append(free_s)
    assert departures(at_s, service_s) == pytest.approx(expected)


def test_windows_close_as_a_plain_loop_closes_them() -> None:
    execution = execute(SYSTEM, AGGREGATE, 2.0, np.random.default_rng(3))
    time_s = execution.processing.stages[0].time_s
    output = execution.processing.output
    for end, low, by in zip(output.time_s, output.low, output.by, strict=True):
        inside = [n for n, t in enumerate(time_s) if end - 0.1 - 1e-9 <= t < end - 1e-9]
        assert (low, by) == (inside[0], inside[-1] + 1)
    assert len(output.time_s) == pytest.approx(190, abs=2)


def test_from_an_empty_state_windows_open_one_after_the_other() -> None:
    time_s = np.arange(0, 1, 0.001) + 1e-5
    cost_s = process(AGGREGATE, time_s, 1e-5).cost_s
    assert cost_s[0] == pytest.approx(1e-5)
    assert cost_s[200:].tolist() == pytest.approx([1e-4] * 800)
    whole = process(replace(AGGREGATE, refills=False), time_s, 1e-5).cost_s
    assert whole[:200].sum() - cost_s[:200].sum() == pytest.approx(45 * 10 * 1e-5)


def test_a_network_has_the_type_of_its_most_general_operator() -> None:
    assert AGGREGATE.type is NetworkType.CONVERGENT
    both = replace(AGGREGATE, operators=AGGREGATE.operators + union_network().operators)
    assert both.type is NetworkType.ARBITRARY


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match="processors"):
        point(Scheme.PASSIVE, network=aggregate_network(1.2, 0.01))
    with pytest.raises(ValueError, match=r"run_s is 0\.5"):
        point(Scheme.PASSIVE, size=replace(SIZE, run_s=0.5))
    with pytest.raises(ValueError, match="0 runs"):
        Size(runs=0)
