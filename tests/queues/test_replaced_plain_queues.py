"""Queues of one partition that are removed, made anew or restored while they are open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Timer

import pyarrow as pa
import pytest

from cec_store import OutputQueue, Position, QueueOptions, open_queue, read_queue
from cec_store.errors import CecError, NotAQueue, QueueLocked, QueueReplaced
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.operators.inputs.sources import QueueSource
from cec_store.queues.consumers import Consumer
from support.models.replaced_queue import ReplacedQueue, refusals
from support.runs.counts import crash_count

SCHEMA = pa.schema([("n", pa.int64())])
OPTIONS = QueueOptions(segment_bytes=4096)


def opened(path: Path) -> OutputQueue:
    queue = open_queue(path, "a", schema=SCHEMA, options=OPTIONS)
    assert isinstance(queue, OutputQueue)
    return queue


def table(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(path: Path) -> list[int]:
    return [int(n) for n in read_queue(path).read_all()["n"].to_pylist()]


def files(path: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a queue but locks, by name."""
    found = [each for each in path.iterdir() if each.suffix != ".lock"] if path.exists() else []
    return {each.name: each.read_bytes() for each in found}


# -- ways to replace a queue -----------------------------------------------------------------------


def remove(path: Path) -> None:
    shutil.rmtree(path)


def rename_away(path: Path) -> None:
    path.rename(path.with_name(f"away-{os.urandom(4).hex()}"))


def make_anew(path: Path) -> None:
    shutil.rmtree(path)
    with opened(path) as queue:
        for n in (100, 101, 102):
            queue.append(table(n), sync=True)


def make_anew_shorter(path: Path) -> None:
    shutil.rmtree(path)
    opened(path).close()


