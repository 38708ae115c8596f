"""Steps of several frames: they count as one, whoever looks and whatever happens in the middle."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from cec_store import QueueOptions
from cec_store.errors import CorruptLog, DurabilityLost, Poisoned
from cec_store.format.bodies import encode_body
from cec_store.format.ends import Verdict
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    decode_frame_header,
)
from cec_store.format.records import data_records, to_timestamps
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import RecoveryReport, reopen
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import read_tail
from cec_store.log.writer import LogWriter
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.names import segment_name
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors
from support.vectors.make import SCHEMAS, plain_rows, records_of

PLAIN = SCHEMAS["plain"]
UNFINISHED = "a step of several frames was not finished"


def part(number: int) -> pa.RecordBatch:
    return records_of(PLAIN, plain_rows((number, number), (number, None)))


def append_step(writer: LogWriter, *numbers: int, finished: bool = True) -> None:
    for number in numbers:
        last = finished and number == numbers[-1]
        writer.append(encode_body(part(number), 1), FrameMarks() if last else FrameMarks.of_part(0))


def queue_with(*steps: tuple[int, ...], synced: int) -> tuple[MemoryFolder, LogWriter]:
    """A queue of these steps, of which the first so many are vouched for."""
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for number, step in enumerate(steps):
        append_step(writer, *step)
        if number + 1 == synced:
            writer.sync()
    return folder, writer


def shown(folder: MemoryFolder) -> list[int]:
    chain = Chain(folder)
    return [int(chain.records(frame)["n"][0].as_py()) for frame in chain.frames()]


def open_again(folder: MemoryFolder) -> RecoveryReport:
    writer, report = reopen(folder, PLAIN, make_vectors.clock_and_entropy())
    writer.close()
    return report


def test_a_step_is_shown_once_its_last_frame_is_vouched_for() -> None:
    folder, writer = queue_with((0,), (1, 2, 3), synced=1)
    chain = Chain(folder)
    assert (shown(folder), chain.end.seq) == ([0], 1)
    assert chain.written_offset == 8
    writer.sync()
    assert (shown(folder), chain.refresh().seq) == ([0, 1, 2, 3], 4)
    backward, frame = [], chain.last()
    while frame is not None:
        backward.append(frame.header.seq)
        frame = chain.before(frame)
    assert backward == [3, 2, 1, 0]


def test_a_mark_in_the_middle_of_a_step_shows_nothing_of_it() -> None:
    """No writer vouches so; a reader does not depend on that."""
    folder, writer = queue_with((0,), synced=1)
    append_step(writer, 1, 2, finished=False)
    writer._segment.sync()
    append_step(writer, 3, finished=False)
    chain = Chain(folder)
    assert (shown(folder), chain.end.seq, chain.written_offset) == ([0], 1, 2)
    tail = read_tail(SegmentReader(folder, 0))
    assert (tail.verdict, tail.vouched_end) == (Verdict.TORN_TAIL, tail.end)
    report = open_again(folder)
    assert (report.carried_frames, report.torn_reason) == (0, UNFINISHED)
    assert shown(folder) == [0]


def test_a_step_cut_at_any_byte_was_never_written() -> None:
    folder, writer = queue_with((0,), synced=1)
    begins = writer.segment_bytes
    append_step(writer, 1, 2, 3)
    ends = writer.segment_bytes
    for size in range(begins, ends, 7):
        killed = folder.copy()
        del killed.files[segment_name(0)][size:]
        assert shown(killed) == [0]
        assert verify(killed).is_sound
        report = open_again(killed)
        assert (report.carried_frames, report.torn_bytes) == (0, size - begins)
        assert killed.size(segment_name(0)) == begins
        assert shown(killed) == [0]
        assert verify(killed).is_sound
    assert open_again(folder).carried_frames == 3
    assert shown(folder) == [0, 1, 2, 3]
    assert [frame.header.continues for frame in Chain(folder).frames()] == [
        False,
        True,
        True,
        False,
    ]
    assert verify(folder).is_sound


def test_whole_steps_before_an_unfinished_one_are_carried_over() -> None:
    folder, writer = queue_with((0,), (1, 2), (3,), synced=1)
    append_step(writer, 4, 5, finished=False)
    report = open_again(folder)
    assert (report.carried_frames, report.torn_reason) == (3, UNFINISHED)
    assert shown(folder) == [0, 1, 2, 3]


def ended_within_a_step(end: Callable[[LogWriter], None]) -> MemoryFolder:
    folder, writer = queue_with((0,), synced=1)
    append_step(writer, 1, 2, finished=False)
    writer.in_step = False
    end(writer)
    return folder


def test_a_segment_that_ends_within_a_step_is_damage() -> None:
    folder = ended_within_a_step(LogWriter.roll)
    for records in (True, False):
        assert {fault.kind for fault in verify(folder, records=records).faults} == {"step"}
    with pytest.raises(CorruptLog, match="ends within a step"):
        list(Chain(folder).frames())


def test_a_note_within_a_step_is_damage() -> None:
    folder = ended_within_a_step(LogWriter.sync)
    before = folder.snapshot()
    with pytest.raises(CorruptLog, match="not finished where the log was noted to end"):
        open_again(folder)
    assert folder.snapshot() == before


def test_verify_says_that_a_step_was_not_finished() -> None:
    folder, writer = queue_with((0,), synced=1)
    append_step(writer, 1, 2, finished=False)
    found = verify(folder)
    assert found.is_sound
    assert any("step that was not finished" in note.what for note in found.notes)


def test_a_step_is_vouched_for_as_a_whole_only() -> None:
    _, writer = queue_with((0,), synced=1)
    append_step(writer, 1, finished=False)
    with pytest.raises(AssertionError, match="as a whole"):
        writer.sync()


# -- by the pipeline ----------------------------------------------------------------------------


def batch_of(number: int, rows: int = 3) -> pa.RecordBatch:
    column = pa.record_batch({"n": pa.array(np.full(rows, number))})
    return data_records(PLAIN, column, to_timestamps(pa.array(np.full(rows, number))))


def headers_of(folder: MemoryFolder) -> list[FrameHeader]:
    """Of all frames, in the order of the bytes."""
    found = []
    for name in sorted(name for name in folder.files if name.endswith(".seg")):
        data, at = bytes(folder.files[name]), SEGMENT_HEADER_BYTES
        while at < len(data):
            found.append(decode_frame_header(data, at))
            at += found[-1].frame_bytes
    return found


@pytest.mark.parametrize("sync", ["commit", "group", "interval", "none"])
def test_nothing_comes_between_the_frames_of_a_step(sync: str) -> None:
    """Other threads append, sync, roll and wait meanwhile; segments are full all the time."""
    folder = MemoryFolder({})
    options = QueueOptions(
        sync=sync, segment_bytes=3_000, group_max_bytes=500, group_max_wait_ms=0.01,
        sync_interval_ms=0.01, outstanding_frames_max=3,
    )  # fmt: skip
    queue = AppendableQueue(folder, "x", PLAIN, options)
    errors: list[BaseException] = []

    def working(work: object) -> threading.Thread:
        def run() -> None:
            try:
                work()  # type: ignore[operator]
            except BaseException as error:
                errors.append(error)

        return threading.Thread(target=run)

    def steps(first: int) -> None:
        for number in range(first, first + 15):
            parts = [batch_of(number) for _ in range(number % 7 + 1)]
            queue.await_durable(queue.append_step(parts, FrameMarks()))

    def others() -> None:
        for _ in range(10):
            queue.roll()
            queue.sync()

    threads = [working(lambda: steps(0)), working(lambda: steps(100)), working(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    assert not errors
    headers = headers_of(folder)
    for one, other in itertools.pairwise(headers):
        assert not one.continues or (other.type, other.seq) == (one.type, one.seq + 1)
    assert sum(header.continues for header in headers) > 60
    assert verify(folder).is_sound
    numbers = [int(n) for frame in Chain(folder).frames() for n in
               Chain(folder).records(frame)["n"].to_pylist()]  # fmt: skip
    for number in (*range(15), *range(100, 115)):
        assert numbers.count(number) == (number % 7 + 1) * 3
        first = numbers.index(number)
        assert set(numbers[first : first + (number % 7 + 1) * 3]) == {number}


def test_parts_are_taken_only_as_fast_as_they_are_written() -> None:
    folder = MemoryFolder({})
    written = threading.Event()
    folder.before = lambda call, name: written.wait(20) if call == "write" else None
    written.set()
    queue = AppendableQueue(folder, "x", PLAIN, QueueOptions(outstanding_frames_max=2))
    written.clear()
    taken: list[int] = []

    def parts() -> Iterator[pa.RecordBatch]:
        for number in range(30):
            taken.append(number)
            yield batch_of(number)

    thread = threading.Thread(target=lambda: queue.append_step(parts(), FrameMarks()))
    thread.start()
    thread.join(0.3)
    assert 0 < len(taken) <= 5
    written.set()
    thread.join()
    assert len(taken) == 30
    queue.close()
    assert len(shown(folder)) == 30


def test_a_close_waits_for_a_step_that_has_begun() -> None:
    folder = MemoryFolder({})
    queue = AppendableQueue(folder, "x", PLAIN, QueueOptions())
    closer = threading.Thread(target=queue.close)

    def parts() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            if number == 3:
                closer.start()
                closer.join(0.1)
                assert closer.is_alive()
            yield batch_of(number)

    queue.append_step(parts(), FrameMarks())
    closer.join()
    assert len(shown(folder)) == 5


@pytest.mark.parametrize("error", [ValueError("no more"), KeyboardInterrupt()])
def test_a_step_given_up_ends_the_writer_and_leaves_no_trace(error: BaseException) -> None:
    folder = MemoryFolder({})
    queue = AppendableQueue(folder, "x", PLAIN, QueueOptions(outstanding_frames_max=1))
    queue.await_durable(queue.append_records(batch_of(0)))

    def parts() -> Iterator[pa.RecordBatch]:
        yield from map(batch_of, range(1, 6))
        raise error

    with pytest.raises(type(error)):
        queue.append_step(parts(), FrameMarks())
    with pytest.raises(Poisoned):
        queue.append_records(batch_of(9))
    with pytest.raises((DurabilityLost, Poisoned)):
        queue.sync()
    with pytest.raises(DurabilityLost, match="unfinished"):
        queue.close()
    assert shown(folder) == [0]
    with AppendableQueue(folder, "a", PLAIN) as again:
        assert again.report.carried_frames == 0
        again.append_records(batch_of(7))
    assert shown(folder) == [0, 7]


def test_a_step_whose_first_part_fails_leaves_the_writer_as_it_was() -> None:
    folder = MemoryFolder({})
    with AppendableQueue(folder, "x", PLAIN) as queue:

        def parts() -> Iterator[pa.RecordBatch]:
            yield batch_of(1)
            raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            queue.append_step(parts(), FrameMarks())
        queue.append_records(batch_of(2))
    assert shown(folder) == [2]
