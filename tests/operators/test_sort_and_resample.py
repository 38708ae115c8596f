"""BSort and Resample: as a plain model has them, however they are cut, and after any crash."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.operators import BSort, Resample
from cec_store.operators.ordering.bubble import pass_through
from support.crashes.crashing_runs import POLICIES, CrashingRun, output_of, state_of
from support.models.aggregate_inputs import SCHEMA, make_input
from support.models.chance_operators import ReferenceBSort, ReferenceResample
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import Driven, in_order, make_steps, plain
from support.runs.counts import crash_count

seeds = st.integers(0, 2**32)
policies = st.sampled_from(sorted(POLICIES))
NEAR = {"rows": ("count",), "total": ("sum", "v"), "mean": ("avg", "v"), "least": ("min", "v")}
some = settings(max_examples=crash_count(6, 1_000))


def resample(within_us):
    return Resample(LEFT, RIGHT, on=["k", "s"], within_us=within_us, aggregates=NEAR)


def check(seed, make, reference, inputs, schemas, policy):
    """In steps cut at random, and with crashes."""
    rng = random.Random(seed)
    expected, start = [], (0,) * len(inputs)
    for row in in_order(inputs, list(start)):
        expected += plain(reference.take(row))
    driven = Driven(make())
    for step in make_steps(inputs, schemas, rng, start):
        driven.apply(step)
    assert driven.output == expected
    assert driven.state() == plain(reference.state())
    run = CrashingRun(make, inputs, schemas, POLICIES[policy], rng)
    queue, runner = run.until_done(rng.choice([0.05, 0.4]))
    assert output_of(queue) == expected
    assert state_of(runner) == plain(reference.state())
    queue.close()
    return len(expected)


@some
@given(seeds, st.sampled_from(["s", "k", "f", "u", "at"]), st.sampled_from([1, 4, 30]), policies)
def test_a_sort_lets_the_least_of_its_buffer_out_for_each_row(seed, by, slack, policy):
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([0, 3, 60])) for j in range(rng.choice([1, 2]))]

    def make():
        return BSort(by, slack, SCHEMA, inputs=len(inputs))

    schemas = [SCHEMA] * len(inputs)
    check(seed, make, ReferenceBSort(by, slack), inputs, schemas, policy)


@some
@given(seeds, st.sampled_from([0, 3, 20, 10_000]), policies)
def test_a_resample_has_a_row_for_each_left_one_that_is_in_time(seed, within_us, policy):
    rng = random.Random(seed)
    inputs = [make_side(rng, side, rng.choice([0, 20, 60])) for side in (0, 1)]
    reference = ReferenceResample(["k", "s"], within_us, NEAR)
    check(seed, lambda: resample(within_us), reference, inputs, [LEFT, RIGHT], policy)


def test_the_resamples_above_put_out_rows():
    rng = random.Random(1)
    inputs = [make_side(rng, side, 60) for side in (0, 1)]
    reference = ReferenceResample(["k", "s"], 20, NEAR)
    assert check(1, lambda: resample(20), reference, inputs, [LEFT, RIGHT], "twice") > 3


@given(st.permutations(range(40)), st.integers(0, 20))
def test_passes_of_a_bubble_sort_are_a_buffer_of_which_the_least_leaves(items, places):
    held, coming, out = sorted(items[:places]), items[places:], []
    expected = list(held)
    for item in coming:
        expected = sorted([*expected, item])
        out.append(expected.pop(0))
    left, kept = pass_through(np.array(held, np.int64), np.array(coming, np.int64))
    assert left.tolist() == out
    assert kept.tolist() == expected


def test_what_is_at_most_so_many_places_out_of_order_leaves_in_order():
    rng = np.random.default_rng(1)
    places = np.arange(5_000)
    jittered = np.argsort(places + rng.integers(0, 50, len(places)), kind="stable")
    (step,) = make_steps_of(jittered)
    rows = BSort("n", 50, pa.schema({"n": pa.int64()})).apply(step).rows
    assert rows.column("n").to_pylist() == list(range(5_000 - 50))


INTERVAL = pa.month_day_nano_interval()


def make_steps_of(numbers):
    from cec_store.operators.contract import Step

    batch = pa.record_batch({"n": pa.array(numbers)})
    positions = np.arange(1, len(numbers) + 1)[:, None]
    yield Step((batch,), np.zeros(len(numbers), np.int8), positions, np.arange(len(numbers)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BSort("n", 3, SCHEMA), "no column 'n'"),
        (lambda: BSort("k", 0, SCHEMA), "sorts nothing"),
        (lambda: BSort("k", 3, SCHEMA, inputs=0), "0 inputs, and 1 to 127"),
        (lambda: BSort("l", 3, pa.schema({"l": pa.list_(pa.int8())})), "which has no order"),
        (lambda: BSort("h", 3, pa.schema({"h": pa.float16()})), "'h' is halffloat, which has no"),
        (
            lambda: BSort("h", 3, pa.schema({"h": pa.dictionary(pa.int8(), pa.float16())})),
            "which has no order",
        ),
        (
            lambda: BSort("d", 3, pa.schema({"d": INTERVAL})),
            "month_day_nano_interval, which has no",
        ),
        (
            lambda: Resample(LEFT, RIGHT, on=["k"], within_us=1, aggregates={"l": ("count",)}),
            "two output columns of one name",
        ),
        (
            lambda: Resample(LEFT, RIGHT, on=["k"], within_us=1, aggregates={"x": ("sum", "r")}),
            "cannot take sum",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
