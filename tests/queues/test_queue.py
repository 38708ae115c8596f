"""The queue as its users see it: append, sync, roll, trim, close, in every sync mode."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cec_store
from cec_store.errors import (
    DiskFull,
    DurabilityLost,
    Fenced,
    FrameTooLarge,
    NotAQueue,
    OutOfRange,
    Poisoned,
    QueueLocked,
    ReadOnly,
    SchemaMismatch,
)
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.epochs import read_manifest
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_id_of
from support.disks.memory_folder import MemoryFolder

PLAIN = RecordSchema(pa.schema([("n", pa.int64())]))
TIMED = RecordSchema(
    pa.schema([("t", pa.timestamp("us")), ("u", pa.timestamp("us"))]), timestamp_column="t"
)
each_mode = pytest.mark.parametrize("mode", list(SyncMode))


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def queue(folder: MemoryFolder, mode: str = "a", **options: object) -> AppendableQueue:
    return AppendableQueue(folder, mode, PLAIN, QueueOptions(**options), clock_us=lambda: 77)


def values(folder: MemoryFolder) -> list[int]:
    chain = Chain(folder)
    return [n for f in chain.frames() for n in chain.records(f).column("n").to_pylist()]


def segments(folder: MemoryFolder) -> list[int]:
    return [i for i in map(segment_id_of, folder.names()) if i is not None]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


class Gate:
    """Holds the writer's thread at a call until it is opened."""

    def __init__(self, folder: MemoryFolder, call: str) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        self._call = call
        folder.before = self._before

    def _before(self, call: str, name: str) -> None:
        if call == self._call and name.endswith(".seg"):
            self.reached.set()
            assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()


def fail(folder: MemoryFolder, call: str, error: Exception) -> None:
    def before(found: str, name: str) -> None:
        if found == call and name.endswith(".seg"):
            raise error

    folder.before = before


# -- appending --------------------------------------------------------------------------------


@each_mode
def test_what_was_appended_is_there_after_close(mode: SyncMode) -> None:
    folder = MemoryFolder({})
    with queue(folder, sync=mode) as q:
        assert [q.append(batch(i, -i)) for i in range(5)] == [0, 1, 2, 3, 4]
        assert q.end_offset == 10
    assert values(folder) == [0, 0, 1, -1, 2, -2, 3, -3, 4, -4]
    assert all(file.closed for file in folder.opened)
    assert not folder.locked


@each_mode
def test_sync_makes_durable_and_visible(mode: SyncMode) -> None:
    folder = MemoryFolder({})
    q = queue(folder, sync=mode)
    q.sync()
    for i in range(4):
        seq = q.append(batch(i))
        q.sync() if i % 2 else q.await_durable(seq)
        assert q.durable_offset == q.end_offset == i + 1
        assert values(folder) == list(range(i + 1))
        assert queue(folder, "r").durable_offset == i + 1
    q.append(batch(9), sync=True)
    assert q.durable_offset == 5
    q.close()


def test_what_each_mode_syncs_unasked() -> None:
    counts: dict[SyncMode, int] = {}
    for mode in SyncMode:
        folder = MemoryFolder({})
        q = queue(folder, sync=mode, group_max_wait_ms=20, sync_interval_ms=50)
        syncs: list[str] = []
        folder.before = lambda call, name, syncs=syncs: (
            syncs.append(name) if call == "sync" else None
        )
        for i in range(3):
            q.append(batch(i))
        if mode is SyncMode.NONE:
            time.sleep(0.15)
            assert q.durable_offset == 0
        else:
            wait_until(lambda q=q: q.durable_offset == 3)
        counts[mode] = len(syncs)
        q.close()
    assert counts[SyncMode.COMMIT] == 3
    assert 1 <= counts[SyncMode.GROUP] <= 3
    assert 1 <= counts[SyncMode.INTERVAL] <= 3
    assert counts[SyncMode.NONE] == 0


def test_a_full_group_does_not_wait() -> None:
    q = queue(MemoryFolder({}), sync="group", group_max_wait_ms=60_000, group_max_bytes=1)
    q.append(batch(1))
    wait_until(lambda: q.durable_offset == 1)
    q.close()


def test_an_empty_batch_writes_nothing() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        assert q.append(batch()) == -1
        assert q.append(batch(), sync=True) == -1
        assert q.append(batch(1)) == 0
        assert q.append(batch(), sync=True) == 0
        assert (q.end_offset, q.durable_offset) == (1, 1)
    chain = Chain(folder)
    assert len(list(chain.frames())) == 1


