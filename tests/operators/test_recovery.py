"""Operators come back from footprints: state and output are those of a run without a crash.

No log here: the newest footprint of each open window is picked from what a run without a crash
wrote, as the log would.
"""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.contract import InputBatch
from cec_store.operators.join.join import WindowJoin
from support.models.aggregate_inputs import (
    COUNT_WINDOWS,
    SCHEMA,
    TIME_WINDOWS,
    aggregates,
    make_input,
)
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import Driven, make_steps


class Footprints:
    """The newest footprint of each open window."""

    def __init__(self, driven: Driven) -> None:
        self.driven = driven
        self.newest: dict[int, tuple[pa.StructArray, pa.StructArray, tuple[int, ...]]] = {}

    def after(self, step, check_share: float, rng: random.Random) -> None:
        """Footprints of what has opened in this step, and checks of some other windows."""
        position = tuple(step.positions[-1].tolist())
        slots = sorted(self.driven.open)
        opened = set(self.driven.opened)
        written = [slot for slot in slots if slot in opened or rng.random() < check_share]
        keys, states = self.driven.snapshot(written)
        for nth, slot in enumerate(written):
            self.newest[slot] = (keys[nth : nth + 1], states[nth : nth + 1], position)
        self.newest = {slot: self.newest[slot] for slot in slots}

    def restore_into(self, driven: Driven, inputs_count: int, crash: tuple[int, ...]):
        """Restore, in any order; the position to catch up from."""
        footprints = list(self.newest.values())
        random.Random(len(footprints)).shuffle(footprints)
        if not footprints:
            return crash
        keys = pa.concat_arrays([key for key, _, _ in footprints])
        states = pa.concat_arrays([state for _, state, _ in footprints])
        positions = np.array([position for _, _, position in footprints], np.int64)
        slots = driven.operator.restore(keys, states, positions)
        driven.open = set(slots.tolist())
        assert len(driven.open) == len(footprints) == driven.operator.open_windows
        lowest = positions.min(axis=0)
        assert (positions.sum(axis=1) == lowest.sum()).any()  # positions stand in one order
        return tuple(lowest.tolist())


def check_recovery(rng, make_operator, inputs, schemas, check_share) -> int:
    """Crash once at a random step; the number of windows that were open."""
    start = (0,) * len(inputs)
    steps = make_steps(inputs, schemas, rng, start)
    if not steps:
        return 0
    crash_at = rng.randrange(len(steps))
    whole = Driven(make_operator())
    footprints = Footprints(whole)
    for step in steps[: crash_at + 1]:
        whole.apply(step)
        footprints.after(step, check_share, rng)
    crash = tuple(steps[crash_at].positions[-1].tolist())
    state_at_crash, output_count = whole.state(), len(whole.output)
    for step in steps[crash_at + 1 :]:
        whole.apply(step)

    again = Driven(make_operator())
    lowest = footprints.restore_into(again, len(inputs), crash)
    preload_start = again.operator.preload_start()
    if preload_start is not None:
        for source, rows in enumerate(inputs):
            # A row too many, as a whole batch has, must do no harm.
            stop = lowest[source] + rng.choice([0, 0, 3])
            below = [row for row in rows if preload_start[source] <= row.offset < stop]
            for step in make_steps([below], [schemas[source]], rng, (0,)):
                again.operator.preload(source, input_batch(step))
    # Rows from before the lowest position, read as part of a batch, must do no harm either.
    for step in make_steps(inputs, schemas, rng, rng.choice([start, lowest, lowest]), crash):
        again.operator.catch_up(step)
    assert again.state() == state_at_crash
    for step in make_steps(inputs, schemas, rng, crash):
        again.apply(step)
    assert again.output == whole.output[output_count:]
    assert again.causes == whole.causes[output_count:]
    assert again.state() == whole.state()
    return len(state_at_crash)


def input_batch(step):
    return InputBatch(step.batches[0], step.positions[:, 0] - 1, step.timestamps_us)


def check_aggregate(seed, window, group_by, inputs_count=1, event_time=None) -> int:
    rng = random.Random(seed)

    make = aggregates(window, group_by, inputs_count, event_time)

    inputs = [
        make_input(rng, j, rng.choice([3, 40, 150 // inputs_count])) for j in range(inputs_count)
    ]
    return check_recovery(rng, make, inputs, [SCHEMA] * inputs_count, rng.choice([0, 0.1, 0.5]))


@given(st.integers(0, 2**32), st.sampled_from(COUNT_WINDOWS), st.sampled_from([["k"], ["g", "s"]]))
def test_count_windows_come_back(seed, window, group_by):
    check_aggregate(seed, window, group_by)


@given(st.integers(0, 2**32), st.sampled_from(TIME_WINDOWS), st.sampled_from([["k"], ["g", "s"]]))
def test_time_windows_come_back(seed, window, group_by):
    check_aggregate(seed, window, group_by)


@given(st.integers(0, 2**32), st.sampled_from(TIME_WINDOWS + COUNT_WINDOWS))
def test_windows_over_several_inputs_come_back(seed, window):
    check_aggregate(seed, window, ["s"], inputs_count=2)


@given(st.integers(0, 2**32), st.sampled_from(TIME_WINDOWS))
def test_event_times_come_back(seed, window):
    check_aggregate(seed, window, [], event_time="at")


@pytest.mark.parametrize("window", [CountWindow(7), CountWindow(5, 2), TimeWindow(25, 10)])
def test_the_crashes_above_find_windows_open(window):
    assert sum(check_aggregate(seed, window, ["k"]) > 2 for seed in range(20)) > 10


@given(st.integers(0, 2**32), st.sampled_from([0, 3, 20, 10_000]))
def test_a_join_comes_back_from_where_its_input_is_still_needed(seed, within_us):
    rng = random.Random(seed)
    inputs = [make_side(rng, source, rng.choice([0, 20, 100])) for source in (0, 1)]

    def make():
        return WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=within_us)

    check_recovery(rng, make, inputs, [LEFT, RIGHT], rng.choice([0, 0.1, 0.5]))
