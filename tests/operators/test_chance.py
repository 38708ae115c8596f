"""Operators that depend on chance come back from any crash as if it had not been.

The log says what chance decided. So output and state are those of a plain model that takes the
logged steps one by one: what was chosen before a crash holds, and what comes after is a run that
might have been.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.operators import (
    Aggregate,
    BSort,
    CountWindow,
    Luck,
    RandomFilter,
    TimeWindow,
    Union,
    WindowJoin,
)
from support.crashes.crashing_runs import POLICIES, CrashingRun, output_of, state_of
from support.models.aggregate_inputs import AGGREGATES, SCHEMA, make_input
from support.models.chance_operators import (
    ReferenceBSort,
    ReferenceRandomFilter,
    ReferenceTimedAggregate,
    ReferenceTimedJoin,
    ReferenceUnion,
    determinants_of,
    logged_steps,
)
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import plain
from support.runs.counts import crash_count

seeds = st.integers(0, 2**32)
policies = st.sampled_from(sorted(POLICIES))


def aggregate(window, group_by=("k",), inputs=1, timeout_us=None, by_arrival=False):
    def make():
        return Aggregate(
            group_by=list(group_by),
            aggregates=AGGREGATES,
            window=window,
            input_schema=SCHEMA,
            inputs=inputs,
            timeout_us=timeout_us,
            by_arrival=by_arrival,
        )

    return make, lambda: ReferenceTimedAggregate(list(group_by), AGGREGATES, window, timeout_us)


def join(within_us, timeout_us=None, by_arrival=False):
    def make():
        return WindowJoin(
            LEFT, RIGHT, on=["k", "s"], within_us=within_us, timeout_us=timeout_us,
            by_arrival=by_arrival,
        )  # fmt: skip

    return make, lambda: ReferenceTimedJoin(["k", "s"], within_us, timeout_us)


OPERATORS = {
    "union": (lambda: Union(SCHEMA, 3, by_arrival=True), ReferenceUnion),
    "random filter": (lambda: RandomFilter(0.3, SCHEMA), lambda: ReferenceRandomFilter(0.3)),
    "count windows by arrival": aggregate(CountWindow(7), inputs=2, by_arrival=True),
    "overlapping count windows by arrival": aggregate(CountWindow(5, 2), inputs=2, by_arrival=True),
    "time windows by arrival": aggregate(TimeWindow(40, 20), inputs=3, by_arrival=True),
    "count windows with a timeout": aggregate(CountWindow(7), timeout_us=30),
    "time windows with a timeout": aggregate(TimeWindow(40), timeout_us=20),
    "overlapping windows with a timeout": aggregate(TimeWindow(25, 10), ("g", "s"), 1, 15),
    "windows by arrival with a timeout": aggregate(TimeWindow(25, 10), ("s",), 2, 15, True),
    "sort by arrival": (
        lambda: BSort("f", 9, SCHEMA, inputs=2, by_arrival=True),
        lambda: ReferenceBSort("f", 9),
    ),
    "join by arrival": join(20, by_arrival=True),
    "join with a timeout": join(20, timeout_us=25),
    "join by arrival with a timeout": join(10_000, 25, True),
}


class RandomLuck:
    """A clock that mostly goes forward, and any seeds."""

    def __init__(self, rng) -> None:
        self.rng, self.now_us = rng, 1_000

    def luck(self) -> Luck:
        return Luck(self._clock_us, lambda: self.rng.randrange(2**63))

    def _clock_us(self) -> int:
        self.now_us += self.rng.choice([0, 1, 5, 12, 40, -15])
        return self.now_us


def inputs_of(operator, rng):
    if isinstance(operator, WindowJoin):
        sides = [make_side(rng, side, rng.choice([0, 20, 50])) for side in (0, 1)]
        return sides, [LEFT, RIGHT]
    count = operator.inputs
    return [make_input(rng, j, rng.choice([3, 25, 50])) for j in range(count)], [SCHEMA] * count


class ChanceRun(CrashingRun):
    """Notes before each start what the log says was chosen."""

    def __init__(self, make, inputs, schemas, policy, rng) -> None:
        super().__init__(make, inputs, schemas, policy, rng)
        self.luck, self.tick_share = RandomLuck(rng).luck(), 0.3
        self.chosen: list[list] = []

    def open(self):
        queue, runner = super().open()
        self.chosen.append(determinants_of(queue))
        return queue, runner


def run_with_crashes(seed, name, policy):
    make, make_reference = OPERATORS[name]
    rng = random.Random(seed)
    inputs, schemas = inputs_of(make(), rng)
    run = ChanceRun(make, inputs, schemas, POLICIES[policy], rng)
    queue, runner = run.until_done(rng.choice([0.02, 0.2, 0.6]))
    reference, expected = make_reference(), []
    steps = logged_steps(queue, inputs)
    for step in steps:
        expected += plain(reference.take_step(step))
    assert output_of(queue) == expected
    assert state_of(runner) == plain(reference.state())
    assert sum(len(step.rows) for step in steps) == sum(map(len, inputs))
    whole = determinants_of(queue)
    for before in run.chosen:
        assert whole[: len(before)] == before
    queue.close()
    return run


@pytest.mark.parametrize("name", sorted(OPERATORS))
@settings(max_examples=crash_count(2, 1_000))
@given(seed=seeds, policy=policies)
def test_output_and_state_follow_from_what_was_logged(name, seed, policy):
    run_with_crashes(seed, name, policy)


@pytest.mark.parametrize("name", ["windows by arrival with a timeout", "join by arrival"])
def test_the_crashes_above_happen_with_windows_open(name):
    runs = [run_with_crashes(seed, name, "twice") for seed in range(6)]
    assert sum(run.crashes for run in runs) > 2
    assert sum(run.recovered_windows for run in runs) > 2
