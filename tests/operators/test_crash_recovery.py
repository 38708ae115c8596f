"""State and output after any crashes equal those of a run that never crashed (design: §4)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.operators.aggregate.windows import CountWindow, SessionWindow, TimeWindow
from cec_store.operators.join.join import WindowJoin
from support.crashes.crashing_runs import POLICIES, CrashingRun, output_of, state_of
from support.models.aggregate_inputs import (
    AGGREGATES,
    COUNT_WINDOWS,
    SCHEMA,
    SESSION_WINDOWS,
    TIME_WINDOWS,
    aggregates,
    make_input,
)
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import ReferenceJoin, in_order, plain
from support.models.reference_sessions import reference_aggregate, with_totals
from support.models.stateless_operators import STATELESS, RowByRow

seeds = st.integers(0, 2**32)
policies = st.sampled_from(sorted(POLICIES))


def run_with_crashes(seed, make, inputs, schemas, policy, reference) -> CrashingRun:
    rng = random.Random(seed)
    run = CrashingRun(make, inputs, schemas, POLICIES[policy], rng)
    queue, runner = run.until_done(crash_share=rng.choice([0.02, 0.2, 0.6]))
    expected = []
    for row in in_order(inputs, [0] * len(inputs)):
        expected += plain(reference.take(row))
    assert output_of(queue) == expected
    assert with_totals(state_of(runner)) == plain(reference.state())
    check_measures(queue, runner)
    queue.close()
    return run


def check_measures(queue, runner) -> None:
    """The q and u that policies judge by are those that a recovery would find."""
    found, checkpointer = queue.rebuild(), runner.checkpointer
    assert checkpointer.open_windows == found.open_windows
    assert checkpointer.extent(queue.end_offset) == found.extent.records
    position = int(runner._position.sum())
    expected = position - int(found.replay_from.sum()) if found.open_windows else 0
    assert checkpointer.replay_rows(position) == expected


def aggregate_run(seed, window, group_by, policy, inputs_count=1) -> CrashingRun:
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]

    make = aggregates(window, group_by, inputs_count)

    reference = reference_aggregate(group_by, AGGREGATES, window)
    return run_with_crashes(seed, make, inputs, [SCHEMA] * inputs_count, policy, reference)


@given(seeds, st.sampled_from(COUNT_WINDOWS), st.sampled_from([["k"], ["g", "s"], []]), policies)
def test_count_windows_survive_crashes(seed, window, group_by, policy):
    aggregate_run(seed, window, group_by, policy)


@given(seeds, st.sampled_from(TIME_WINDOWS), st.sampled_from([["k"], ["g", "s"], []]), policies)
def test_time_windows_survive_crashes(seed, window, group_by, policy):
    aggregate_run(seed, window, group_by, policy)


@given(seeds, st.sampled_from(SESSION_WINDOWS), st.sampled_from([["k"], ["g", "s"], []]), policies)
def test_sessions_survive_crashes(seed, window, group_by, policy):
    aggregate_run(seed, window, group_by, policy)


@given(seeds, st.sampled_from(COUNT_WINDOWS + TIME_WINDOWS + SESSION_WINDOWS), policies)
def test_windows_over_two_inputs_survive_crashes(seed, window, policy):
    aggregate_run(seed, window, ["s"], policy, inputs_count=2)


@given(seeds, st.sampled_from([0, 3, 20, 10_000]), policies)
def test_joins_survive_crashes(seed, within_us, policy):
    rng = random.Random(seed)
    inputs = [make_side(rng, source, rng.choice([0, 20, 100])) for source in (0, 1)]

    def make():
        return WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=within_us)

    reference = ReferenceJoin(["k", "s"], within_us)
    run_with_crashes(seed, make, inputs, [LEFT, RIGHT], policy, reference)


@given(seeds, st.sampled_from(sorted(STATELESS)), policies)
def test_operators_without_state_survive_crashes(seed, name, policy):
    make, function, inputs_count = STATELESS[name]
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]
    run_with_crashes(seed, make, inputs, [SCHEMA] * inputs_count, policy, RowByRow(function))


@pytest.mark.parametrize(
    "window", [CountWindow(7), CountWindow(5, 2), TimeWindow(25, 10), SessionWindow(4, 40)]
)
def test_the_crashes_above_happen_with_windows_open(window):
    runs = [aggregate_run(seed, window, ["k"], "twice") for seed in range(20)]
    assert sum(run.crashes for run in runs) > 20
    assert sum(run.recovered_windows for run in runs) > 50
