"""An operator reads the queue before it piece by piece, for as long as it lives."""

import random
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import (
    CorruptLog,
    OutOfRange,
    OutputQueue,
    QueueInput,
    QueueOptions,
    QueueReplaced,
    RecordSchema,
    RecoveryError,
    open_queue,
    read_queue,
)
from cec_store.log.chain import Chain
from cec_store.log.reader import LogReader
from cec_store.log.segment import SegmentReader
from cec_store.operators import Aggregate, ArrowSource, QueueSource, TimeWindow
from cec_store.operators.inputs.input_queues import read_input_queues
from cec_store.operators.runner import Runner, record_schema
from cec_store.standby.schemes import Scheme
from cec_store.standby.standby import Standby

SCHEMA = pa.schema([("n", pa.int64())])


def append(queue: OutputQueue, first: int, count: int) -> None:
    numbers = pa.array(range(first, first + count))
    queue.append(pa.record_batch([numbers], schema=SCHEMA), numbers)
    queue.sync()


def read(source: QueueSource, start: int, stop: int | None = None) -> list[int]:
    found = []
    for batch in source.read(start, stop):
        numbers = batch.batch.column(0).to_pylist()
        assert numbers == batch.offsets.tolist()
        found += numbers
    return found


def test_pieces_in_any_order_are_what_one_read_gives(tmp_path: Path) -> None:
    rng = random.Random(7)
    options = QueueOptions(segment_bytes=2_000)
    with open_queue(tmp_path / "queue", "x", schema=SCHEMA, options=options) as queue:
        source, end, next_start = QueueSource(queue.chain), 0, 0
        for _ in range(300):
            if rng.random() < 0.5:
                count = rng.randint(1, 9)
                append(queue, end, count)
                end += count
            start = next_start if rng.random() < 0.7 else rng.randint(0, end)
            stop = rng.choice([None, start + rng.randint(0, 20)])
            wanted = list(range(start, end if stop is None else min(stop, end)))
            if rng.random() < 0.2 and wanted:
                # A reader that stops in the middle, beside another one.
                begun = source.read(start, stop)
                next(begun)
                assert read(source, start, stop) == wanted
                begun.close()
            assert read(source, start, stop) == wanted
            next_start = wanted[-1] + 1 if wanted else start
        assert len(queue.chain().segments) > 5
        assert source.end() == end


def test_what_was_trimmed_is_refused_and_what_is_left_is_read(tmp_path: Path) -> None:
    options = QueueOptions(segment_bytes=1_000)
    with open_queue(tmp_path / "queue", "x", schema=SCHEMA, options=options) as queue:
        source = QueueSource(queue.chain)
        append(queue, 0, 5)
        assert read(source, 0) == [0, 1, 2, 3, 4]
        for first in range(5, 300, 5):
            append(queue, first, 5)
        queue.trim(250)
        left = queue.chain().first_offset()
        assert left > 5
        with pytest.raises(OutOfRange):
            read(source, 5)
        assert read(source, left) == list(range(left, 300))


def test_small_reads_one_after_the_other_look_at_each_frame_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, opened = 0, 0
    walk, make = LogReader.frames, Chain.__init__

    def counted_walk(self, start=None):
        nonlocal frames
        for frame in walk(self, start):
            frames += 1
            yield frame

    def counted_make(self, folder):
        nonlocal opened
        opened += 1
        make(self, folder)

    with open_queue(tmp_path / "queue", "x", schema=SCHEMA) as queue:
        source = QueueSource(queue.chain)
        monkeypatch.setattr(LogReader, "frames", counted_walk)
        monkeypatch.setattr(Chain, "__init__", counted_make)
        for number in range(100):
            append(queue, number, 1)
            begun = source.read(number)
            next(begun)
            begun.close()  # as a standby does, which takes a few steps at a time
            assert read(source, number) == [number]
    # Before, 10,000 frames and 200 chains: each read sought its place from the segment's start on.
    assert 200 <= frames <= 210
    assert opened == 0


# -- taken again without checkpoints --------------------------------------------------------------

BIDS = pa.schema([("item", pa.int64()), ("at", pa.int64())])


def sums() -> Aggregate:
    return Aggregate(
        group_by=["item"],
        aggregates={"rows": ("count", "at")},
        window=TimeWindow(10),
        input_schema=BIDS,
    )


def fill(queue: OutputQueue, rows: int) -> None:
    for first in range(0, rows, 10):
        at = pa.array(np.arange(first, first + 10))
        queue.append(pa.record_batch([pa.array([first % 3] * 10), at], schema=BIDS))
    queue.sync()