def restore(path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(path.with_name("copy"), path)


def swap(path: Path) -> None:
    """Put the copy in place by two renames, so that the old files stay on disk elsewhere."""
    shutil.copytree(path.with_name("copy"), path.with_name("swapped"))
    rename_away(path)
    path.with_name("swapped").rename(path)


def restore_file_by_file(path: Path) -> None:
    """Rename each file of the copy into place, as rsync does."""
    copy = path.with_name("copy")
    for each in copy.iterdir():
        shutil.copy(each, path / ".arriving")
        (path / ".arriving").replace(path / each.name)
    delete_others(path, copy)


def overwrite(path: Path) -> None:
    """Write the copy's bytes into the files that are there, as `cp` and `rsync --inplace` do."""
    copy = path.with_name("copy")
    for each in copy.iterdir():
        shutil.copyfile(each, path / each.name)
    delete_others(path, copy)


def delete_others(path: Path, copy: Path) -> None:
    for each in path.iterdir():
        if not (copy / each.name).exists():
            each.unlink()


RESTORING = [restore, swap, restore_file_by_file, overwrite]
REPLACING = [remove, rename_away, make_anew, make_anew_shorter, *RESTORING]
Act = Callable[[], object]


def acts(path: Path, queue: OutputQueue) -> dict[str, Act]:
    """Return what those who have the queue open do next, by name."""
    reader = open_queue(path, "r")
    assert isinstance(reader, OutputQueue)
    end, position = queue.durable_offset, Position(1, 0, queue.chain().queue_id)
    consumer = reader.consumer("reader")
    other = reader.consumer("other")
    return {
        "append": lambda: queue.append(table(9), sync=True),
        "append without waiting": lambda: (queue.append(table(9)), queue.close()),
        "roll": queue.roll,
        "trim": lambda: queue.trim(before=end),
        "check": queue.check_writer,
        "acknowledge": lambda: consumer.acknowledge(received=end),
        "acknowledge less": lambda: consumer.acknowledge(effects_saved=1),
        "acknowledge again": lambda: other.acknowledge(received=position),
        "end": lambda: reader.durable_offset,
    }


ACTS = (
    "append", "append without waiting", "roll", "trim", "check", "acknowledge",
    "acknowledge less", "acknowledge again", "end",
)  # fmt: skip


@pytest.mark.parametrize("rolls", [0, 2])
@pytest.mark.parametrize("replace", REPLACING)
@pytest.mark.parametrize("name", ACTS)
def test_who_has_a_plain_queue_open_that_is_replaced_is_told_and_disturbs_nothing(
    tmp_path: Path, replace: Callable[[Path], None], name: str, rolls: int
) -> None:
    path = tmp_path / "q"
    queue = opened(path)
    queue.append(table(1, 2), sync=True)
    shutil.copytree(path, tmp_path / "copy")
    queue.append(table(3), sync=True)
    for n in range(rolls):
        queue.append(table(4 + n))
        queue.roll()
        queue.append(table(6 + n), sync=True)
    act = acts(path, queue)[name]
    replace(path)
    before = files(path)
    with pytest.raises(QueueReplaced):
        act()
    assert files(path) == before
    with suppress(QueueReplaced):
        queue.close()
    if replace in RESTORING:
        assert numbers(path) == [1, 2]
        with opened(path) as restored:
            restored.append(table(7), sync=True)
        assert numbers(path) == [1, 2, 7]
        assert verify_place(place_at(path)).faults == ()


@pytest.mark.parametrize("replace", REPLACING)
def test_a_replay_that_follows_is_told_that_its_queue_is_replaced(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    path = tmp_path / "q"
    with opened(path) as queue:
        queue.append(table(1, 2), sync=True)
        shutil.copytree(path, tmp_path / "copy")
        queue.append(table(3), sync=True)
    followed = open_queue(path, "r").replay(follow=True)
    assert [next(followed)["n"].to_pylist() for _ in range(2)] == [[1, 2], [3]]
    replace(path)
    if replace in RESTORING:
        with opened(path) as queue:  # the copy goes on, beyond where the reader was
            queue.append(table(7, 8, 9), sync=True)
    with pytest.raises(QueueReplaced):
        next(followed)


@pytest.mark.parametrize("rolls", [False, True], ids=["", "and rolls"])
@pytest.mark.parametrize("replace", RESTORING)
def test_what_is_acknowledged_after_an_equal_copy_is_put_in_place_is_read_there(
    tmp_path: Path, replace: Callable[[Path], None], rolls: bool
) -> None:
    """Manifest and segments are as the writer knows them, and its note is a file of its own."""
    path, expected = tmp_path / "q", [1, 2]
    queue = opened(path)
    queue.append(table(1, 2), sync=True)
    shutil.copytree(path, tmp_path / "copy")
    replace(path)
    with suppress(QueueReplaced):
        if rolls:
            queue.roll()
        queue.append(table(3), sync=True)
        expected.append(3)
    assert numbers(path) == expected
    with suppress(QueueReplaced):
        queue.close()
    assert numbers(path) == expected
    assert verify_place(place_at(path)).faults == ()


# -- at random -------------------------------------------------------------------------------------


class Model(ReplacedQueue):
    """Queues of one partition."""

    def open(self) -> OutputQueue:
        if not self.path.exists():
            self.rows = []
        return opened(self.path)

    def write(self, queue: OutputQueue) -> None:
        """Append a row, and remember it once it is acknowledged."""
        self.next += 1
        queue.append(table(self.next), sync=True)
        self.rows.append(self.next)
        if self.random.random() < 0.3:
            queue.roll()

    def replace(self) -> None:
        replace = self.random.choice([*REPLACING, *RESTORING])
        copy = self.path.with_name("copy")
        if replace in RESTORING:
            self.restore(copy)
        replace(self.path)
        if replace in RESTORING:
            shutil.rmtree(copy)
        else:
            self.rows = [100, 101, 102] if replace is make_anew else []

    def go_on(self) -> None:
        """Let another process append to the queue that is there now."""
        with suppress(QueueLocked), self.open() as queue:
            for _ in range(self.random.randint(1, 6)):
                self.write(queue)

    def check(self) -> None:
        try:
            found = numbers(self.path)
        except NotAQueue:
            assert self.rows == []
        else:
            assert found == self.rows
            assert verify_place(place_at(self.path)).faults == ()


class Follower:
    """Reads what is new, as an operator does whose input the queue is."""

    def __init__(self, model: Model) -> None:
        self.model = model
        reader = open_queue(model.path, "r")
        assert isinstance(reader, OutputQueue)
        self.source, self.rows = QueueSource(reader.chain), list[int]()
        self.replay = reader.replay(follow=True)
        self.replayed = list[int]()

    def read(self) -> None:
        for part in self.source.read(len(self.rows)):
            self.rows += part.batch["n"].to_pylist()
        assert self.rows == self.model.rows

    def follow(self) -> None:
        """Take rows until there are as many as in the queue; wait for an error otherwise."""
        late = Timer(0.1 if self.replayed == self.model.rows else 10, self.replay.stop)
        late.start()
        try:
            for batch in self.replay:
                self.replayed += batch["n"].to_pylist()
                if len(self.replayed) >= len(self.model.rows):
                    break
        finally:
            late.cancel()
        assert self.replayed == self.model.rows


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(crash_count(5, 100)))
def test_plain_queues_replaced_at_random_lose_nothing_unsaid(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    model = Model(tmp_path / "q", random)
    refused = 0
    for _ in range(4):
        writer = model.open()
        for _ in range(random.randint(1, 5)):
            model.write(writer)
        reader, follower = open_queue(model.path, "r"), Follower(model)
        assert isinstance(reader, OutputQueue)
        consumer = reader.consumer(f"reader-{random.random()}")
        model.copy()
        for _ in range(random.randint(0, 5)):
            model.write(writer)
        follower.read()
        follower.follow()
        model.replace()
        if random.random() < 0.5:
            model.go_on()

        def look(reader: OutputQueue = reader) -> None:
            assert reader.durable_offset == len(model.rows)

        def acknowledge(consumer: Consumer = consumer) -> None:
            consumer.acknowledge(received=1, effects_saved=1)
            assert consumer.name in [each.name for each in open_queue(model.path).consumers()]

        acts: list[Callable[[], object]] = [
            lambda w=writer: model.write(w),
            writer.roll,
            writer.trim,
            look,
            acknowledge,
            follower.read,
            follower.follow,
            model.check,
        ]
        refused += refusals(acts, random)
        with suppress(CecError):
            writer.close()
        consumer.close()
        model.check()
    assert refused
