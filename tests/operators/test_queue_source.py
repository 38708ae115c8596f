"""An operator reads the queue before it piece by piece, for as long as it lives."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import (
    OutOfRange,
    OutputQueue,
    QueueOptions,
    RecordSchema,
    RecoveryError,
    open_queue,
)
from cec_store.log.chain import Chain
from cec_store.log.reader import LogReader
from cec_store.log.segment import SegmentReader
from cec_store.operators import Aggregate, QueueSource, TimeWindow
from cec_store.operators.runner import Runner, record_schema

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


def test_an_input_that_is_shorter_than_it_was_is_refused(tmp_path: Path) -> None:
    schema = RecordSchema(BIDS, timestamp_column="at")
    with open_queue(tmp_path / "input", "x", schema=schema) as source:
        fill(source, 300)
        process(source, tmp_path / "output", "x")
    with open_queue(tmp_path / "shorter", "x", schema=schema) as shorter:
        fill(shorter, 200)
        with pytest.raises(RecoveryError, match=r"input up to 300, .* end before it.*\[200\]"):
            process(shorter, tmp_path / "output", "a")
