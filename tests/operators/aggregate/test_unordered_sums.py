"""Sums of floats in any order: their bits are the same, and their totals are the nearest float."""

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.format.columns import Ints
from cec_store.operators.aggregate import unordered_sums
from cec_store.operators.keys.encoder import fixed_column

ZERO: Ints = np.zeros(1, np.int64)


def sum_of(values):
    sums = np.zeros(1, unordered_sums.UNORDERED)
    unordered_sums.add(sums, np.zeros(len(values), np.int64), np.array(values, np.float64))
    return sums


def total_of(*values: float) -> float:
    return float(unordered_sums.totals(sum_of(values))[0])


def floats(rng: random.Random, spread: int) -> list[float]:
    values = [math.ldexp(rng.uniform(-1, 1), rng.randint(-spread, spread)) for _ in range(40)]
    return [*rng.sample(values, rng.choice([1, 2, 3, 10, 40])), 0.0, -0.0]


@given(st.integers(0, 2**32), st.sampled_from([0, 5, 20]))
def test_a_total_is_the_float_nearest_to_the_exact_sum(seed, spread):
    values = floats(random.Random(seed), spread)
    assert total_of(*values) == math.fsum(values)


@given(st.integers(0, 2**32), st.sampled_from([0, 20, 60, 300, 1000]))
def test_order_and_merges_change_no_bit(seed, spread):
    rng = random.Random(seed)
    values = floats(rng, spread)
    values += rng.choice([[], [float("inf")], [float("nan"), 5e-324], [2.5e-308, -5e-324]])
    expected = sum_of(values)
    rng.shuffle(values)
    cut = rng.randrange(len(values) + 1)
    merged = sum_of(values[:cut])
    unordered_sums.merge(merged, ZERO, sum_of(values[cut:]))
    assert merged.tobytes() == expected.tobytes()
    column = fixed_column(unordered_sums.SUM_TYPE, unordered_sums.to_words(merged), None)
    assert unordered_sums.from_column(column).tobytes() == expected.tobytes()
    assert column.type == pa.binary(64)


@given(st.integers(0, 2**32))
def test_what_is_dropped_is_far_below_the_largest_value(seed):
    values = floats(random.Random(seed), 300)
    exact = sum(map(Fraction, values))
    bound = Fraction(max(map(abs, values))) * len(values) / 2**136
    error = abs(Fraction(total_of(*values)) - exact)
    assert error <= bound + Fraction(math.ulp(float(exact))) / 2


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ((), 0.0),
        ((1e16, 0.1, -1e16), 0.1),
        ((1.7e308, 1.7e308), math.inf),
        ((5e-324, 5e-324), 1e-323),
        ((-3e-308, 5e-324), -3e-308 + 5e-324),
        ((2.0**53, 1.0), 2.0**53),
        ((2.0**53, 1.0, 2.0**-40), 2.0**53 + 2),
        ((-(2.0**53), -3.0), -(2.0**53) - 4),
        ((math.inf, -1.0), math.inf),
        ((-math.inf, 1e300), -math.inf),
    ],
)
def test_totals_round_to_even_and_keep_what_is_no_number(values, total):
    assert total_of(*values) == total


@pytest.mark.parametrize("values", [(math.nan,), (math.inf, -math.inf), (math.inf, math.nan)])
def test_a_sum_of_no_number_is_none(values):
    assert math.isnan(total_of(*values))


def test_many_sums_at_once_are_those_of_each_alone():
    rng = random.Random(1)
    lists = [floats(rng, 60) for _ in range(50)]
    at = [number for number, values in enumerate(lists) for _ in values]
    sums = np.zeros(50, unordered_sums.UNORDERED)
    order = rng.sample(range(len(at)), len(at))
    flat = np.array([value for values in lists for value in values])
    unordered_sums.add(sums, np.array(at)[order], flat[order])
    for number, values in enumerate(lists):
        assert sums[number : number + 1].tobytes() == sum_of(values).tobytes()
    into, merged = np.arange(0, 50, 2), np.arange(1, 50, 2)
    unordered_sums.merge(sums, into, sums[merged])
    for number in into.tolist():
        expected = sum_of(lists[number] + lists[number + 1])
        assert sums[number : number + 1].tobytes() == expected.tobytes()