def test_a_frame_without_records_can_be_written() -> None:
    folder = MemoryFolder({})
    empty = pa.RecordBatch.from_pylist([], schema=PLAIN.arrow)
    with queue(folder) as q:
        q.append(batch(1))
        seq = q.append_records(empty, FrameMarks(0, 0, 42))
        q.await_durable(seq)
    frames = list(Chain(folder).frames())
    assert [frame.header.record_count for frame in frames] == [1, 0]
    assert frames[1].header.input_upto == 42


def test_timestamps_come_from_the_caller_the_column_or_the_clock() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        q.append(batch(1))
        q.append(batch(2), pa.array([5], pa.int64()))
    headers = [frame.header for frame in Chain(folder).frames()]
    assert [h.min_timestamp_us for h in headers] == [77, 5]
    folder = MemoryFolder({})
    stamps = {"t": pa.array([3, 1], pa.timestamp("us")), "u": pa.array([8, 9], pa.timestamp("us"))}
    with AppendableQueue(folder, "a", TIMED) as q:
        q.append(pa.record_batch(stamps))
    (frame,) = Chain(folder).frames()
    assert (frame.header.min_timestamp_us, frame.header.max_timestamp_us) == (1, 3)


def test_the_clock_is_the_machines_in_microseconds_since_1970() -> None:
    folder = MemoryFolder({})
    with AppendableQueue(folder, "a", PLAIN) as q:
        before_us = time.time_ns() // 1000
        q.append(batch(1))
        after_us = time.time_ns() // 1000
    (frame,) = Chain(folder).frames()
    assert before_us <= frame.header.min_timestamp_us <= after_us


def test_what_does_not_fit_is_refused_and_the_queue_goes_on() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        for bad in (pa.record_batch({"m": [1]}), pa.record_batch({"n": ["x"]}), None, [1]):
            with pytest.raises(SchemaMismatch):
                q.append(bad)
        for stamps in (pa.array([1, 2]), pa.array(["x"]), pa.array([None], pa.int64()), [1]):
            with pytest.raises(SchemaMismatch):
                q.append(batch(1), stamps)
        for records in (batch(1), pa.RecordBatch.from_pylist([], schema=TIMED.arrow)):
            with pytest.raises(SchemaMismatch):
                q.append_records(records)
        stamps = pa.array(range(5_000_000))
        records = data_records(PLAIN, batch(*range(5_000_000)), to_timestamps(stamps))
        with pytest.raises(FrameTooLarge):
            q.append_records(records)
        with pytest.raises(ValueError, match="has not been appended"):
            q.await_durable(0)
        assert q.append(batch(1), sync=True) == 0
    assert values(folder) == [1]


