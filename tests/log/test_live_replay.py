"""Readers in processes of their own beside a live writer, on a real directory."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import OutOfRange, Position, RecordKind, open_queue
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.names import segment_name
from support.disks.memory_folder import MemoryFolder
from support.processes.live_queue import (
    ACKED,
    FINAL,
    NOTES,
    ROLLS,
    SYNCED,
    TRIMS,
    check,
    open_notes,
)


@contextlib.contextmanager
def process(role: str, path: Path, seconds: float, seed: int) -> Iterator[subprocess.Popen[str]]:
    arguments = [role, str(path / "queue"), str(path / "notes"), str(seconds), str(seed)]
    running = subprocess.Popen(
        [sys.executable, "-m", "support.processes.live_queue", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def require_success(running: subprocess.Popen[str], who: str) -> str:
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, f"{who} failed:\n{err[-3_000:]}"
    return out


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1])
def test_readers_see_a_gap_free_prefix_of_what_is_durable(
    seed: int, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    seconds = crash_count(3, 60)
    (tmp_path / "notes").write_bytes(bytes(NOTES * 8))
    notes = open_notes(str(tmp_path / "notes"))
    notes[FINAL] = -1
    with (
        process("follower", tmp_path, seconds, seed) as follower,
        process("visitor", tmp_path, seconds, seed) as visitor,
        process("writer", tmp_path, seconds, seed) as writer,
    ):
        _, error = writer.communicate(timeout=seconds + 60)
        assert writer.returncode == 0, f"seed {seed}: the writer failed:\n{error[-3_000:]}"
        followed = json.loads(require_success(follower, f"seed {seed}: the follower"))
        visited = json.loads(require_success(visitor, f"seed {seed}: the visitor"))
    print(f"{notes[FINAL]} records, {notes[ROLLS]} rolls, {notes[TRIMS]} trims; "
          f"follower {followed}; visitor {visited}")  # fmt: skip
    assert notes[ACKED] == notes[SYNCED] == notes[FINAL]
    with open_queue(tmp_path / "queue") as queue:
        assert queue.durable_offset == notes[FINAL]
        due = queue.chain().first_offset()
        for batch in queue.replay(kinds=RecordKind, include_metadata=True):
            due = check(batch, due)
        assert due == notes[FINAL]
    # Little, so that a busy machine does not fail it, but something.
    assert notes[ROLLS] > 0
    assert notes[TRIMS] > 0
    assert followed["batches"] > 10 * seconds
    assert min(visited[look] for look in ("stretch", "moment", "checkpoint")) > seconds


# -- trimmed in the middle of a search --------------------------------------------------------


def trimmed_while_read(segment_id: int) -> tuple[OutputQueue, OutputQueue]:
    """A writer and a reader of ten segments; the first six go when the reader gets to one."""
    folder = MemoryFolder({})
    writer = open_queue(folder, "a", schema=pa.schema([("n", pa.int64())]))
    for number in range(10):
        writer.append(pa.record_batch({"n": pa.array([number])}), pa.array([number * 10]))
        writer.roll()
    reader = open_queue(folder)

    def before(call: str, name: str) -> None:
        if (call, name) == ("read", segment_name(segment_id)):
            folder.before = lambda call, name: None
            assert writer.trim(6) == 6

    folder.before = before
    return writer, reader


@pytest.mark.parametrize("segment_id", range(6))
def test_a_trim_does_not_hide_a_moment_that_is_still_there(segment_id: int) -> None:
    _, reader = trimmed_while_read(segment_id)
    assert reader.position_at(75) == Position(8)
    _, reader = trimmed_while_read(segment_id)
    assert next(reader.replay(since=75))["n"].to_pylist() == [8]
    _, reader = trimmed_while_read(segment_id)
    assert reader.position_at(25) in (Position(3), Position(6))


@pytest.mark.parametrize("segment_id", range(6))
def test_a_trim_does_not_hide_a_position_that_is_still_there(segment_id: int) -> None:
    _, reader = trimmed_while_read(segment_id)
    assert next(reader.replay(since=Position(8)))["n"].to_pylist() == [8]


def test_a_replay_of_all_that_is_left_begins_behind_a_trim() -> None:
    _, reader = trimmed_while_read(0)
    assert next(reader.replay())["n"].to_pylist() == [6]


def test_a_trim_hides_a_position_that_is_gone() -> None:
    _, reader = trimmed_while_read(0)
    with pytest.raises(OutOfRange, match="offset 3"):
        next(reader.replay(since=Position(3)))


def test_a_replay_beside_a_recovery_leaves_nothing_out() -> None:
    """It has read the manifest; what vouches for the segment is cut off before it reads that."""
    folder = MemoryFolder({})
    schema = pa.schema([("n", pa.int64())])
    with open_queue(folder, "a", schema=schema) as queue:
        queue.append(pa.record_batch({"n": pa.array([0])}), pa.array([0]), sync=True)
    reader = open_queue(folder)

    def before(call: str, name: str) -> None:
        if (call, name) == ("read", segment_name(0)):
            folder.before = lambda call, name: None
            open_queue(folder, "a").close()

    folder.before = before
    assert [batch["n"].to_pylist() for batch in reader.replay(Position(0), Position(1))] == [[0]]


def test_a_follower_is_not_lost_when_what_it_has_read_is_trimmed() -> None:
    writer, reader = trimmed_while_read(10)  # the one that its end is in
    replay = reader.replay(since=Position(9), follow=True)
    assert next(replay)["n"].to_pylist() == [9]
    writer.append(pa.record_batch({"n": pa.array([10])}), pa.array([100]), sync=True)
    assert next(replay)["n"].to_pylist() == [10]
