"""What chance decided stands in the log, and the same steps can be taken again from it."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from cec_store import Never, QueueOptions, RecordKind, RecoveryError, Targets
from cec_store.checkpoints.determinants import determinants_behind, determinants_since
from cec_store.inspector.verifying.log import verify
from cec_store.log.selection import OUTPUT_KINDS
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Luck,
    QueueSource,
    RandomFilter,
    Runner,
    Union,
    WindowJoin,
    record_schema,
)
from cec_store.operators.choosing import Choosing, steps_again
from cec_store.queues.output_queue import OutputQueue
from support.crashes.crashing_runs import state_of
from support.disks.memory_folder import MemoryFolder
from support.models.chance_operators import determinants_of

ROWS = 600
# Sums of these depend on the order in which they are added.
FLOATS = [0.1, 1e16, 3.7, -1e16, -2.5]
TABLES = [
    pa.table(
        {
            "t": pa.array(range(ROWS), pa.timestamp("us")),
            "k": pa.array([n % 3 for n in range(ROWS)]),
            "v": pa.array([FLOATS[(n + shift) % 5] for n in range(ROWS)]),
        }
    )
    for shift in (0, 2)
]
SCHEMA = TABLES[0].schema


def sources(*batch_rows: int) -> list[ArrowSource]:
    pairs = zip(itertools.cycle(TABLES), batch_rows, strict=False)
    return [ArrowSource(table, "t", rows) for table, rows in pairs]


def sums(**more) -> Aggregate:
    return Aggregate(
        group_by=["k"],
        aggregates={"total": ("sum", "v")},
        window=CountWindow(390),
        input_schema=SCHEMA,
        inputs=2,
        by_arrival=True,
        **more,
    )


def queue_of(operator, folder) -> OutputQueue:
    options = QueueOptions(sync="none", segment_bytes=2_000)
    return OutputQueue(folder, "a", record_schema(operator), options)


def written(operator, inputs, folder, steps=None, checkpoints=True, policy=None) -> OutputQueue:
    """A queue whose runner has died after so many steps; its clock and seeds count."""
    queue = queue_of(operator, folder)
    clock, seed = itertools.count(1_000, 10), itertools.count(1)
    luck = Luck(lambda: next(clock), lambda: next(seed))
    runner = Runner(
        operator, inputs, queue, policy, checkpoints=checkpoints, luck=luck, step_rows_max=40
    )
    for step in itertools.islice(runner._steps(runner._position), steps):
        runner.step(step)
    queue.sync()
    queue.state_before = state_of(runner) if checkpoints else {}
    return queue


@pytest.mark.parametrize("policy", [Never(), Targets(extent_records=8)], ids=["never", "tight"])
def test_a_sum_in_order_of_arrival_is_restored_to_the_last_bit(policy):
    folder = MemoryFolder()
    queue = written(sums(timeout_us=300), sources(7, 20), folder, 25, policy=policy)
    queue.close()
    # Read in other batches, so that the inputs would arrive in another order.
    again = written(sums(timeout_us=300), sources(64, 3), folder, 0)
    assert again.state_before == queue.state_before
    assert len(queue.state_before) > 2
    again.close()
    found = verify(folder, rebuilds=True)
    assert not found.faults
    assert found.kinds["DETERMINANT"] == 25
    assert found.recounted_frames > 20


def test_the_order_matters_here():
    states = []
    for batches in ((7, 20), (20, 7)):
        queue = written(sums(), sources(*batches), MemoryFolder())
        states.append(queue.state_before)
        queue.close()
    assert states[0] != states[1]


@pytest.mark.parametrize("make", [sums, lambda: RandomFilter(0.4, SCHEMA)])
def test_the_steps_of_the_log_taken_again_from_nothing_put_out_the_same(make):
    """As upstream backup does, and an active standby."""
    operator = make()
    inputs = sources(7, 20)[: operator.inputs]
    queue = written(operator, inputs, MemoryFolder(), checkpoints=False)
    start = np.zeros(operator.inputs, np.int64)
    determinants = determinants_since(queue.chain(), start)
    fresh, rows = make(), []
    for step in steps_again(fresh, sources(500, 1)[: operator.inputs], determinants):
        rows += fresh.apply(step).rows.to_pylist()
    assert rows == pa.Table.from_batches(queue.replay()).to_pylist()
    assert rows
    queue.close()


def test_without_checkpoints_a_runner_goes_on_from_what_was_chosen():
    whole = written(RandomFilter(0.5, SCHEMA), sources(11), MemoryFolder(), checkpoints=False)
    folder = MemoryFolder()
    written(RandomFilter(0.5, SCHEMA), sources(11), folder, 9, checkpoints=False).close()
    queue = queue_of(RandomFilter(0.5, SCHEMA), folder)
    seed = itertools.count(10)
    runner = Runner(
        RandomFilter(0.5, SCHEMA), sources(11), queue, checkpoints=False,
        luck=Luck(seed=lambda: next(seed)), step_rows_max=40,
    )  # fmt: skip
    assert runner.recovery.dropped_rows == sum(b.num_rows for b in queue.replay()) > 0
    runner.run()
    assert list(map(str, queue.replay())) == list(map(str, whole.replay()))
    queue.close()
    whole.close()


def test_a_step_has_one_record_of_what_was_chosen_however_many_rows_it_has():
    queue = written(Union(SCHEMA, 2, by_arrival=True), sources(40, 40), MemoryFolder())
    chosen = determinants_of(queue)
    assert [choice["arrivals"] for _, choice in chosen[:2]] == [[0, 40], [1, 40]]
    assert len(chosen) == 2 * ROWS / 40
    assert queue.end_offset == 2 * ROWS + len(chosen)
    queue.close()


def test_readers_of_output_pass_over_it():
    queue = written(Union(SCHEMA, 2, by_arrival=True), sources(40, 40), MemoryFolder())
    assert RecordKind.DETERMINANT not in OUTPUT_KINDS
    assert sum(batch.num_rows for batch in queue.replay()) == 2 * ROWS
    assert sum(len(read.offsets) for read in QueueSource(queue.chain).read(0)) == 2 * ROWS
    chosen = queue.replay(kinds={RecordKind.DETERMINANT}, include_metadata=True)
    assert sum(batch.num_rows for batch in chosen) == 2 * ROWS / 40
    queue.close()


def test_the_clock_does_not_fall_and_a_tick_gives_up_what_waits():
    folder = MemoryFolder()
    queue = written(sums(timeout_us=5_000), sources(7, 20), folder, 25)
    queue.close()
    queue = queue_of(sums(timeout_us=5_000), folder)
    times = iter([3, 10_000])  # set back, and then far on
    runner = Runner(
        sums(timeout_us=5_000), sources(7, 20), queue, luck=Luck(lambda: next(times)),
    )  # fmt: skip
    before = sum(batch.num_rows for batch in queue.replay())
    runner.tick()
    assert runner.operator.open_windows == 3
    runner.tick()
    assert runner.operator.open_windows == 0
    queue.sync()
    clocks = [choice["clock_us"] for _, choice in determinants_of(queue)]
    assert clocks == sorted(clocks)
    assert clocks[-1] == 10_000
    results = pa.Table.from_batches(queue.replay(include_metadata=True)).slice(before)
    assert results.num_rows == 3
    assert set(results.column("_timestamp").cast(pa.int64()).to_pylist()) == {10_000}
    queue.close()


def join(**more) -> WindowJoin:
    return WindowJoin(SCHEMA, SCHEMA, on=["k"], within_us=5, **more)


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize("make", [sums, join])
def test_ticks_at_which_nothing_is_due_write_nothing(make, checkpoints):
    clock_us = [1_000]
    with queue_of(make(timeout_us=500), MemoryFolder()) as queue:
        runner = Runner(
            make(timeout_us=500), sources(100, 100), queue, checkpoints=checkpoints,
            luck=Luck(lambda: clock_us[0]),
        )  # fmt: skip
        runner.run()
        before = runner.records_written
        for clock_us[0] in [1_499] * 5:
            runner.tick()
        assert runner.records_written == before
        clock_us[0] = 1_500
        runner.tick()
        queue.sync()
        assert runner.records_written > before
        assert determinants_of(queue)[-1][1]["clock_us"] == 1_500


@pytest.mark.parametrize("make", [sums, join])
def test_a_restart_after_ticks_that_wrote_nothing_has_the_same_deadlines(make):
    folder, clock_us, states = MemoryFolder(), [1_000], []
    for _ in range(2):
        operator = make(timeout_us=500)
        with queue_of(operator, folder) as queue:
            luck = Luck(lambda: clock_us[0])
            runner = Runner(operator, sources(100, 100), queue, luck=luck)
            runner.run()
            for clock_us[0] in (1_300, 1_499):
                runner.tick()
            states.append(state_of(runner))
            if len(states) == 2:
                clock_us[0] = 1_500
                runner.tick()
                assert state_of(runner) != states[1]
        clock_us[0] = 1_200  # the machine's clock is set back meanwhile
    assert states[0] == states[1]


def test_a_tick_means_nothing_to_who_does_not_go_by_the_clock():
    queue = written(Union(SCHEMA, 2, by_arrival=True), sources(40, 40), MemoryFolder(), 3)
    end = queue.end_offset
    runner = Runner(Union(SCHEMA, 2, by_arrival=True), sources(40, 40), queue)
    runner.tick()
    assert queue.end_offset == end
    queue.close()


def test_inputs_that_have_fewer_rows_than_they_had_are_refused():
    queue = written(sums(), sources(7, 20), MemoryFolder(), 25)
    shorter = [ArrowSource(TABLES[0].slice(0, 50), "t"), ArrowSource(TABLES[1], "t")]
    with pytest.raises(RecoveryError, match=r"cannot be taken again.*rows are missing"):
        Runner(sums(), shorter, queue)
    queue.close()


def test_steps_that_are_not_in_the_log_are_refused():
    queue = written(sums(), sources(7, 20), MemoryFolder(), 25)
    chain = queue.chain()
    with pytest.raises(RecoveryError, match=r"since the input position \[3, 0\] is not in the log"):
        determinants_since(chain, np.array([3, 0]))
    every = determinants_since(chain, np.array([0, 0]))
    known = determinants_since(chain, every.positions[0])
    assert len(known) == len(every) - 1 == 24
    none = determinants_behind(chain, queue.end_offset, known.end)
    assert len(none) == 0
    assert (none.end == known.end).all()
    queue.close()


def test_a_log_that_does_not_say_what_the_operator_depends_on_is_refused():
    queue = written(Union(SCHEMA, 2, by_arrival=True), sources(7, 20), MemoryFolder(), 5)
    told = determinants_since(queue.chain(), np.array([0, 0]))
    with pytest.raises(RecoveryError, match="does not say what was chosen"):
        list(steps_again(sums(timeout_us=9), sources(7, 20), told))
    queue.close()


def test_an_operator_without_chance_takes_steps_as_ever():
    operator = Union(SCHEMA, 2)
    steps = list(Choosing(operator, sources(7, 20), 40, Luck()).steps(np.zeros(2, np.int64)))
    assert sum(step.rows for step in steps) == 2 * ROWS
    assert all(step.begin is None for step in steps)
    assert not record_schema(operator).determinants


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sums(timeout_us=0), "gives up what has just begun"),
        (lambda: RandomFilter(1.5, SCHEMA), "between 0 and 1, not 1.5"),
        (
            lambda: Aggregate(
                group_by=["k"], aggregates={"n": ("count",)}, window=CountWindow(4, 2),
                input_schema=SCHEMA, timeout_us=5,
            ),
            "count windows that overlap have no timeout",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
