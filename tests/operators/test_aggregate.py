"""The aggregate gives what the plain-Python one gives, however its input is cut."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.errors import SchemaMismatch
from cec_store.operators.aggregate import aggregate as aggregate_module
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.contract import InputBatch
from cec_store.operators.inputs.merge import merge
from support.models.aggregate_inputs import (
    AGGREGATES,
    COUNT_WINDOWS,
    SCHEMA,
    TIME_WINDOWS,
    event_time_us,
    make_input,
)
from support.models.reference_operators import (
    Driven,
    ReferenceAggregate,
    make_rows,
    make_steps,
    plain,
)

GROUPS = (["k"], ["s"], ["s", "k"], ["g", "s", "d"])


def compare(rng: random.Random, group_by, window, inputs_count=1, event_time=None):
    inputs = [
        make_input(rng, j, rng.choice([0, 3, 40, 150 // inputs_count])) for j in range(inputs_count)
    ]
    operator = Aggregate(
        group_by=group_by,
        aggregates=AGGREGATES,
        window=window,
        input_schema=SCHEMA,
        event_time=event_time,
        inputs=inputs_count,
    )
    driven = Driven(operator)
    reference = ReferenceAggregate(
        group_by, AGGREGATES, window, event_time_us if event_time else None
    )
    driven.require_equal(reference, inputs, [SCHEMA] * inputs_count, rng)
    assert operator.late_rows == reference.late_rows
    return driven.output


@given(st.integers(0, 2**32), st.sampled_from([*GROUPS, []]), st.sampled_from(COUNT_WINDOWS))
def test_count_windows_equal_the_reference(seed, group_by, window):
    compare(random.Random(seed), group_by, window)


@given(st.integers(0, 2**32), st.sampled_from([*GROUPS, []]), st.sampled_from(TIME_WINDOWS))
def test_time_windows_equal_the_reference(seed, group_by, window):
    compare(random.Random(seed), group_by, window)


@given(st.integers(0, 2**32), st.sampled_from(TIME_WINDOWS))
def test_event_time_rules_over_the_timestamp_and_rows_without_one_are_left_out(seed, window):
    compare(random.Random(seed), ["s"], window, event_time="at")


@given(st.integers(0, 2**32), st.sampled_from(COUNT_WINDOWS + TIME_WINDOWS))
def test_several_inputs_are_taken_in_merged_order(seed, window):
    compare(random.Random(seed), ["s", "k"], window, inputs_count=3)


@given(st.integers(0, 2**32), st.sampled_from(COUNT_WINDOWS + TIME_WINDOWS))
def test_windows_without_a_group_take_the_rows_of_all_inputs(seed, window):
    compare(random.Random(seed), [], window, inputs_count=3)


@pytest.mark.parametrize("window", [CountWindow(5, 2), TimeWindow(25, 10)])
def test_a_step_too_large_for_memory_is_taken_in_parts(window, monkeypatch):
    monkeypatch.setattr(aggregate_module, "ENTRIES_MAX", 12)
    results = [compare(random.Random(seed), ["k"], window, inputs_count=2) for seed in range(30)]
    assert sum(map(len, results)) > 300


def test_keys_are_forgotten_with_their_windows():
    schema = pa.schema({"k": pa.int64(), "s": pa.string()})
    for window in (CountWindow(1), TimeWindow(1_000)):
        operator = Aggregate(
            group_by=["k", "s"], aggregates={"n": ("count",)}, window=window, input_schema=schema
        )
        driven = Driven(operator)
        batches = []
        for first in range(0, 60_000, 3_000):
            numbers = np.arange(first, first + 3_000)
            names = [f"key {n}" for n in numbers]
            batch = pa.record_batch([pa.array(numbers), pa.array(names)], schema=schema)
            batches.append(InputBatch(batch, numbers, numbers))
        for step in merge([iter(batches)], np.zeros(1, np.int64), [schema]):
            driven.apply(step)
        assert len(driven.output) >= 59_000
        assert operator._slots.keys.bound < 12_000
        assert len(operator._slots.rows) < 30_000


def bits(operator_and_steps):
    operator, steps = operator_and_steps
    driven = Driven(operator)
    for step in steps:
        driven.apply(step)
    return driven.output, driven.state()


@pytest.mark.parametrize("window", [CountWindow(40), CountWindow(40, 13), TimeWindow(300, 100)])
def test_floats_are_added_from_left_to_right_however_the_input_is_cut(window):
    rng = random.Random(3)
    schema = pa.schema({"k": pa.int64(), "f": pa.float64()})
    values = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-8, 8) for _ in range(800)]
    values[::7] = [rng.choice([0.0, -0.0]) for _ in values[::7]]
    columns = {"k": [rng.randrange(3) for _ in values], "f": values}
    rows = make_rows(0, schema, columns, range(800), range(800))
    functions = ("sum", "avg", "min", "max")
    runs = []
    for seed in range(6):
        operator = Aggregate(
            group_by=["k"],
            aggregates={name: (name, "f") for name in functions},
            window=window,
            input_schema=schema,
        )
        runs.append(bits((operator, make_steps([rows], [schema], random.Random(seed), (0,)))))
    assert all(run == runs[0] for run in runs)
    assert len(runs[0][0]) > 10


def test_strings_of_any_bytes_are_groups():
    """docs/format.md §6: they are read back as they are."""
    schema = pa.schema({"k": pa.string()})
    texts = pa.array([b"\xff", b"a", b"\xff", b"a"], pa.binary()).view(pa.string())
    batch = pa.record_batch([texts], schema=schema)
    numbers = np.arange(4)
    [step] = merge([iter([InputBatch(batch, numbers, numbers)])], np.zeros(1, np.int64), [schema])
    operator = make(window=CountWindow(2), input_schema=schema)
    rows = operator.apply(step).rows
    assert rows.column("k").view(pa.binary()).to_pylist() == [b"\xff", b"a"]
    assert rows.column("n").to_pylist() == [2, 2]


@pytest.mark.parametrize("window", [TimeWindow(10), TimeWindow(10, 3)])
@pytest.mark.parametrize("time_us", [-(2**63) + 4, 2**63 - 1])
def test_a_time_whose_windows_have_no_end_is_refused(window, time_us):
    """Such are the infinities of other systems; its window would end before it begins."""
    schema = pa.schema({"at": pa.int64()})
    for times_us in ([0, time_us], [time_us, 0], [0, 100 - 2**63], [0, 2**63 - 100]):
        batch = pa.record_batch([pa.array(times_us)], schema=schema)
        numbers = np.arange(len(times_us))
        source = iter([InputBatch(batch, numbers, numbers)])
        [step] = merge([source], np.zeros(1, np.int64), [schema])
        operator = make(group_by=[], event_time="at", window=window, input_schema=schema)
        if time_us in times_us:
            with pytest.raises(SchemaMismatch, match="reach beyond 64 bits"):
                operator.apply(step)
        else:
            operator.apply(step)


def test_an_integer_sum_is_exact_where_a_float_is_not():
    schema = pa.schema({"k": pa.int64(), "i": pa.int64()})
    rows = make_rows(0, schema, {"k": [1, 1], "i": [2**60, 1]}, [0, 0], [0, 1])
    operator = Aggregate(
        group_by=["k"],
        aggregates={"sum": ("sum", "i")},
        window=CountWindow(2),
        input_schema=schema,
    )
    driven = Driven(operator)
    for step in make_steps([rows], [schema], random.Random(0), (0,)):
        driven.apply(step)
    assert driven.output == [{"k": 1, "sum": 2**60 + 1}]


def make(**changed):
    given = {
        "group_by": ["k"],
        "aggregates": {"n": ("count",)},
        "window": TimeWindow(10),
        "input_schema": SCHEMA,
    }
    return Aggregate(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group_by": ["nope"]}, "no column 'nope'"),
        ({"aggregates": {"n": ("median", "f")}}, "no aggregate 'median'"),
        ({"aggregates": {"n": ("sum",)}}, "sum takes one column"),
        ({"aggregates": {"n": ("sum", "f", "i")}}, "sum takes one column"),
        ({"aggregates": {"n": ("sum", "nope")}}, "no column 'nope'"),
        ({"aggregates": {"n": ("sum", "s")}}, "cannot take sum of column 's' of type string"),
        ({"aggregates": {"n": ("sum", "t")}}, "cannot take sum"),
        ({"aggregates": {"n": ("min", "s")}}, "cannot take min"),
        ({"aggregates": {"k": ("count",)}}, "two output columns of one name"),
        ({"aggregates": {"window_end": ("count",)}}, "two output columns of one name"),
        ({"event_time": "nope"}, "no column 'nope'"),
        ({"event_time": "s"}, "event time 's' is no timestamp"),
        ({"event_time": "at", "window": CountWindow(3)}, "count windows go by no event time"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        make(**changed)
    make()


def test_an_empty_step_does_nothing():
    for window in (CountWindow(3), TimeWindow(10)):
        driven = Driven(make(window=window))
        steps = make_steps([make_input(random.Random(5), 0, 40)], [SCHEMA], random.Random(5), (0,))
        for step in steps:
            driven.apply(step)
        before = driven.state()
        nothing = type(step)(
            tuple(batch.slice(0, 0) for batch in step.batches),
            step.source[:0],
            step.positions[:0],
            step.timestamps_us[:0],
        )
        output_count = len(driven.output)
        driven.apply(nothing)
        assert driven.state() == before
        assert len(driven.output) == output_count


@pytest.mark.parametrize(
    ("data_type", "values", "starts_us"),
    [
        (pa.timestamp("ns"), [-1, 0, 9_999], [-10, 0, 0]),
        (pa.timestamp("us"), [-1, 0, 10], [-10, 0, 10]),
        (pa.timestamp("ms", "UTC"), [-1, 0, 1], [-1_000, 0, 1_000]),
        (pa.timestamp("s"), [-1, 0, 1], [-1_000_000, 0, 1_000_000]),
        (pa.date32(), [-1, 0, 1], [-86_400_000_000, 0, 86_400_000_000]),
        (pa.date64(), [-86_400_000, 0], [-86_400_000_000, 0]),
        (pa.int64(), [-1, 0, 10], [-10, 0, 10]),
        (pa.uint16(), [0, 65_535], [0, 65_530]),
    ],
)
def test_event_times_of_any_unit_are_rounded_down_to_their_window(data_type, values, starts_us):
    schema = pa.schema({"at": data_type})
    batch = pa.record_batch([pa.array(values, data_type)], schema=schema)
    numbers = np.arange(len(values))
    [step] = merge([iter([InputBatch(batch, numbers, numbers)])], np.zeros(1, np.int64), [schema])
    operator = make(group_by=[], event_time="at", input_schema=schema)
    effects = operator.apply(step)
    keys, _ = operator.snapshot(effects.opened[effects.opened > 0])
    found = [key["window_start"] for key in plain(effects.rows.to_pylist())]
    found += [key["_window"] for key in keys.to_pylist()]
    assert found == sorted(set(starts_us))
