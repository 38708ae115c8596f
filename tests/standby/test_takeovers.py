"""After any takeovers output and state are those of a run that never failed.

By amnesia: of one that lost exactly what the takeovers said.
"""

import random
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cec_store import Standby, Targets, open_queue
from cec_store.operators import ArrowSource, Resample, Runner, record_schema
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.stateless import Filter, Union
from cec_store.standby.schemes import Scheme
from support.crashes.crashing_runs import POLICIES, output_of, state_of
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
from support.models.reference_operators import ReferenceAggregate, ReferenceJoin
from support.models.reference_sessions import reference_aggregate, with_totals
from support.models.stateless_operators import STATELESS, RowByRow
from support.runs.counts import crash_count
from support.standby.standing_by import QueueInputs, RowInputs, StandingBy

pytestmark = pytest.mark.crash

counted = settings(
    max_examples=crash_count(12, 300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the tally adds up
)
seeds = st.integers(0, 2**32)
policies = st.sampled_from(sorted(POLICIES))
ANY = (Scheme.PASSIVE, Scheme.ACTIVE, Scheme.EVENTUAL, Scheme.AMNESIA)
"""Of any operator; upstream backup needs windows that align by themselves, and consumers."""
schemes = st.sampled_from(ANY)
schemes_or_upstream = st.sampled_from((*ANY, Scheme.UPSTREAM))
many_inputs = st.sampled_from([RowInputs, QueueInputs])


def run(seed, make, inputs, schemas, kind, scheme, policy, make_reference, folder) -> StandingBy:
    rng = random.Random(seed)
    if scheme is Scheme.UPSTREAM:
        kind = QueueInputs
    case = StandingBy(make, kind(inputs, schemas, rng), scheme, POLICIES[policy], rng, str(folder))
    queue, runner = case.run(rng.choice([1, 2, 4]))
    output, state = case.expected(make_reference)
    assert output_of(queue) == output
    if scheme is not Scheme.UPSTREAM:
        assert with_totals(state_of(runner)) == state
        found, checkpointer = queue.rebuild(), runner.checkpointer
        assert checkpointer.open_windows == found.open_windows
        assert checkpointer.extent(queue.end_offset) == found.extent.records
    queue.close()
    return case


def aggregate_run(
    seed, window, group_by, kind, scheme, policy, folder, inputs_count=1
) -> StandingBy:
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]

    make = aggregates(window, group_by, inputs_count)

    def make_reference():
        return reference_aggregate(group_by, AGGREGATES, window)

    schemas = [SCHEMA] * inputs_count
    return run(seed, make, inputs, schemas, kind, scheme, policy, make_reference, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("held")


@counted
@given(
    seeds,
    st.sampled_from(COUNT_WINDOWS),
    st.sampled_from([["k"], ["g", "s"]]),
    many_inputs,
    schemes,
    policies,
)
def test_count_windows_survive_takeovers(
    tally, folder, seed, window, group_by, kind, scheme, policy
):
    tally(len(aggregate_run(seed, window, group_by, kind, scheme, policy, folder).takeovers))


@counted
@given(
    seeds,
    st.sampled_from(TIME_WINDOWS),
    st.sampled_from([["k"], ["g", "s"], []]),
    many_inputs,
    schemes_or_upstream,
    policies,
)
def test_time_windows_survive_takeovers(
    tally, folder, seed, window, group_by, kind, scheme, policy
):
    tally(len(aggregate_run(seed, window, group_by, kind, scheme, policy, folder).takeovers))


@counted
@given(
    seeds,
    st.sampled_from(SESSION_WINDOWS),
    st.sampled_from([["k"], ["g", "s"], []]),
    st.sampled_from([1, 2]),
    many_inputs,
    st.sampled_from([each for each in ANY if each is not Scheme.ACTIVE]),
    policies,
)
def test_sessions_survive_takeovers(
    tally, folder, seed, window, group_by, inputs_count, kind, scheme, policy
):
    case = aggregate_run(seed, window, group_by, kind, scheme, policy, folder, inputs_count)
    tally(len(case.takeovers))


@counted
@given(seeds, st.sampled_from(COUNT_WINDOWS + TIME_WINDOWS), many_inputs, schemes, policies)
def test_windows_over_two_inputs_survive_takeovers(
    tally, folder, seed, window, kind, scheme, policy
):
    tally(
        len(
            aggregate_run(
                seed, window, ["s"], kind, scheme, policy, folder, inputs_count=2
            ).takeovers
        )
    )


@counted
@given(seeds, st.sampled_from([0, 3, 20, 10_000]), many_inputs, schemes_or_upstream, policies)
def test_joins_survive_takeovers(tally, folder, seed, within_us, kind, scheme, policy):
    rng = random.Random(seed)
    inputs = [make_side(rng, source, rng.choice([0, 20, 100])) for source in (0, 1)]

    def make():
        return WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=within_us)

    def make_reference():
        return ReferenceJoin(["k", "s"], within_us)

    case = run(seed, make, inputs, [LEFT, RIGHT], kind, scheme, policy, make_reference, folder)
    tally(len(case.takeovers))


