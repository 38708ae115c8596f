"""Filter, map and union keep nothing and put out rows in the order of their causes."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store.format.schema import RecordKind
from cec_store.operators.stateless import Filter, Map, Union
from support.models.reference_operators import Driven, in_order, make_rows, make_steps, plain

SCHEMA = pa.schema({"n": pa.int64(), "s": pa.string()})


def make_inputs(count: int) -> list:
    rng = random.Random(count)
    inputs = []
    for source in range(count):
        columns = {
            "n": [rng.choice([None, 1, 2, 3]) for _ in range(60)],
            "s": [rng.choice([None, "a", "b"]) for _ in range(60)],
        }
        times = [n + rng.choice([0, -3]) for n in range(60)]
        inputs.append(make_rows(source, SCHEMA, columns, times, range(60)))
    return inputs


def run(operator, reference, inputs_count=1):
    """Hold the output against ``reference``, from a row's values to a row or None."""
    inputs = make_inputs(inputs_count)
    start = (0,) * inputs_count
    rows = [(row, reference(row.values)) for row in in_order(inputs, list(start))]
    for seed in range(5):
        driven = Driven(operator)
        for step in make_steps(inputs, [SCHEMA] * inputs_count, random.Random(seed), start):
            driven.apply(step)
        assert driven.output == [plain(values) for _, values in rows if values is not None]
        assert driven.causes == [row.positions for row, values in rows if values is not None]
        assert len(driven.output) > 10
    assert operator.output_kind == RecordKind.DATA
    assert operator.key_schema is operator.state_schema is None
    assert operator.open_windows == 0


@pytest.mark.parametrize(
    "predicate",
    [pc.field("n") > 1, lambda batch: pc.greater(batch.column("n"), 1)],
    ids=["expression", "function"],
)
def test_a_filter_keeps_rows_where_the_predicate_is_true_and_not_null(predicate):
    run(Filter(predicate, SCHEMA), lambda row: row if (row["n"] or 0) > 1 else None)


def test_a_map_has_a_column_for_each_formula():
    columns = {
        "double": pc.field("n") * 2,
        "one": pc.scalar(1),
        "s": lambda batch: batch.column("s"),
    }
    operator = Map(columns, SCHEMA)
    assert operator.output_schema == pa.schema(
        {"double": pa.int64(), "one": pa.int64(), "s": pa.string()}
    )
    double = {None: None, 1: 2, 2: 4, 3: 6}
    run(operator, lambda row: {"double": double[row["n"]], "one": 1, "s": row["s"]})


def test_a_map_may_return_numpy_arrays():
    operator = Map({"zero": lambda batch: np.zeros(batch.num_rows)}, SCHEMA)
    run(operator, lambda row: {"zero": 0.0})


def test_a_union_has_all_rows_in_merged_order():
    run(Union(SCHEMA, 3), lambda row: row, inputs_count=3)


def test_nothing_is_restored_and_nothing_changes():
    operator = Union(SCHEMA, 1)
    keys, states = operator.snapshot(np.empty(0, np.int64))
    assert len(keys) == len(states) == 0
    assert operator.restore(keys, states, np.empty((0, 1), np.int64)).tolist() == []
    assert operator.preload_start() is None
    for step in make_steps(make_inputs(1), [SCHEMA], random.Random(0), (0,)):
        operator.catch_up(step)
    with pytest.raises(ValueError, match="no footprints"):
        operator.snapshot(np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="cannot restore"):
        operator.restore(pa.array([{}], pa.struct([])), states, np.zeros((1, 1), np.int64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Filter(pc.field("n") + 1, SCHEMA), "needs a predicate, not values of type int64"),
        (lambda: Map({"x": lambda batch: [1]}, SCHEMA), "x: 1 values for 0 rows"),
        (lambda: Union(SCHEMA, 0), "needs an input, not 0"),
        (lambda: Filter(pc.field("nope") > 1, SCHEMA), "No match for FieldRef.Name"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
