"""Windows: which rows they hold, and when they are due."""

import random

import numpy as np
import pytest

from cec_store.operators.aggregate.watermark_slots import WindowEnds
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow


@pytest.mark.parametrize("kind", [CountWindow, TimeWindow])
@pytest.mark.parametrize(("size", "advance"), [(0, None), (-1, None), (3, 0), (3, 4), (3, -1)])
def test_a_window_that_does_not_advance_by_one_to_its_size_is_refused(kind, size, advance):
    with pytest.raises(ValueError, match="1 <= advance <= size"):
        kind(size, advance)
    assert kind(3) == kind(3, 3)
    assert kind(3, 2) != kind(3)
    assert hash(kind(3, 2)) == hash(kind(3, 2))


@pytest.mark.parametrize("kind", [CountWindow, TimeWindow])
@pytest.mark.parametrize(("size", "advance"), [(1e6, None), (2.0, None), (4, 2.0), ("3", None)])
def test_a_window_whose_size_or_advance_is_no_integer_is_refused(kind, size, advance):
    with pytest.raises(TypeError, match="integer"):
        kind(size, advance)
    assert type(kind(np.int64(3)).lanes) is int


@pytest.mark.parametrize(("size", "advance"), [(10, 10), (10, 5), (10, 4), (7, 3), (3, 1), (1, 1)])
def test_a_time_is_in_every_window_that_starts_at_or_before_it_and_ends_after_it(size, advance):
    window = TimeWindow(size, advance)
    times = np.arange(-25, 25)
    starts, holds = window.starts_us(times)
    assert starts.shape == (50, window.lanes)
    for row, time in enumerate(times):
        found = starts[row] if holds is None else starts[row][holds[row]]
        every = [s for s in range(-60, 60) if s % advance == 0 and s <= time < s + size]
        assert sorted(found.tolist()) == every


@pytest.mark.parametrize(("size", "advance"), [(10, 10), (10, 5), (10, 4), (7, 3), (3, 1), (1, 1)])
def test_the_rows_of_a_count_window_are_spread_over_lanes_without_overlap(size, advance):
    window = CountWindow(size, advance)
    rows = np.arange(60)
    found = set()
    for lane in range(window.lanes):
        number, place = window.place(lane, rows)
        for row, n, p in zip(rows.tolist(), number.tolist(), place.tolist(), strict=True):
            if n >= 0 and p < size:
                found.add((n * window.lanes + lane, p, row))
    every = {(k, p, k * advance + p) for k in range(60) for p in range(size)}
    assert found == {each for each in every if each[2] < 60}


def test_window_ends_give_what_is_due_and_nothing_else():
    rng = random.Random(7)
    ends_of, held, popped = WindowEnds(), [], 0
    for now in range(0, 3_000, 10):
        count = rng.choice([0, 1, 3, 50, 400])
        ends = [now + rng.choice([-5, 0, 1, 500, 100_000]) for _ in range(count)]
        slots = [rng.randrange(10**6) for _ in ends]
        ends_of.push(np.array(ends, np.int64), np.array(slots, np.int64))
        held += zip(ends, slots, strict=True)
        due = sorted(slot for end, slot in held if end <= now)
        held = [(end, slot) for end, slot in held if end > now]
        assert sorted(ends_of.pop(now).tolist()) == due
        assert len(ends_of._runs) < 20
        popped += len(due)
    assert popped > 1_000
