"""A standby follows what chance has decided: precise recovery of operators that depend on it."""

import random

import pytest

from cec_store.operators import (
    Aggregate,
    CountWindow,
    RandomFilter,
    SessionWindow,
    TimeWindow,
    Union,
    WindowJoin,
)
from cec_store.standby.schemes import Scheme
from support.crashes.crashing_runs import POLICIES, output_of, state_of
from support.models.aggregate_inputs import AGGREGATES, SCHEMA, make_input
from support.models.chance_operators import (
    ReferenceRandomFilter,
    ReferenceTimedAggregate,
    ReferenceTimedJoin,
    ReferenceUnion,
    logged_steps,
)
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import plain
from support.models.reference_sessions import ReferenceSessions, with_totals
from support.runs.counts import crash_count
from support.standby.standing_by import RowInputs, StandingBy

pytestmark = pytest.mark.crash


def windows(window, **more):
    def make():
        return Aggregate(
            group_by=["k"], aggregates=AGGREGATES, window=window, input_schema=SCHEMA, **more
        )

    timeout_us = more.get("timeout_us")
    return make, lambda: ReferenceTimedAggregate(["k"], AGGREGATES, window, timeout_us)


def timed_join(within_us, timeout_us):
    def make():
        return WindowJoin(LEFT, RIGHT, on=["k"], within_us=within_us, timeout_us=timeout_us)

    return make, lambda: ReferenceTimedJoin(["k"], within_us, timeout_us)


OPERATORS = {
    "union": (lambda: Union(SCHEMA, 2, by_arrival=True), ReferenceUnion),
    "random filter": (lambda: RandomFilter(0.3, SCHEMA), lambda: ReferenceRandomFilter(0.3)),
    "count windows by arrival": windows(CountWindow(5, 2), inputs=2, by_arrival=True),
    "count windows with a timeout": windows(CountWindow(7), timeout_us=30_000),
    "time windows with a timeout": windows(TimeWindow(40), timeout_us=20_000),
    "sessions by arrival": (
        windows(SessionWindow(4, 40), inputs=2, by_arrival=True)[0],
        lambda: ReferenceSessions(["k"], AGGREGATES, SessionWindow(4, 40)),
    ),
    "join by arrival": (
        lambda: WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=20, by_arrival=True),
        lambda: ReferenceTimedJoin(["k", "s"], 20, None),
    ),
    "join with a timeout": timed_join(20, 30_000),
    "join with a timeout that nothing reaches": timed_join(20, 3_600_000_000),
}


@pytest.mark.parametrize("scheme", [Scheme.PASSIVE, Scheme.EVENTUAL])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("seed", range(crash_count(2, 60)))
def test_takeovers_follow_what_chance_has_decided(tmp_path, name, seed, scheme, tally):
    make, make_reference = OPERATORS[name]
    rng = random.Random(seed)
    if name.startswith("join"):
        inputs, schemas = [make_side(rng, side, 50) for side in (0, 1)], [LEFT, RIGHT]
    else:
        inputs = [make_input(rng, number, 80) for number in range(make().inputs)]
        schemas = [SCHEMA] * len(inputs)
    policy = POLICIES[rng.choice(sorted(POLICIES))]
    case = StandingBy(make, RowInputs(inputs, schemas, rng), scheme, policy, rng, str(tmp_path))
    queue, runner = case.run(3)
    reference, expected = make_reference(), []
    for step in logged_steps(queue, inputs):
        expected += plain(reference.take_step(step))
    assert output_of(queue) == expected
    assert with_totals(state_of(runner)) == plain(reference.state())
    queue.close()
    tally(len(case.takeovers))
