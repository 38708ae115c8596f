"""Operators are of the classes that they declare; a wrong declaration is caught (paper, 3.2)."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import WrongDeclaration
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    BSort,
    Chance,
    CountWindow,
    Filter,
    Map,
    NetworkType,
    RandomFilter,
    Resample,
    SessionWindow,
    TimeWindow,
    Union,
    WindowJoin,
    check_declaration,
    observe,
    type_of_network,
)
from cec_store.operators.checking import Output, compare
from cec_store.operators.taxonomy import RecoveryType
from support.crashes.crashing_runs import RowSource
from support.models.aggregate_inputs import SCHEMA, make_input
from support.models.join_inputs import LEFT, RIGHT, make_side

REPEATABLE, CONVERGENT = NetworkType.REPEATABLE, NetworkType.CONVERGENT
DETERMINISTIC, ARBITRARY = NetworkType.DETERMINISTIC, NetworkType.ARBITRARY


def aggregate(window, inputs=1, **more):
    sums = {"rows": ("count",), "total": ("sum", "f")}
    return lambda: Aggregate(
        group_by=["u"], aggregates=sums, window=window, input_schema=SCHEMA, inputs=inputs, **more
    )


OPERATORS = {
    "filter": (lambda: Filter(pc.field("k") > 0, SCHEMA), REPEATABLE),
    "map": (lambda: Map({"k": pc.field("k")}, SCHEMA), REPEATABLE),
    "union by time": (lambda: Union(SCHEMA, 2), REPEATABLE),
    "time windows": (aggregate(TimeWindow(40, 20)), CONVERGENT),
    "sort": (lambda: BSort("at", 5, SCHEMA), CONVERGENT),
    "join": (lambda: WindowJoin(LEFT, RIGHT, on=["s"], within_us=20), REPEATABLE),
    "resample": (
        lambda: Resample(LEFT, RIGHT, on=["s"], within_us=20, aggregates={"n": ("count",)}),
        CONVERGENT,
    ),
    "count windows": (aggregate(CountWindow(7)), DETERMINISTIC),
    "sessions": (aggregate(SessionWindow(20, 20)), DETERMINISTIC),
    "union by arrival": (lambda: Union(SCHEMA, 2, by_arrival=True), ARBITRARY),
    "random filter": (lambda: RandomFilter(0.5, SCHEMA), ARBITRARY),
    "count windows by arrival": (aggregate(CountWindow(7), 2, by_arrival=True), ARBITRARY),
    "windows with a timeout": (aggregate(TimeWindow(10_000), timeout_us=1), ARBITRARY),
    "join with a timeout": (
        lambda: WindowJoin(LEFT, RIGHT, on=["s"], within_us=10_000, timeout_us=1),
        ARBITRARY,
    ),
}


def sources_of(operator, seed):
    """Rows in batches that are cut anew at every reading."""
    rng = random.Random(seed)
    if isinstance(operator, WindowJoin):
        sides = [make_side(rng, side, 300) for side in (0, 1)]
        return [
            RowSource(rows, schema, rng) for rows, schema in zip(sides, (LEFT, RIGHT), strict=True)
        ]
    return [RowSource(make_input(rng, j, 180), SCHEMA, rng) for j in range(operator.inputs)]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_shows_the_class_that_it_declares(name):
    make, declared = OPERATORS[name]
    assert make().operator_type is declared
    seen = [
        check_declaration(make, sources_of(make(), seed), restarts=4, step_rows_max=13).type
        for seed in range(3)
    ]
    order = list(NetworkType)
    assert max(seen, key=order.index) is declared


@pytest.mark.parametrize(
    "name", [name for name, (_, declared) in OPERATORS.items() if declared is not REPEATABLE]
)
def test_a_declaration_that_says_too_much_is_caught(name):
    make, declared = OPERATORS[name]
    order = list(NetworkType)

    def boasting():
        operator = make()
        operator.operator_type = order[order.index(declared) - 1]
        return operator

    def check_all():
        for seed in range(5):
            check_declaration(boasting, sources_of(make(), seed), restarts=4, step_rows_max=13)

    with pytest.raises(WrongDeclaration, match=f"it is {declared.value}; declare that") as caught:
        check_all()
    assert boasting().operator_type.value in str(caught.value)


def test_a_join_repeats_itself_however_far_rows_are_out_of_order():
    rng, compared = random.Random(1), 0
    for high in (60, 25):
        sources = []
        for side, schema in ((0, LEFT), (1, RIGHT)):
            rows = make_side(rng, side, 300)
            for at, row in enumerate(rows):
                # One row ahead of its time, then nine that it makes too old to match.
                row.timestamp_us = 100 * (at // 10) + (high if at % 10 == 0 else at % 10)
            sources.append(RowSource(rows, schema, rng))
        found = observe(OPERATORS["join"][0], sources, restarts=8, step_rows_max=3)
        assert found.type is REPEATABLE
        compared += 1
    assert compared == 2


class Counting(Map):
    """Numbers its rows by what it has seen, which it does not say."""

    def __init__(self):
        self.seen = 0
        super().__init__({"n": self._numbers}, pa.schema({"t": pa.timestamp("us")}))

    def _numbers(self, batch):
        self.seen += batch.num_rows
        return pa.array(np.arange(self.seen - batch.num_rows, self.seen))


def test_a_state_that_nobody_was_told_of_is_found():
    table = pa.table({"t": pa.array(range(500), pa.timestamp("us"))})
    with pytest.raises(WrongDeclaration, match=r"Counting is declared repeatable.*deterministic"):
        check_declaration(Counting, [ArrowSource(table, "t", 50)])


@pytest.mark.parametrize(
    ("again", "seen"),
    [
        (["b", "c", "d"], RecoveryType.REPEATING),
        (["", "c", "d"], RecoveryType.REPEATING),
        (["x", "c", "d"], RecoveryType.CONVERGENT),
        (["x", "c", "y"], RecoveryType.DIVERGENT),
        (["b", "c", ""], RecoveryType.DIVERGENT),
    ],
)
def test_what_is_seen_downstream_is_told_apart(again, seen):
    expected = Output(np.array([2, 3, 4]), ["b", "c", "d"])
    rows = [(position, row) for position, row in zip([2, 3, 4], again, strict=True) if row]
    positions = np.array([position for position, _ in rows])
    assert compare(expected, Output(positions, [row for _, row in rows])) is seen


def test_a_network_is_of_the_most_general_class_in_it():
    assert type_of_network([]) is REPEATABLE
    assert type_of_network([REPEATABLE, DETERMINISTIC, CONVERGENT]) is DETERMINISTIC
    assert type_of_network([ARBITRARY, REPEATABLE]) is ARBITRARY


def test_who_says_nothing_is_arbitrary_and_depends_on_no_chance():
    from cec_store.operators import Operator

    assert Operator.operator_type is ARBITRARY
    assert Operator.chances is Chance.NONE
