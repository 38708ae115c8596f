"""Sessions are those of the plain-Python model, however the input is cut and wherever it crashes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.operators.aggregate import aggregate as aggregate_module
from cec_store.operators.aggregate.windows import SessionWindow
from support.models.aggregate_inputs import (
    AGGREGATES,
    SCHEMA,
    SESSION_WINDOWS,
    aggregates,
    event_time_us,
    make_input,
)
from support.models.reference_operators import Driven, in_order, make_steps, plain
from support.models.reference_sessions import ReferenceSessions, with_totals

seeds = st.integers(0, 2**32)
windows = st.sampled_from(SESSION_WINDOWS)
GROUPS = (["k"], ["s", "k"], ["g", "s", "d"], [])


def compare(rng: random.Random, group_by, window, inputs_count=1, event_time=None):
    inputs = [
        make_input(rng, j, rng.choice([0, 3, 40, 150 // inputs_count])) for j in range(inputs_count)
    ]
    operator = aggregates(window, group_by, inputs_count, event_time)()
    driven = Driven(operator)
    reference = ReferenceSessions(
        group_by, AGGREGATES, window, event_time_us if event_time else None
    )
    start = (0,) * inputs_count
    rows = iter(in_order(inputs, list(start)))
    expected, causes = [], []
    for step in make_steps(inputs, [SCHEMA] * inputs_count, rng, start):
        driven.apply(step)
        for _ in range(step.rows):
            row = next(rows)
            results = reference.take(row)
            expected += plain(results)
            causes += [row.positions] * len(results)
        assert with_totals(driven.state()) == plain(reference.state())
    assert next(rows, None) is None
    assert driven.output == expected
    assert driven.causes == causes
    assert operator.late_rows == reference.late_rows
    return reference


@given(seeds, windows, st.sampled_from(GROUPS))
def test_sessions_equal_the_reference(seed, window, group_by):
    compare(random.Random(seed), group_by, window)


@given(seeds, windows)
def test_event_time_rules_and_rows_without_one_are_in_no_session(seed, window):
    compare(random.Random(seed), ["s"], window, event_time="at")


@given(seeds, windows)
def test_sessions_over_several_inputs_are_of_the_merged_rows(seed, window):
    compare(random.Random(seed), ["s", "k"], window, inputs_count=3)


def test_a_step_too_large_for_memory_is_taken_in_parts(monkeypatch):
    monkeypatch.setattr(aggregate_module, "ENTRIES_MAX", 7)
    runs = [
        compare(random.Random(seed), ["k"], window, inputs_count=2)
        for seed, window in enumerate(3 * SESSION_WINDOWS)
    ]
    assert sum(run.merges for run in runs) > 10
    assert sum(run.late_rows for run in runs) > 10
