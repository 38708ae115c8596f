"""Inputs that grow: one that has nothing now has not ended, so the others' rows wait for it."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from cec_store import RecordSchema, Targets, WrongDeclaration, open_queue
from cec_store.checkpoints.determinants import determinants_since
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    BSort,
    Chance,
    CountWindow,
    NetworkType,
    QueueSource,
    Runner,
    Union,
    WindowJoin,
    check_declaration,
    record_schema,
)
from cec_store.operators.choosing import Choosing, Luck, steps_again
from cec_store.operators.inputs.reading import Reading
from support.disks.memory_folder import MemoryFolder

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us"))])


def rows(first: int, end: int, number: int = 0) -> pa.Table:
    """Rows of which each comes ten microseconds after the one before."""
    at = np.arange(first, end)
    columns = {"k": at % 3, "v": at + 1000 * number, "at": pa.array(10 * at).cast("timestamp[us]")}
    return pa.table(columns, schema=ROWS)


class Inputs:
    """Queues of rows, and an operator that reads them."""

    def __init__(self, make, count: int = 2) -> None:
        self.make = make
        schema = RecordSchema(ROWS, timestamp_column="at")
        self.queues = [open_queue(MemoryFolder(), "a", schema=schema) for _ in range(count)]
        self.ends = [0] * count
        self.sources = [QueueSource(queue.chain) for queue in self.queues]
        self.folder = MemoryFolder()

    def open(self, luck: Luck | None = None) -> Runner:
        operator = self.make()
        queue = open_queue(self.folder, "a", schema=record_schema(operator))
        return Runner(operator, self.sources, queue, Targets(), luck=luck)

    def grow(self, number: int, count: int) -> None:
        first = self.ends[number]
        self.ends[number] += count
        self.queues[number].append(rows(first, first + count, number), sync=True)


def output_of(runner: Runner) -> list[tuple]:
    found = runner.queue.replay().read_all().to_pylist()
    return [tuple(row.values()) for row in found]


def values_of(runner: Runner) -> list[int]:
    return [row[1] for row in output_of(runner)]


def union(**more):
    return lambda: Union(ROWS, 2, **more)


def test_rows_above_the_least_of_the_newest_timestamps_are_held_back():
    inputs = Inputs(union())
    runner = inputs.open()
    inputs.grow(0, 5)
    runner.run()
    assert values_of(runner) == []
    assert runner.waits_for == (1,)
    inputs.grow(1, 3)
    runner.run()
    assert values_of(runner) == [0, 1000, 1, 1001, 2, 1002]
    assert runner.waits_for == (1,)
    inputs.grow(1, 5)
    runner.run()
    assert values_of(runner)[6:] == [3, 1003, 4]
    assert runner.waits_for == (0,)


def test_one_input_waits_for_nobody():
    inputs = Inputs(lambda: Union(ROWS, 1), 1)
    runner = inputs.open()
    inputs.grow(0, 5)
    runner.run()
    assert values_of(runner) == [0, 1, 2, 3, 4]
    assert runner.waits_for == ()


def test_nothing_waits_where_no_input_has_rows():
    runner = Inputs(union()).open()
    runner.run()
    assert runner.waits_for == ()


def test_an_input_that_says_that_it_has_ended_is_not_waited_for():
    inputs = Inputs(union())
    runner = inputs.open()
    inputs.grow(0, 3)
    inputs.grow(1, 1)
    runner.run()
    assert values_of(runner) == [0, 1000]
    inputs.sources[1].has_ended = True
    runner.run()
    assert values_of(runner) == [0, 1000, 1, 2]


def test_a_table_has_ended_where_its_rows_do():
    operator = Union(ROWS, 2)
    queue = open_queue(MemoryFolder(), "a", schema=record_schema(operator))
    sources = [ArrowSource(rows(0, 3), "at"), ArrowSource(rows(0, 1, 1), "at")]
    runner = Runner(operator, sources, queue)
    runner.run()
    assert values_of(runner) == [0, 1000, 1, 2]


MAKERS = {
    "union": union(),
    "join": lambda: WindowJoin(ROWS, ROWS, on=["k"], within_us=200),
    "count windows": lambda: Aggregate(
        group_by=["k"], aggregates={"sum": ("sum", "v")}, window=CountWindow(4),
        input_schema=ROWS, inputs=2,
    ),
    "sort": lambda: BSort("v", 5, ROWS, inputs=2),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_output_does_not_depend_on_which_input_lags(name):
    """A join used to lose pairs, and a count window took other rows."""
    outputs = []
    for lagging in (None, 0, 1):
        inputs = Inputs(MAKERS[name])
        runner = inputs.open()
        for _ in range(3):
            for number in (0, 1):
                if number != lagging:
                    inputs.grow(number, 40)
            runner.run()
            if lagging is not None:
                inputs.grow(lagging, 40)
        for source in inputs.sources:
            source.has_ended = True
        runner.run()
        outputs.append(output_of(runner))
    assert len(outputs[0]) > 30
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


def test_an_idle_input_is_passed_over_after_its_timeout_and_the_log_says_so():
    inputs = Inputs(union(idle_timeout_us=1_000))
    clock = [0]
    runner = inputs.open(Luck(clock_us=lambda: clock[0]))
    inputs.grow(0, 2)
    runner.run()
    clock[0] = 999
    runner.run()
    assert values_of(runner) == []
    clock[0] = 1_000
    runner.run()
    assert values_of(runner) == [0, 1]
    inputs.grow(0, 1)
    runner.run()
    assert values_of(runner) == [0, 1, 2], "it was given up once"
    inputs.grow(1, 1)
    inputs.grow(0, 1)
    runner.run()
    assert values_of(runner) == [0, 1, 2, 1000], "it is waited for again"
    # What was decided by the clock is taken again as the log has it.
    runner.queue.close()
    again = inputs.open(Luck(clock_us=lambda: clock[0]))
    assert again.recovery is not None
    assert again._position.tolist() == [3, 1]


def test_a_clock_that_is_set_back_makes_no_input_wait_for_longer_than_its_timeout() -> None:
    table = pa.table({"v": [1, 2], "at": pa.array([1, 2], pa.timestamp("us", "UTC"))})

    class Live(ArrowSource):
        has_ended = False

    now_us = [1_700_000_000_000_000]
    operator = Union(table.schema, 2, idle_timeout_us=1_000)
    sources = [Live(table, "at"), Live(table.slice(0, 0), "at")]
    choosing = Choosing(operator, sources, 100, Luck(clock_us=lambda: now_us[0]))

    def rows() -> int:
        return sum(step.rows for step in choosing.steps(np.zeros(2, np.int64)))

    assert (rows(), choosing.waits_for) == (0, (1,))
    now_us[0] -= 86_400_000_000
    assert (rows(), choosing.waits_for) == (0, (1,))
    now_us[0] += 999
    assert (rows(), choosing.waits_for) == (0, (1,))
    now_us[0] += 1
    assert (rows(), choosing.waits_for) == (2, ())


@pytest.mark.parametrize("seed", range(4))
def test_crashes_after_idle_timeouts_leave_the_output_of_the_logged_order(seed):
    rng, ticks, passed_over = random.Random(seed), itertools.count(), 0
    luck = Luck(clock_us=lambda: next(ticks))

    def make():
        return Aggregate(
            group_by=["k"], aggregates={"sum": ("sum", "v")}, window=CountWindow(7),
            input_schema=ROWS, inputs=2, idle_timeout_us=3,
        )  # fmt: skip

    inputs = Inputs(make)
    runner = inputs.open(luck)
    for _ in range(30):
        inputs.grow(rng.choice([0, 1, 1]), rng.randrange(1, 9))
        for _ in range(rng.choice([1, 5])):
            runner.run()
        passed_over += not runner.waits_for
        if rng.random() < 0.3:
            runner.queue.close()
            runner = inputs.open(luck)
    start = np.zeros(2, np.int64)
    determinants = determinants_since(runner.queue.chain(), start)
    whole, expected = make(), []
    for step in steps_again(whole, inputs.sources, determinants):
        expected += [tuple(row.values()) for row in whole.apply(step).rows.to_pylist()]
    assert output_of(runner) == expected
    assert len(expected) > 10
    assert passed_over > 5


@pytest.mark.parametrize("make", [union, lambda **more: lambda: BSort("v", 2, ROWS, **more)])
def test_a_timeout_and_the_order_of_arrival_exclude_each_other(make):
    with pytest.raises(ValueError, match="by_arrival waits for no input"):
        make(by_arrival=True, idle_timeout_us=5)()
    with pytest.raises(ValueError, match="idle timeout of 0 microseconds"):
        make(idle_timeout_us=0)()
    operator = make(idle_timeout_us=5)()
    assert operator.chances is Chance.ARRIVALS
    assert operator.operator_type is NetworkType.ARBITRARY


def test_an_operator_that_depends_on_arrival_is_seen_though_its_sources_never_lag():
    def boasting():
        operator = Union(ROWS, 2, by_arrival=True)
        operator.operator_type = NetworkType.REPEATABLE
        return operator

    sources = [ArrowSource(rows(0, 90, number), "at") for number in (0, 1)]
    with pytest.raises(WrongDeclaration, match="it is arbitrary"):
        check_declaration(boasting, sources, step_rows_max=200)
    assert check_declaration(union(), sources).type is NetworkType.REPEATABLE


# Small batches -----------------------------------------------------------------------------------


def test_small_batches_make_steps_of_many_rows():
    inputs = Inputs(lambda: Union(ROWS, 1), 1)
    for _ in range(50):
        inputs.grow(0, 10)
    runner = inputs.open()
    taken: list[int] = []
    runner.run(taken.append)
    assert taken == [500]


def test_batches_are_joined_up_to_the_size_of_a_step():
    batches = [rows(first, first + 4) for first in range(0, 40, 4)]
    table = pa.concat_tables(batches).combine_chunks()
    reading = Reading(ArrowSource(table, "at", 4).read(0), 10)
    assert [len(read.offsets) for read in reading] == [8] * 5
    reading = Reading(ArrowSource(table, "at", 25).read(0), 10)
    assert not reading.is_exhausted
    assert [read.offsets.tolist() for read in reading] == [list(range(25)), list(range(25, 40))]
    assert reading.is_exhausted