@counted
@given(seeds, st.sampled_from(sorted(STATELESS)), many_inputs, schemes_or_upstream, policies)
def test_operators_without_state_survive_takeovers(tally, folder, seed, name, kind, scheme, policy):
    make, function, inputs_count = STATELESS[name]
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]
    schemas = [SCHEMA] * inputs_count
    reference = RowByRow(function)
    case = run(seed, make, inputs, schemas, kind, scheme, policy, lambda: reference, folder)
    tally(len(case.takeovers))


def lagging_run(seed, name, kind, scheme, folder) -> StandingBy:
    """Inputs of an operator that lag behind each other, and takeovers meanwhile."""
    rng = random.Random(seed)
    policy = rng.choice(sorted(POLICIES))
    if name == "join":
        inputs = [make_side(rng, side, 100) for side in (0, 1)]

        def join():
            return WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=20)

        def reference_join():
            return ReferenceJoin(["k", "s"], 20)

        schemas = [LEFT, RIGHT]
        return run(seed, join, inputs, schemas, kind, scheme, policy, reference_join, folder)
    window, count = LAGGING[name]
    if window is not None:
        return aggregate_run(seed, window, ["s"], kind, scheme, policy, folder, count)
    inputs = [make_input(rng, number, 100) for number in range(count)]
    reference = RowByRow(lambda values: [values])
    return run(
        seed, lambda: Union(SCHEMA, count), inputs, [SCHEMA] * count, kind, scheme, policy,
        lambda: reference, folder,
    )  # fmt: skip


LAGGING = {
    "join": (None, 2),
    "union of two": (None, 2),
    "union of three": (None, 3),
    "count windows over two": (CountWindow(5, 2), 2),
    "count windows over three": (CountWindow(7), 3),
    "time windows over two": (TimeWindow(40, 20), 2),
    "time windows over three": (TimeWindow(25), 3),
}
LAGGING_TAKEOVERS = crash_count(3, 72)
"""Of each operator by each scheme; by full size a thousand together."""


@pytest.mark.parametrize("scheme", [Scheme.PASSIVE, Scheme.ACTIVE])
@pytest.mark.parametrize("name", LAGGING)
def test_takeovers_lose_and_double_nothing_where_inputs_lag(tally, folder, name, scheme):
    takeovers, seed = 0, 0
    while takeovers < LAGGING_TAKEOVERS:
        kind = (RowInputs, QueueInputs)[seed % 2]
        case = lagging_run(seed, name, kind, scheme, folder)
        takeovers += len(case.takeovers)
        seed += 1
    tally(takeovers)


@pytest.mark.parametrize("scheme", ANY)
def test_the_takeovers_above_happen_with_windows_open(folder, scheme):
    runs = [
        aggregate_run(seed, CountWindow(5, 2), ["k"], RowInputs, scheme, "twice", folder)
        for seed in range(24)
    ]
    reports = [done.report for each in runs for done in each.takeovers]
    assert len(reports) > 20
    if scheme is Scheme.AMNESIA:
        assert sum(gap.end - gap.first for report in reports for gap in report.skipped) > 50
        return
    assert sum(report.replayed_rows for report in reports) > 20
    if scheme is Scheme.ACTIVE:
        assert sum(report.appended_rows for report in reports) > 20
        assert sum(report.dropped_rows for report in reports) > 10


