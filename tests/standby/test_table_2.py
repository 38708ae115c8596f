"""Table 2 of the availability paper, with operators that run: what is seen after each takeover.

Each scheme is one way to begin again (:data:`RESTARTS`); what it puts out is held against what the
primary put out and would have put out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
import pytest

from cec_store.operators import Aggregate, CountWindow, Filter, Luck, TimeWindow, Union
from cec_store.operators.checking import Output, compare, run
from cec_store.operators.choosing import Choosing
from cec_store.operators.taxonomy import NetworkType, RecoveryType
from cec_store.standby.schemes import Scheme
from support.crashes.crashing_runs import CrashingRun, RowSource, output_of
from support.models.aggregate_inputs import SCHEMA, make_input
from support.models.chance_operators import ReferenceUnion, logged_steps
from support.models.reference_operators import Driven, in_order, plain

REPEATING, CONVERGENT = RecoveryType.REPEATING, RecoveryType.CONVERGENT
DIVERGENT, PRECISE, GAP = RecoveryType.DIVERGENT, RecoveryType.PRECISE, RecoveryType.GAP
STEP_ROWS = 11


def windows(window, **more):
    sums = {"rows": ("count",), "total": ("sum", "f")}
    return lambda: Aggregate(
        group_by=["u"], aggregates=sums, window=window, input_schema=SCHEMA, **more
    )


OPERATORS: dict[NetworkType, list[Callable]] = {
    NetworkType.REPEATABLE: [
        lambda: Filter(pc.field("k") > 0, SCHEMA),
        lambda: Union(SCHEMA, 2),
    ],
    NetworkType.CONVERGENT: [windows(TimeWindow(60, 20)), windows(TimeWindow(50))],
    NetworkType.DETERMINISTIC: [windows(CountWindow(7)), windows(CountWindow(6, 3))],
    NetworkType.ARBITRARY: [
        lambda: Union(SCHEMA, 2, by_arrival=True),
        windows(CountWindow(7), inputs=2, by_arrival=True),
        windows(CountWindow(50), timeout_us=30),
    ],
}
TABLE_2 = {
    Scheme.PASSIVE: (REPEATING, REPEATING, REPEATING, DIVERGENT),
    Scheme.UPSTREAM: (REPEATING, CONVERGENT, DIVERGENT, DIVERGENT),
    Scheme.ACTIVE: (REPEATING, REPEATING, REPEATING, DIVERGENT),
    Scheme.AMNESIA: (GAP, GAP, GAP, GAP),
}


class AnyClock:
    """Another one each time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now_us = rng, 0

    def luck(self) -> Luck:
        def clock_us() -> int:
            self.now_us += self.rng.choice([1, 5, 20])
            return self.now_us

        return Luck(clock_us, lambda: self.rng.randrange(2**63))


@dataclass
class Failure:
    """A run of the primary to its end, and where it failed on the way."""

    make: Callable
    sources: list[RowSource]
    whole: Output
    checkpoint: np.ndarray
    """The position of its last checkpoint; its windows as they were there."""
    windows: tuple
    failed: np.ndarray
    oldest: np.ndarray
    """Where the step began that opened the oldest window open when it failed: level 1."""
    rng: random.Random

    def rows_again(self, operator, start) -> Output:
        return run(operator, self.sources, start, STEP_ROWS, AnyClock(self.rng).luck())[0]


def failure_of(make: Callable, seed: int) -> Failure:
    rng = random.Random(seed)
    operator = make()
    sources = [RowSource(make_input(rng, j, 220), SCHEMA, rng) for j in range(operator.inputs)]
    driven, opened, positions, rows = Driven(operator), {}, [], []
    start = np.zeros(operator.inputs, np.int64)
    steps = list(Choosing(operator, sources, STEP_ROWS, AnyClock(rng).luck()).steps(start))
    fails_at = len(steps) // 2
    begin = start
    for number, step in enumerate(steps):
        done = len(driven.output)
        effects = operator.apply(step)
        driven.open.difference_update(effects.closed.tolist())
        driven.open.update(effects.opened.tolist())
        opened |= dict.fromkeys(effects.opened.tolist(), begin)
        sums = np.append(step.positions.sum(axis=1), begin.sum())
        positions += sums[effects.causes].tolist()
        rows += [repr(row) for row in effects.rows.to_pylist()]
        begin = step.end
        if number == fails_at - 3:
            checkpoint, slots = begin, np.array(sorted(driven.open), np.int64)
            held = operator.snapshot(slots)
        if number == fails_at:
            failed = begin
            is_mark = (
                {0} if operator.key_schema is not None and operator._slots.own_slots else set()
            )
            oldest = min((opened[each] for each in driven.open - is_mark), key=sum, default=begin)
        assert done == len(driven.output)
    whole = Output(np.array(positions, np.int64), rows)
    return Failure(make, sources, whole, checkpoint, held, failed, oldest, rng)


