"""The join gives what the plain-Python one gives, however its inputs are cut."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.operators.contract import Choices
from cec_store.operators.join import waiting
from cec_store.operators.join.join import WindowJoin
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import (
    Driven,
    ReferenceJoin,
    make_rows,
    make_steps,
)


def compare(seed: int, within_us: int, on: list[str], key_count: int = 3) -> int:
    rng = random.Random(seed)
    inputs = [make_side(rng, source, rng.choice([0, 20, 100]), key_count) for source in (0, 1)]
    driven = Driven(WindowJoin(LEFT, RIGHT, on=on, within_us=within_us))
    reference = ReferenceJoin(on, within_us)
    driven.require_equal(reference, inputs, [LEFT, RIGHT], rng)
    return len(driven.output)


@given(
    st.integers(0, 2**32),
    st.sampled_from([0, 3, 20, 10_000]),
    st.sampled_from([["k"], ["k", "s"], ["s"]]),
)
def test_pairs_equal_the_reference(seed, within_us, on):
    compare(seed, within_us, on)


def test_the_references_pairs_are_many():
    assert sum(compare(seed, 5, ["k"]) for seed in range(10)) > 100


def test_rows_that_wait_are_kept_in_few_chunks(monkeypatch):
    monkeypatch.setattr(waiting, "_CHUNKS_MAX", 2)
    assert sum(compare(seed, 20, ["k"]) for seed in range(20)) > 300


def test_rows_and_keys_out_of_reach_are_let_go():
    schema = pa.schema({"k": pa.string(), "n": pa.int64()})
    join = WindowJoin(schema, schema, on=["k"], within_us=50)
    driven = Driven(join)
    numbers = range(20_000)
    columns = {"k": [f"key {n}" for n in numbers], "n": list(numbers)}
    inputs = [make_rows(source, schema, columns, numbers, numbers) for source in (0, 1)]
    rng = random.Random(0)
    rng.choice = lambda options: max(options)
    for step in make_steps(inputs, [schema, schema], rng, (0, 0)):
        driven.apply(step)
    assert driven.output == [{"k": f"key {n}", "n_left": n, "n_right": n} for n in numbers]
    assert join._keys.bound < 10_000
    assert all(side.chunk_rows < 500 for side in join._waiting)


def test_clocks_that_a_join_keeps_are_those_of_steps_whose_rows_wait():
    schema = pa.schema({"k": pa.int64()})
    join = WindowJoin(schema, schema, on=["k"], within_us=50, timeout_us=3_600_000_000)
    numbers = range(1_000)
    times_us = [10 * number for number in numbers]
    columns = {"k": [number % 5 for number in numbers]}
    inputs = [make_rows(source, schema, columns, times_us, numbers) for source in (0, 1)]
    rng = random.Random(0)
    rng.choice = lambda options: min(option for option in options if option)
    steps = make_steps(inputs, [schema, schema], rng, (0, 0))
    for number, step in enumerate(steps, 1):
        join.apply(replace(step, choices=Choices(10_000 * number)))
        waiting = sum(len(side.codes) for side in join._waiting)
        state = join.snapshot(np.zeros(1, np.int64))[1][0].as_py()
        assert len(state["clocks"]) // 3 <= waiting
    assert number > 100


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"on": ["l"]}, "no column 'l' in both inputs"),
        ({"on": ["v"]}, "'v' is double on the left, int64 on the right"),
        ({"on": []}, "at least one column"),
        ({"within_us": -1}, "within_us is -1"),
        ({"suffixes": ("", "")}, "two output columns of one name"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    given = {"on": ["k"], "within_us": 1}
    with pytest.raises(ValueError, match=message):
        WindowJoin(LEFT, RIGHT, **{**given, **changed})
    assert WindowJoin(LEFT, RIGHT, **given).output_schema.names == [
        "k",
        "s_left",
        "v_left",
        "l",
        "r",
        "v_right",
        "s_right",
    ]