def test_a_shadow_that_is_ahead_acknowledges_no_input_that_the_log_does_not_reflect(folder):
    """It had taken input that left no trace: a recovery from the log would ask for it again."""

    def make():
        return Filter(lambda batch: pa.array([False] * batch.num_rows, pa.bool_()), SCHEMA)

    rng = random.Random(1)
    inputs = QueueInputs([make_input(rng, 0, 60)], [SCHEMA], rng)
    case = StandingBy(make, inputs, Scheme.ACTIVE, POLICIES["twice"], rng, str(folder))
    with ExitStack() as held:
        inputs.grow(20)
        queue, runner = case.begin(held)
        runner.run()
        standby = case.standby()
        standby.follow()
        inputs.grow(40)
        while standby.follow():
            """Until it has taken all that there is."""
        done = standby.take_over()
        assert done.runner._position.tolist() == [60]
        done.runner.acknowledge()
        (saved,) = [each.effects_saved for each in inputs.queues[0].consumers()]
        assert done.queue.rebuild().replay_from.tolist() >= [saved] == [60]
        case.zombie(queue, runner)
        done.queue.close()


@pytest.mark.parametrize("sees", [30, 120])
@pytest.mark.parametrize("window", [CountWindow(4, 2), TimeWindow(25, 10)])
@pytest.mark.parametrize("scheme", ANY)
def test_what_a_primary_does_up_to_the_fence_counts(folder, scheme, window, sees):
    """It goes on between a standby's last look and the fence, as one that is only slow does."""
    rng = random.Random(7)

    def make():
        return Aggregate(
            group_by=["k"], aggregates=AGGREGATES, window=window, input_schema=SCHEMA
        )  # fmt: skip

    inputs = RowInputs([make_input(rng, 0, 150)], [SCHEMA], rng)
    case = StandingBy(make, inputs, scheme, POLICIES["twice"], rng, str(folder))
    with ExitStack() as held:
        queue, runner = case.begin(held)
        inputs.primary.advance(50)
        runner.run()
        standby = case.standby()
        inputs.other.advance(sees)
        while standby.scheme is Scheme.ACTIVE and standby.follow():
            """Until it has taken all that it sees."""
        standby.follow()
        check = standby._check

        def check_and_be_late() -> None:
            check()
            inputs.primary.advance(40)
            runner.run()

        standby._check = check_and_be_late
        before = queue.durable_offset
        done = standby.take_over()
        assert queue.durable_offset > before
        case.takeovers.append(done)
        case.output_at.append(len(output_of(done.queue)))
        inputs.taken_over()
        case.zombie(queue, runner)
        inputs.finish()
        done.runner.run()
    output, state = case.expected(lambda: ReferenceAggregate(["k"], AGGREGATES, window))
    assert output_of(done.queue) == output
    assert state_of(done.runner) == state
    done.queue.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheme", [Scheme.PASSIVE, Scheme.ACTIVE, Scheme.EVENTUAL])
def test_resampled_rows_survive_a_takeover(tmp_path: Path, scheme: Scheme, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = [np.cumsum(rng.choice([0, 1, 3], 150)) + rng.integers(0, 3, 150) for _ in range(2)]
    sides = [
        pa.table({"k": rng.integers(0, 3, 150), "v": np.arange(150), "t": at.astype("M8[us]")})
        for at in times
    ]
    sources = [ArrowSource(side, "t") for side in sides]

    def make() -> Resample:
        totals = {"total": ("sum", "v")}
        return Resample(sides[0].schema, sides[1].schema, on=["k"], within_us=9, aggregates=totals)

    with open_queue(tmp_path / "whole", "a", schema=record_schema(make())) as whole:
        Runner(make(), sources, whole).run()
        expected = output_of(whole)
    policy = Targets(extent_factor=1.5, extent_floor=1, replay_rows=20)
    queue = open_queue(tmp_path / "queue", "a", schema=record_schema(make()))
    runner = Runner(make(), sources, queue, policy, step_rows_max=10)
    first, *steps = (
        step for step, _ in zip(runner._steps(runner._position), "123456", strict=False)
    )
    runner.step(first)
    queue.sync()
    with Standby(tmp_path / "queue", make, sources, scheme, policy) as standby:
        for step in steps:
            runner.step(step)
            queue.sync()
            standby.follow()
        taken = standby.take_over()
    taken.runner.run()
    assert output_of(taken.queue) == expected
    taken.queue.close()
