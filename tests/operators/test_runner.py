"""What drives an operator refuses what it could not do right."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import (
    Fenced,
    Never,
    OutputQueue,
    Poisoned,
    RecoveryError,
    SchemaMismatch,
    open_queue,
)
from cec_store.format.frame import BODY_BYTES_MAX
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Filter, Runner, record_schema
from support.disks.memory_folder import MemoryFolder

ROWS = 3_000
TABLE = pa.table(
    {
        "t": pa.array(np.arange(ROWS)).cast(pa.timestamp("us")),
        "k": np.arange(ROWS) % 100,
        "v": np.arange(ROWS) * 0.5,
    }
)
SOURCE = ArrowSource(TABLE, "t", batch_rows_max=500)


def total(size: int = 7) -> Aggregate:
    return Aggregate(
        group_by=["k"],
        aggregates={"v": ("sum", "v")},
        window=CountWindow(size),
        input_schema=TABLE.schema,
    )


def queue_of(operator, folder=None) -> OutputQueue:
    return open_queue(folder or MemoryFolder(), "a", schema=record_schema(operator))


def test_an_operator_needs_a_source_for_each_input():
    with queue_of(total()) as queue, pytest.raises(ValueError, match="2 sources"):
        Runner(total(), [SOURCE, SOURCE], queue)


def test_the_queue_of_another_operator_is_refused():
    other_schema = record_schema(
        Aggregate(
            group_by=["k"],
            aggregates={"n": ("count",)},
            window=CountWindow(7),
            input_schema=TABLE.schema,
        )
    )
    with (
        open_queue(MemoryFolder(), "x", schema=other_schema) as queue,
        pytest.raises(SchemaMismatch, match="columns are"),
    ):
        Runner(total(), [SOURCE], queue)


def test_output_without_checkpoints_is_the_same_and_goes_on_without_them():
    with queue_of(total()) as queue:
        Runner(total(), [SOURCE], queue).run()
        expected = pa.Table.from_batches(queue.replay()).to_pylist()
        assert queue.extent().open_windows == 100
    folder = MemoryFolder()
    with queue_of(total(), folder) as queue:
        Runner(total(), [SOURCE], queue, checkpoints=False).run()
        assert pa.Table.from_batches(queue.replay()).to_pylist() == expected
    with queue_of(total(), folder) as queue:
        with pytest.raises(RecoveryError, match="without checkpoints"):
            Runner(total(), [SOURCE], queue)
        with pytest.raises(RecoveryError, match="without checkpoints"):
            queue.extent()
        again = Runner(total(), [SOURCE], queue, checkpoints=False)
        assert again.recovery.replayed_rows == again.recovery.replay_upto[0] > 0
        assert again.recovery.dropped_rows == len(expected)
        again.run()
        assert pa.Table.from_batches(queue.replay()).to_pylist() == expected


@pytest.mark.parametrize("rows", [1, 37, ROWS // 2, ROWS - 1])
def test_without_checkpoints_all_input_is_taken_again_where_nobody_was_acknowledged(rows):
    folder = MemoryFolder()
    with queue_of(total(), folder) as queue:
        part = ArrowSource(TABLE.slice(0, rows), "t")
        Runner(total(), [part], queue, checkpoints=False, step_rows_max=13).run()
    with queue_of(total(), folder) as queue:
        Runner(total(), [SOURCE], queue, checkpoints=False).run()
        made = pa.Table.from_batches(queue.replay()).to_pylist()
    with queue_of(total()) as queue:
        Runner(total(), [SOURCE], queue).run()
        assert made == pa.Table.from_batches(queue.replay()).to_pylist()


def test_a_log_with_checkpoints_does_not_go_on_without():
    folder = MemoryFolder()
    with queue_of(total(), folder) as queue:
        Runner(total(), [SOURCE], queue).run()
    with queue_of(total(), folder) as queue:
        end = queue.end_offset
        with pytest.raises(RecoveryError, match="was written with checkpoints"):
            Runner(total(), [SOURCE], queue, checkpoints=False)
        assert queue.end_offset == end


def test_an_input_that_is_shorter_than_the_log_says_is_refused():
    folder = MemoryFolder()
    keep = Filter(lambda batch: pc.less(batch.column("k"), 1), TABLE.schema)
    with queue_of(keep, folder) as queue:
        Runner(keep, [SOURCE], queue, checkpoints=False).run()
        (last,) = list(queue.chain().frames())[-1:]
        assert last.header.input_upto == ROWS
    short = ArrowSource(TABLE.slice(0, ROWS - 1), "t")
    with queue_of(keep, folder) as queue, pytest.raises(RecoveryError, match="sources end before"):
        Runner(keep, [short], queue, checkpoints=False)


def test_rows_are_not_appended_to_an_operators_queue_by_hand():
    with queue_of(total()) as queue:
        rows = pa.record_batch([[1], [2.0]], schema=total().output_schema)
        with pytest.raises(SchemaMismatch, match="an operator writes this queue"):
            queue.append(rows)


def test_effects_that_fit_in_no_frame_are_a_step_of_several():
    wide = pa.table({"t": TABLE.column("t"), "s": ["x" * 50_000] * ROWS})
    keep = Filter(lambda batch: pa.array([True] * batch.num_rows, pa.bool_()), wide.schema)
    source = ArrowSource(wide, "t", batch_rows_max=ROWS)
    folder = MemoryFolder()
    with queue_of(keep, folder) as queue:
        Runner(keep, [source], queue).run()
        assert queue.end_offset == ROWS
        frames = [frame.header for frame in queue.chain().frames()]
        assert sum(header.raw_bytes for header in frames) > BODY_BYTES_MAX * 2
        assert max(header.raw_bytes for header in frames) <= queue.options.frame_bytes_max
        assert [header.continues for header in frames] == [True] * (len(frames) - 1) + [False]


def test_progress_counts_every_row_once():
    seen: list[int] = []
    with queue_of(total()) as queue:
        Runner(total(), [SOURCE], queue, step_rows_max=400).run(seen.append)
    assert sum(seen) == ROWS
    assert max(seen) <= 400


def test_a_second_run_has_nothing_to_do():
    folder = MemoryFolder()
    for _ in range(2):
        with queue_of(total(), folder) as queue:
            Runner(total(), [SOURCE], queue, Never()).run()
            end = queue.end_offset
    with queue_of(total(), folder) as queue:
        runner = Runner(total(), [SOURCE], queue)
        assert runner.recovery is not None
        runner.run()
        assert queue.end_offset == end


def test_a_closed_queue_takes_no_more_steps():
    queue = queue_of(total())
    runner = Runner(total(), [SOURCE], queue)
    queue.close()
    with pytest.raises(Poisoned, match="closed"):
        runner.run()


class Failing(Exception):
    pass


def test_a_fenced_runner_says_so_at_every_later_call() -> None:
    folder = MemoryFolder()
    queue = queue_of(total(), folder)
    runner = Runner(total(), [SOURCE], queue, step_rows_max=500)
    first, second, third = (
        step for step, _ in zip(runner._steps(np.zeros(1, np.int64)), "123", strict=False)
    )
    runner.step(first)
    queue.sync()
    OutputQueue(folder, "a", record_schema(total()), takeover=True).close()
    runner.step(second)  # in line before the queue's thread finds out
    with pytest.raises(Fenced, match="has taken over"):
        queue.sync()
    for call in (lambda: runner.step(third), runner.acknowledge, runner.run, queue.sync):
        with pytest.raises(Fenced, match="has taken over"):
            call()


@pytest.mark.parametrize("error", [Failing(), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("at", ["apply", "append", "acknowledge"])
def test_a_runner_that_failed_in_a_step_takes_no_more_and_a_new_one_goes_on(
    at: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queue_of(total()) as whole:
        Runner(total(), [SOURCE], whole).run()
        expected = pa.Table.from_batches(whole.replay()).to_pylist()
    folder = MemoryFolder()
    queue = queue_of(total(), folder)
    runner = Runner(total(), [SOURCE], queue, step_rows_max=500)
    # The third call fails, having done what it does: the operator has taken the step.
    owner, name = {
        "apply": (runner.operator, "apply"),
        "append": (queue, "append_step"),
        "acknowledge": (runner._acknowledging, "acknowledge"),
    }[at]
    real, calls = getattr(owner, name), iter(range(100))

    def fail(*arguments: object) -> object:
        result = real(*arguments)
        if next(calls) == (0 if at == "acknowledge" else 2):
            raise error
        return result

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(type(error)):
        runner.run()
    monkeypatch.undo()
    end = queue.end_offset
    step = next(iter(runner._steps(np.zeros(1, np.int64))))
    for call in (runner.run, lambda: runner.step(step), runner.acknowledge):
        with pytest.raises(Poisoned, match="make a new operator and a new runner"):
            call()
    assert queue.end_offset == end
    queue.close()
    with queue_of(total(), folder) as queue:
        with pytest.raises(ValueError, match="make a new one"):
            Runner(runner.operator, [SOURCE], queue)
        Runner(total(), [SOURCE], queue).run()
        assert pa.Table.from_batches(queue.replay()).to_pylist() == expected