def passive(failure: Failure) -> tuple[Output, np.ndarray]:
    """State from footprints, all as of one position here; input from there."""
    operator = failure.make()
    keys, states = failure.windows
    operator.restore(keys, states, np.tile(failure.checkpoint, (len(keys), 1)))
    return failure.rows_again(operator, failure.checkpoint), failure.checkpoint


def upstream(failure: Failure) -> tuple[Output, np.ndarray]:
    """Nothing but the input from the level-1 position."""
    begin = np.minimum(failure.oldest, failure.checkpoint)
    return failure.rows_again(failure.make(), begin), begin


def active(failure: Failure) -> tuple[Output, np.ndarray]:
    """A second copy that has had all the input, as it came there; what is not trimmed comes."""
    begin = np.zeros(len(failure.sources), np.int64)
    trimmed = failure.checkpoint
    whole = failure.rows_again(failure.make(), begin)
    return whole.since(int(trimmed.sum())), trimmed


def amnesia(failure: Failure) -> tuple[Output, np.ndarray]:
    """Nothing, at the live end, which has moved on."""
    position, sources = failure.failed.copy(), failure.sources
    for number, source in enumerate(sources):
        later = [row.offset for row in source.rows if row.offset >= position[number]]
        position[number] = later[min(60, len(later) - 1)]
    return failure.rows_again(failure.make(), position), position


RESTARTS = {
    Scheme.PASSIVE: passive,
    Scheme.UPSTREAM: upstream,
    Scheme.ACTIVE: active,
    Scheme.AMNESIA: amnesia,
}


def seen(scheme: Scheme, failure: Failure) -> RecoveryType:
    again, begin = RESTARTS[scheme](failure)
    lost = failure.whole.since(int(failure.failed.sum())).items()
    if begin.sum() > failure.failed.sum():
        first = again.positions[0] if len(again.positions) else np.inf
        assert any(position < first for position, _ in lost)
        return GAP
    return compare(failure.whole.since(int(begin.sum())), again)


@pytest.mark.parametrize("kind", NetworkType)
@pytest.mark.parametrize("scheme", TABLE_2, ids=lambda scheme: scheme.name.lower())
def test_table_2(scheme: Scheme, kind: NetworkType) -> None:
    expected = TABLE_2[scheme][list(NetworkType).index(kind)]
    order = [REPEATING, CONVERGENT, DIVERGENT, GAP]
    for make in OPERATORS[kind]:
        assert make().operator_type is kind
        found = [seen(scheme, failure_of(make, seed)) for seed in range(4)]
        assert max(found, key=order.index) is expected, found


@pytest.mark.parametrize("by_arrival", [False, True])
def test_the_eventual_checkpoint_is_precise_whatever_the_type(by_arrival: bool) -> None:
    """The other operators: tests/operators/test_chance.py, test_crash_recovery.py."""
    rng = random.Random(1)
    inputs = [make_input(rng, j, 60) for j in range(2)]

    def make():
        return Union(SCHEMA, 2, by_arrival=by_arrival)

    run = CrashingRun(make, inputs, [SCHEMA] * 2, None, rng)
    run.step_rows_max = 5
    queue, _ = run.until_done(0.3)
    assert run.crashes > 1
    if by_arrival:
        steps = logged_steps(queue, inputs)
        expected = [row for step in steps for row in ReferenceUnion().take_step(step)]
    else:
        expected = [row.values for row in in_order(inputs, [0, 0])]
    assert output_of(queue) == plain(expected)
    queue.close()