def process(source: OutputQueue, output: Path, mode: str) -> Runner:
    written = open_queue(output, mode, schema=record_schema(sums()) if mode == "x" else None)
    with written:
        runner = Runner(sums(), [QueueSource(source.chain)], written, checkpoints=False)
        runner.run()
    return runner


def test_each_frame_of_the_input_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = RecordSchema(BIDS, timestamp_column="at")
    with open_queue(tmp_path / "input", "x", schema=schema) as source:
        fill(source, 1000)
        process(source, tmp_path / "output", "x")
        headers: list[int] = []
        read = SegmentReader.header_at

        def counted(self, byte, back_from=None):
            if str(tmp_path / "input") in self.path:
                headers.append(byte)
            return read(self, byte, back_from)

        monkeypatch.setattr(SegmentReader, "header_at", counted)
        process(source, tmp_path / "output", "a")
    assert 100 <= len(headers) < 150, "of 100 frames"


def copy_at(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_an_input_that_is_shorter_than_it_was_is_refused(tmp_path: Path) -> None:
    schema = RecordSchema(BIDS, timestamp_column="at")
    with open_queue(tmp_path / "input", "x", schema=schema) as source:
        fill(source, 200)
    copy = copy_at(tmp_path / "input", tmp_path / "older")
    with open_queue(tmp_path / "input", "a") as source:
        fill(source, 100)
        process(source, tmp_path / "output", "x")
    with (
        open_queue(copy, "a") as shorter,
        pytest.raises(RecoveryError, match=r"input up to 300, .* end before it.*\[200\]"),
    ):
        process(shorter, tmp_path / "output", "a")


# -- another queue in its place -------------------------------------------------------------------


def made(path: Path, rows: int) -> OutputQueue:
    queue = open_queue(path, "x", schema=RecordSchema(BIDS, timestamp_column="at"))
    assert isinstance(queue, OutputQueue)
    fill(queue, rows)
    return queue


def runner_of(source: OutputQueue, written: OutputQueue, **more: bool) -> Runner:
    return Runner(sums(), [QueueSource(source.chain)], written, **more)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_an_input_that_was_made_anew_is_refused_and_not_read_from_the_middle(
    tmp_path: Path, checkpoints: bool
) -> None:
    with (
        made(tmp_path / "input", 300) as source,
        open_queue(tmp_path / "output", "x", schema=record_schema(sums())) as output,
    ):
        runner_of(source, output, checkpoints=checkpoints).run()
    before = read_queue(tmp_path / "output").read_all()
    kept = copy_at(tmp_path / "input", tmp_path / "kept")
    shutil.rmtree(tmp_path / "input")
    with made(tmp_path / "input", 400) as anew, open_queue(tmp_path / "output", "a") as output:
        with pytest.raises(QueueReplaced, match=r"input 0: .*input: the position is of queue"):
            runner_of(anew, output, checkpoints=checkpoints)
        assert output.replay().read_all().equals(before)
    with open_queue(kept, "a") as source, open_queue(tmp_path / "output", "a") as output:
        fill(source, 100)
        runner_of(source, output, checkpoints=checkpoints).run()
        assert output.end_offset > 0


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_standby_refuses_another_queue_and_leaves_the_primary_alone(
    tmp_path: Path, scheme: Scheme
) -> None:
    checkpoints = scheme is not Scheme.UPSTREAM
    with ExitStack() as held:
        source = held.enter_context(made(tmp_path / "input", 300))
        other = held.enter_context(made(tmp_path / "other", 400))
        output = open_queue(tmp_path / "output", "x", schema=record_schema(sums()))
        held.enter_context(output)
        primary = runner_of(source, output, checkpoints=checkpoints)
        primary.run()
        for queue in (source, other):
            queue.consumer("sums").close()
        with pytest.raises(QueueReplaced, match="the position is of queue"):
            Standby(tmp_path / "output", sums, [QueueInput(other, "sums")], scheme)
        primary.run()


def test_what_is_no_queue_has_no_id_and_one_that_comes_later_is_noted(tmp_path: Path) -> None:
    table = pa.table({"item": [1], "at": [1]}, schema=BIDS)
    with (
        made(tmp_path / "one", 10) as one,
        made(tmp_path / "other", 10) as other,
        open_queue(tmp_path / "output", "x", schema=record_schema(sums())) as output,
    ):
        Runner(sums(), [ArrowSource(table, "at")], output).run()
        assert read_input_queues(output.folder) is None
        runner_of(one, output).run()
        Runner(sums(), [ArrowSource(table.slice(0, 0), "at")], output)
        said = read_input_queues(output.folder)
        assert said is not None
        assert said.queues == (one.chain().queue_id,)
        with pytest.raises(QueueReplaced):
            runner_of(other, output)
        path = tmp_path / "output" / "inputs"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptLog, match="inputs: damage at byte 0"):
            runner_of(one, output)
