"""One fault at the end of a log hides no acknowledged record: every door refuses it by name."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.errors import CecError, CorruptLog
from cec_store.format.schema import RecordSchema
from cec_store.inspector.verifying.log import verify
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from support.paths import ROOT

SCHEMA = pa.schema([("n", pa.int64())])
FRAMES = 20
WRITE = """
import os, sys
import pyarrow as pa
from cec_store import open_queue
queue = open_queue(sys.argv[1], "a", schema=pa.schema([("n", pa.int64())]))
for n in range(int(sys.argv[2])):
    queue.append(pa.record_batch([[n] * 30], names=["n"]), sync=True)
os.kill(os.getpid(), 9)
"""


def fill(path: Path, frames: int, first: int = 0) -> None:
    with open_queue(str(path), "a", schema=SCHEMA) as queue:
        for n in range(first, first + frames):
            queue.append(pa.record_batch([[n] * 30], names=["n"]), sync=True)


def closed(path: Path) -> None:
    fill(path, FRAMES)


def killed(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WRITE, str(path), str(FRAMES)], env=environment)
    assert done.returncode == -signal.SIGKILL


def newest(path: Path) -> Path:
    return max(path.glob("*.seg"))


def zero_sector(path: Path) -> None:
    _zero(newest(path), 512)


def zero_page(path: Path) -> None:
    _zero(newest(path), 4096)


def _zero(file: Path, size: int) -> None:
    """The last whole or partial block of this size, which holds more than one frame."""
    data = bytearray(file.read_bytes())
    start = (len(data) - 1) // size * size
    if len(data) - start <= 128:
        start -= size
    data[start:] = bytes(len(data) - start)
    file.write_bytes(data)


def cut(path: Path) -> None:
    data = newest(path).read_bytes()
    newest(path).write_bytes(data[:-3000])


def cut_between_frames(path: Path) -> None:
    """At a place where a sound log could end."""
    data = newest(path).read_bytes()
    newest(path).write_bytes(data[: data.rindex(b"CECF", 0, -800)])


def empty(path: Path) -> None:
    newest(path).write_bytes(b"")


FAULTS = [zero_sector, zero_page, cut, cut_between_frames, empty]
MADE = [closed, killed]
named = pytest.mark.parametrize


def content(path: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in path.iterdir()
        if file.is_file() and "lock" not in file.name
    }


def assert_refused(path: Path) -> None:
    """By every door, with nothing changed on disk."""
    before = content(path)
    doors: list[Callable[[], object]] = [
        lambda: open_queue(str(path)),
        lambda: open_queue(str(path), "a"),
        lambda: read_queue(str(path)).read_all(),
        lambda: open_queue(str(path), "a", takeover=True),
    ]
    for door in doors:
        with pytest.raises(CorruptLog) as raised:
            door()
        assert "durable-" in str(raised.value) or "segment header" in str(raised.value)
    assert content(path) == before
    found = verify(LocalFolder(path))
    assert not found.is_sound
    assert any(fault.acknowledged for fault in found.faults)


@named("made", MADE)
@named("fault", FAULTS)
def test_a_fault_at_the_end_is_damage(
    fault: Callable[[Path], None], made: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "queue"
    made(path)
    assert read_queue(str(path)).read_all().num_rows == FRAMES * 30
    assert verify(LocalFolder(path)).is_sound
    fault(path)
    assert_refused(path)


@named("kill", [False, True])
def test_an_older_copy_of_the_newest_segment_is_damage(kill: bool, tmp_path: Path) -> None:
    path, copy = tmp_path / "queue", tmp_path / "copy"
    queue = AppendableQueue(LocalFolder(path), "a", RecordSchema(SCHEMA))
    for n in range(FRAMES):
        if n == 7:
            shutil.copy(newest(path), copy)
        queue.append(pa.record_batch([[n] * 30], names=["n"]), sync=True)
    if not kill:
        queue.close()
    else:
        shutil.copytree(path, tmp_path / "left")  # what a kill leaves is what is in the files
        queue.close()
        path = tmp_path / "left"
    shutil.copy(copy, newest(path))
    assert_refused(path)


@named("fault", FAULTS)
def test_a_reader_that_follows_refuses_it(fault: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "queue"
    writer = open_queue(str(path), "a", schema=SCHEMA)
    reader = open_queue(str(path))
    follower = reader.replay(follow=True)
    for n in range(FRAMES):
        writer.append(pa.record_batch([[n] * 30], names=["n"]), sync=True)
        if n < FRAMES // 2:
            next(follower)
    writer.close()
    fault(path)
    shown: list[int] = []
    with pytest.raises(CecError):
        shown.extend(batch.num_rows for batch in follower)
    assert len(shown) < FRAMES // 2
    assert_refused(path)


@named("slot", [0, 4096])
@named("made", MADE)
def test_of_two_slots_one_may_be_lost(
    slot: int, made: Callable[[Path], None], tmp_path: Path
) -> None:
    """One fault takes a slot or the end of the log, and either way nothing is lost."""
    path = tmp_path / "queue"
    made(path)
    note = max(path.glob("durable-*"))
    data = bytearray(note.read_bytes())
    data[slot : slot + 128] = bytes(128)
    note.write_bytes(data)
    assert read_queue(str(path)).read_all().num_rows == FRAMES * 30
    fill(path, 1, FRAMES)
    assert read_queue(str(path)).read_all().num_rows == (FRAMES + 1) * 30


@named("made", MADE)
def test_the_loss_of_the_note_loses_nothing(made: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "queue"
    made(path)
    max(path.glob("durable-*")).unlink()
    with pytest.raises(CorruptLog, match=r"durable-.*is missing; open the queue for append once"):
        read_queue(str(path)).read_all()
    assert {fault.kind for fault in verify(LocalFolder(path)).faults} == {"note-old"}
    fill(path, 1, FRAMES)
    assert read_queue(str(path)).read_all().num_rows == (FRAMES + 1) * 30
    assert verify(LocalFolder(path)).is_sound


def test_verify_says_that_records_stand_behind_an_older_note(tmp_path: Path) -> None:
    """They may have been acknowledged, or not: a writer may have ended before it noted them."""
    path = tmp_path / "queue"
    with open_queue(str(path), "a", schema=SCHEMA) as queue:
        for n in range(2):
            [note] = path.glob("durable-*")
            older = note.read_bytes()
            queue.append(pa.record_batch([[n] * 30], names=["n"]), sync=True)
    assert verify(LocalFolder(path)).notes == ()
    note.write_bytes(older)
    assert read_queue(str(path)).read_all().num_rows == 30
    found = verify(LocalFolder(path))
    assert found.is_sound
    [said] = found.notes
    assert said.path == str(newest(path))
    assert "or the note is an older copy; the next opening for append keeps them" in said.what
    with open_queue(str(path), "a"):
        assert read_queue(str(path)).read_all().num_rows == 60
    assert verify(LocalFolder(path)).notes == ()


def test_a_loss_is_accepted_by_moving_the_note_away(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    closed(path)
    cut(path)
    for note in path.glob("durable-*"):
        note.rename(tmp_path / note.name)
    fill(path, 1, FRAMES)
    assert 30 < read_queue(str(path)).read_all().num_rows <= FRAMES * 30


def test_a_note_of_another_queue_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "queue", tmp_path / "other"
    closed(path)
    closed(other)
    shutil.copy(max(other.glob("durable-*")), max(path.glob("durable-*")))
    with pytest.raises(CorruptLog, match="belongs to another queue"):
        open_queue(str(path))


def test_a_power_cut_between_sync_and_note_leaves_an_older_note(tmp_path: Path) -> None:
    path, note = tmp_path / "queue", tmp_path / "note"
    queue = open_queue(str(path), "a", schema=SCHEMA)
    queue.append(pa.record_batch([[0] * 30], names=["n"]), sync=True)
    shutil.copy(max(path.glob("durable-*")), note)
    queue.append(pa.record_batch([[1] * 30], names=["n"]), sync=True)
    queue.close()
    shutil.copy(note, max(path.glob("durable-*")))
    assert read_queue(str(path)).read_all().num_rows == 30
    open_queue(str(path), "a").close()
    assert read_queue(str(path)).read_all().num_rows == 60