def test_many_threads_keep_one_order() -> None:
    folder = MemoryFolder({})
    q = queue(folder, segment_bytes=8_000, outstanding_frames_max=4)
    found: list[tuple[int, int]] = []

    def work(worker: int) -> None:
        for i in range(40):
            value = worker * 1000 + i
            found.append((q.append(batch(value), sync=i % 10 == 0), value))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    q.close()
    assert sorted(seq for seq, _ in found) == list(range(240))
    assert values(folder) == [value for _, value in sorted(found)]
    for worker in range(6):
        own = [value for value in values(folder) if value // 1000 == worker]
        assert own == sorted(own)
    assert len(segments(folder)) > 2


def test_a_bounded_number_is_outstanding() -> None:
    folder = MemoryFolder({})
    q = queue(folder, outstanding_frames_max=3)
    gate = Gate(folder, "write")
    appended: list[int] = []
    thread = threading.Thread(
        target=lambda: [appended.append(q.append(batch(i))) for i in range(9)]
    )
    thread.start()
    assert gate.reached.wait(10)
    wait_until(lambda: len(appended) == 3)
    time.sleep(0.05)
    assert len(appended) == 3
    assert q.end_offset == 3
    gate.open()
    thread.join()
    q.close()
    assert values(folder) == list(range(9))


def test_bytes_are_bounded_too_but_one_frame_always_goes() -> None:
    folder = MemoryFolder({})
    q = queue(folder, outstanding_bytes_max=1)
    gate = Gate(folder, "write")
    assert q.append(batch(1)) == 0
    thread = threading.Thread(target=lambda: q.append(batch(2)))
    thread.start()
    time.sleep(0.05)
    assert q.end_offset == 1
    gate.open()
    thread.join()
    q.close()
    assert values(folder) == [1, 2]


# -- failing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "sync"])
@pytest.mark.parametrize("error", [DiskFull("full"), OSError(5, "Input/output error")])
def test_after_a_failure_nothing_is_acknowledged(call: str, error: Exception) -> None:
    folder = MemoryFolder({})
    q = queue(folder)
    q.append(batch(1), sync=True)
    fail(folder, call, error)
    seq = q.append(batch(2))
    expected = DiskFull if isinstance(error, DiskFull) else DurabilityLost
    with pytest.raises(expected):
        q.await_durable(seq)
    folder.before = lambda call, name: None
    for attempt in (lambda: q.append(batch(3)), q.roll, lambda: q.append(batch(4), sync=True)):
        with pytest.raises(Poisoned):
            attempt()
    assert q.durable_offset == 1
    with pytest.raises(expected):
        q.close()
    assert not folder.locked
    with queue(folder) as again:
        again.append(batch(5))
    assert values(folder)[0] == 1
    assert values(folder)[-1] == 5


def test_a_failed_sync_is_never_tried_again() -> None:
    folder = MemoryFolder({})
    q = queue(folder)
    calls: list[str] = []

    def before(call: str, name: str) -> None:
        if call == "sync" and name.endswith(".seg"):
            calls.append(name)
            raise OSError(5, "Input/output error")

    folder.before = before
    with pytest.raises(DurabilityLost):
        q.append(batch(1), sync=True)
    with pytest.raises(DurabilityLost):
        q.close()
    assert len(calls) == 1


def test_waiting_for_durability_survives_a_close_that_makes_it_so() -> None:
    folder = MemoryFolder({})
    q = queue(folder, sync="none")
    gate = Gate(folder, "sync")
    seq = q.append(batch(1))
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            q.await_durable(seq)
        except BaseException as error:
            failures.append(error)

    closing = threading.Thread(target=q.close)
    closing.start()
    assert gate.reached.wait(10)
    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    gate.open()
    closing.join()
    waiting.join()
    assert failures == []
    assert values(folder) == [1]


def test_a_wait_can_end_in_time() -> None:
    folder = MemoryFolder({})
    q = queue(folder)
    gate = Gate(folder, "sync")
    seq = q.append(batch(1))
    with pytest.raises(TimeoutError, match="frame 0"):
        q.await_durable(seq, timeout_s=0.01)
    gate.open()
    q.await_durable(seq, timeout_s=10)
    q.close()


# -- closing ----------------------------------------------------------------------------------


def test_a_closed_queue_takes_nothing() -> None:
    q = queue(MemoryFolder({}))
    seq = q.append(batch(1))
    q.close()
    q.close()
    q.await_durable(seq)
    assert (q.durable_offset, q.end_offset) == (1, 1)
    for attempt in (lambda: q.append(batch(1)), q.roll):
        with pytest.raises(Poisoned, match="closed"):
            attempt()


def test_the_context_closes_and_lets_errors_through() -> None:
    folder = MemoryFolder({})

    def fail_inside() -> None:
        with queue(folder) as q:
            q.append(batch(1))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail_inside()
    assert values(folder) == [1]
    assert not folder.locked


def test_a_reader_writes_nothing() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        q.append(batch(1))
    before = folder.snapshot()
    with queue(folder, "r") as reader:
        assert reader.schema == PLAIN
        for attempt in (
            lambda: reader.append(batch(1)),
            lambda: reader.append_records(batch(1)),
            lambda: reader.trim(0),
            reader.sync,
            reader.roll,
        ):
            with pytest.raises(ReadOnly, match="mode='a'"):
                attempt()
    assert folder.snapshot() == before


# -- rolling and trimming ---------------------------------------------------------------------


@each_mode
def test_a_roll_makes_durable_and_starts_a_segment(mode: SyncMode) -> None:
    folder = MemoryFolder({})
    with queue(folder, sync=mode) as q:
        q.roll()
        assert segments(folder) == [0]  # nothing to complete
        q.append(batch(1))
        q.roll()
        assert q.durable_offset == 1
        assert segments(folder) == [0, 1]
        q.append(batch(2))
    assert values(folder) == [1, 2]


def test_a_segment_that_is_full_rolls_by_itself() -> None:
    folder = MemoryFolder({})
    with queue(folder, segment_bytes=2_000) as q:
        for i in range(20):
            q.append(batch(i))
    assert values(folder) == list(range(20))
    assert len(segments(folder)) >= 4
    assert max(folder.size(n) for n in folder.names() if n.endswith(".seg")) < 2_000 + 500


def test_a_trim_takes_whole_segments_only() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        for i in range(4):
            q.append(batch(i, i))
            q.roll()
        assert q.trim(1) == 0
        assert q.trim(2) == 2
        assert q.trim(5) == 4
        assert segments(folder) == [2, 3, 4]
        assert q.trim(3) == 4  # never back
        assert q.trim(-1) == 4
        with pytest.raises(OutOfRange):
            q.trim(9)
        assert q.trim(8) == 6  # the last frame stays
    assert values(folder) == [3, 3]
    with queue(folder) as q:
        assert q.end_offset == 8
        q.append(batch(4))
    assert values(folder) == [3, 3, 4]


def test_trims_that_cross_never_bring_a_segment_back() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        for i in range(4):
            q.append(batch(i))
            q.roll()
        # As when two threads trim and the one that looked first comes second.
        assert q._pipeline.call(lambda: q._pipeline.writer.trim(3)) == [0, 1, 2]
        assert q._pipeline.call(lambda: q._pipeline.writer.trim(1)) == []
    assert read_manifest(folder).first_segment == 3
    assert values(folder) == [3]


def test_an_open_window_keeps_what_its_rebuild_needs() -> None:
    folder = MemoryFolder({})
    with queue(folder) as q:
        for i in range(4):
            q.append(batch(i))
            q.roll()
        records = pa.RecordBatch.from_pylist(
            [{"_kind": 1, "_timestamp": 0, "n": 4}], schema=PLAIN.arrow
        )
        q.await_durable(q.append_records(records, FrameMarks(1, 3, 0)))
        assert q.trim(5) == 2


def test_a_crash_in_a_trim_leaves_nothing_behind_for_long() -> None:
    folder = MemoryFolder({})
    q = queue(folder)
    for i in range(4):
        q.append(batch(i))
        q.roll()
    died = folder.copy()
    q.trim(3)
    q.close()
    died.files = {**died.files, **{n: d for n, d in folder.files.items() if "manifest" in n}}
    assert segments(died) == [0, 1, 2, 3, 4]
    queue(died).close()
    assert segments(died) == [3, 4, 5]
    assert values(died) == [3]


# -- opening ----------------------------------------------------------------------------------


def test_modes() -> None:
    folder = MemoryFolder({})
    with pytest.raises(ValueError, match="mode='w'"):
        queue(folder, "w")
    with pytest.raises(NotAQueue):
        AppendableQueue(folder, "r")
    for mode in "ax":
        with pytest.raises(NotAQueue, match="give a schema"):
            AppendableQueue(folder, mode)
    assert folder.names() == []
    queue(folder, "x").close()
    before = folder.snapshot()
    with pytest.raises(FileExistsError, match="a queue already"):
        queue(folder, "x")
    assert folder.snapshot() == before
    assert not folder.locked
    AppendableQueue(folder, "a").close()


def test_numbering_goes_on_at_each_opening() -> None:
    folder = MemoryFolder({})
    for i in range(5):
        with queue(folder) as q:
            assert (q.end_offset, q.durable_offset) == (2 * i, 2 * i)
            assert q.append(batch(i, i)) == i
    assert values(folder) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [frame.header.seq for frame in Chain(folder).frames()] == [0, 1, 2, 3, 4]


def test_a_second_writer_is_refused_and_a_takeover_fences_the_first() -> None:
    folder = MemoryFolder({})
    first = queue(folder)
    first.append(batch(1), sync=True)
    before = folder.snapshot()
    with pytest.raises(QueueLocked):
        queue(folder)
    assert folder.snapshot() == before
    second = AppendableQueue(folder, "a", PLAIN, takeover=True)
    second.append(batch(2), sync=True)
    with pytest.raises(Fenced, match="has taken over"):
        first.append(batch(3), sync=True)
    second.append(batch(4), sync=True)
    for call in (lambda: first.append(batch(5)), first.sync, first.roll, first.close):
        with pytest.raises(Fenced, match="has taken over"):
            call()
    with pytest.raises(Fenced, match="has taken over"):  # closed, it still says why it ended
        first.append(batch(6))
    second.close()
    assert values(folder) == [1, 2, 4]


def test_a_queue_that_came_while_waiting_for_the_lock_is_not_made_again() -> None:
    for mode in "ax":
        folder = MemoryFolder({})

        def before(call: str, name: str, folder: MemoryFolder = folder) -> None:
            if call == "lock":
                folder.before = lambda call, name: None
                with queue(folder) as other:
                    other.append(batch(1))

        folder.before = before
        if mode == "x":
            with pytest.raises(FileExistsError):
                queue(folder, mode)
        else:
            with queue(folder, mode) as q:
                assert q.end_offset == 1
        assert values(folder) == [1]
        assert not folder.locked


def test_an_opening_that_fails_lets_go_of_the_lock() -> None:
    folder = MemoryFolder({"foreign.txt": b"mine"})
    for _ in range(2):
        with pytest.raises(NotAQueue, match=r"foreign\.txt"):
            queue(folder)
        assert not folder.locked


def test_another_schema_is_refused() -> None:
    folder = MemoryFolder({})
    queue(folder).close()
    before = folder.snapshot()
    other = RecordSchema(pa.schema([("n", pa.int32())]))
    for mode in "ar":
        with pytest.raises(SchemaMismatch, match="/memory"):
            AppendableQueue(folder, mode, other)
        assert folder.snapshot() == before


def test_another_timestamp_column_is_refused_and_none_means_the_stored_one() -> None:
    folder = MemoryFolder({})
    AppendableQueue(folder, "a", TIMED).close()
    unsaid = RecordSchema(TIMED.data)
    other = RecordSchema(TIMED.data, timestamp_column="u")
    for mode in "ar":
        with AppendableQueue(folder, mode, unsaid) as q:
            assert q.schema.timestamp_column == "t"
        with pytest.raises(SchemaMismatch, match="'t'"):
            AppendableQueue(folder, mode, other)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sync": "always"}, {"sync": None}, {"group_max_wait_ms": 0}, {"group_max_bytes": 0},
        {"sync_interval_ms": -1}, {"segment_bytes": 0}, {"outstanding_frames_max": 0},
        {"outstanding_bytes_max": -5}, {"compression_level": 23}, {"compression_level": -8},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_options_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QueueOptions(**wrong)


@each_mode
def test_a_real_folder(tmp_path: Path, mode: SyncMode) -> None:
    folder = LocalFolder(tmp_path / "deep" / "queue")
    for i in range(3):
        with AppendableQueue(folder, "a", PLAIN, QueueOptions(sync=mode, segment_bytes=1_500)) as q:
            for j in range(5):
                q.append(batch(i, j))
            with pytest.raises(QueueLocked, match="close it"):
                AppendableQueue(folder, "a")
    found = values(folder)
    assert found == [n for i in range(3) for j in range(5) for n in (i, j)]


@pytest.mark.parametrize("as_table", [False, True], ids=["batch", "table"])
def test_a_batch_above_the_limit_of_a_frame_is_several_that_count_as_one(as_table: bool) -> None:
    folder = MemoryFolder({})
    rows = batch(*range(5_000_000))
    with queue(folder) as q:
        q.append(batch(-1))
        appended = pa.Table.from_batches([rows, rows]) if as_table else rows
        last = q.append(appended, pa.array(range(appended.num_rows)), sync=True)
        assert last > 1
    chain = Chain(folder)
    headers = [frame.header for frame in chain.frames()]
    assert [header.continues for header in headers] == [False, *[True] * (last - 1), False]
    found = pa.Table.from_batches(chain.records(frame) for frame in chain.frames())[1:]
    assert found["n"].to_pylist() == list(range(5_000_000)) * (1 + as_table)
    assert found["_timestamp"].cast(pa.int64()).to_pylist() == list(range(appended.num_rows))


def test_numpy_is_handed_numbers_and_no_enums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of an enum would run within numpy, which drops an interrupt that is raised there."""
    asked: list[str] = []

    def missing(_: type, name: str) -> object:
        asked.append(name)
        raise AttributeError(name)

    monkeypatch.setattr(enum.EnumType, "__getattr__", missing, raising=False)
    np.full(1, RecordKind.DATA, np.uint8)
    assert any(name.startswith("__array") for name in asked), "a numpy that does not ask"
    asked.clear()
    folder = LocalFolder(tmp_path / "queue")
    with AppendableQueue(folder, "a", PLAIN) as opened:
        opened.append(batch(1, 2))
        opened.append_step(
            (data_records(opened.schema, batch(n), to_timestamps(pa.array([n]))) for n in (3, 4)),
            FrameMarks(),
        )
    assert values(folder) == [1, 2, 3, 4]
    assert (
        cec_store.read_queue(tmp_path / "queue", kinds={RecordKind.DATA}).read_all().num_rows == 4
    )
    assert [name for name in asked if name.startswith("__array")] == []
