"""Inputs merge into one order, whatever their batches are."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.operators.contract import InputBatch
from cec_store.operators.inputs.merge import INPUTS_MAX, merge
from support.models.reference_operators import Row, in_order, make_steps

SCHEMA = pa.schema({"n": pa.int64()})


def make_input(rng: random.Random, source: int) -> list[Row]:
    offset, clock, rows = rng.randrange(5), 0, []
    for _ in range(rng.choice([0, 1, 30, 100])):
        offset += rng.choice([1, 1, 3])
        clock += rng.choice([0, 0, 1, 5])
        time = clock - rng.choice([0, 0, 0, 7])
        rows.append(Row(source, offset, time, {"n": rng.randrange(1000)}))
    return rows


def rows_of(steps) -> list[tuple]:
    found = []
    for step in steps:
        assert step.rows > 0
        assert step.source.dtype == np.int8
        assert step.positions.shape == (step.rows, len(step.batches))
        assert step.rows == sum(batch.num_rows for batch in step.batches)
        numbers = step.in_order().column("n").to_pylist()
        positions = map(tuple, step.positions.tolist())
        columns = (step.source.tolist(), step.timestamps_us.tolist(), numbers, positions)
        found += zip(*columns, strict=True)
    return found


def expected(inputs, starts):
    return [
        (row.source, row.timestamp_us, row.values["n"], row.positions)
        for row in in_order(inputs, starts)
    ]


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_order_is_that_of_the_heads_for_any_batches(seed, inputs_count):
    rng = random.Random(seed)
    inputs = [make_input(rng, source) for source in range(inputs_count)]
    starts = (0,) * inputs_count
    whole = rows_of(make_steps(inputs, [SCHEMA] * inputs_count, rng, starts))
    assert whole == expected(inputs, starts)
    if whole:
        # From the position of any row on, the order is the same.
        cut = rng.randrange(len(whole))
        rest = rows_of(make_steps(inputs, [SCHEMA] * inputs_count, rng, whole[cut][3]))
        assert rest == whole[cut + 1 :]


def batch_of(offsets, timestamps_us):
    batch = pa.record_batch([pa.array(offsets, pa.int64())], schema=SCHEMA)
    return InputBatch(batch, np.array(offsets, np.int64), np.array(timestamps_us, np.int64))


def test_a_row_leaves_as_soon_as_nothing_can_come_before_it():
    def slow():
        yield batch_of([0, 1], [10, 20])
        raise AssertionError("read on while a row was decided")

    fast = iter([batch_of([0, 1, 2, 3], [5, 20, 20, 21])])
    steps = merge([fast, slow()], np.zeros(2, np.int64), [SCHEMA, SCHEMA])
    first = next(steps)
    assert first.timestamps_us.tolist() == [5, 10, 20, 20, 20]
    assert first.source.tolist() == [0, 1, 0, 0, 1]


def test_steps_are_no_longer_than_asked():
    batches = iter([batch_of(range(10), range(10)), batch_of([], []), batch_of([12], [3])])
    steps = list(merge([batches], np.zeros(1, np.int64), [SCHEMA], rows_max=4))
    assert [step.rows for step in steps] == [4, 4, 2, 1]
    assert steps[-1].positions.tolist() == [[13]]


def test_no_rows_make_no_steps():
    assert list(merge([iter([]), iter([])], np.zeros(2, np.int64), [SCHEMA, SCHEMA])) == []


def test_more_inputs_than_a_step_can_number_are_refused():
    count = INPUTS_MAX + 1
    with pytest.raises(ValueError, match="128 inputs"):
        next(merge([iter([])] * count, np.zeros(count, np.int64), [SCHEMA] * count))
