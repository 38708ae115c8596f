"""A position names its queue: another queue, or an older copy, is told to every reader."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import OutOfRange, OutputQueue, Position, open_queue, read_queue
from cec_store.errors import QueueReplaced
from cec_store.log.chain import Chain
from cec_store.log.reader import ReplayedLog
from cec_store.log.replay import Replay
from cec_store.log.selection import Selection
from cec_store.opening import queue_at
from cec_store.operators import QueueSource
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.read_options import parse
from cec_store.partitioned.reading import StreamReader
from cec_store.storage.local import LocalFolder

SCHEMA = pa.schema([("n", pa.int64())])
REPLACED = "another one is here now|another queue stands here"


def append(queue: OutputQueue, first: int, count: int) -> None:
    queue.append(pa.record_batch({"n": list(range(first, first + count))}), sync=True)


def made(path: Path, first: int, count: int) -> None:
    with open_queue(path, "x", schema=SCHEMA) as queue:
        append(queue, first, count)


def numbers(table: pa.Table) -> list[int]:
    found: list[int] = table["n"].to_pylist()
    return found


def replaced(path: Path) -> None:
    """Another queue, with more rows, in place of the one that is there."""
    shutil.rmtree(path)
    made(path, 1000, 50)


def test_a_position_is_stored_with_its_queue_and_comes_back(tmp_path: Path) -> None:
    made(tmp_path / "q", 0, 5)
    queue = open_queue(tmp_path / "q")
    replay = queue.replay()
    next(replay)
    text = replay.cursor.to_json()
    assert text == f'{{"{queue.chain().queue_id}": {{"0": 5}}}}'
    assert Position.from_json(text) == replay.cursor == Position(5)
    assert Position.from_json(text).queue == replay.cursor.queue != ""
    for other in ("{}", "7", '{"a": 1}', '{"a": {"0": -1}}', '{"a": {"0": 1, "1": 2}}', "no"):
        with pytest.raises(ValueError, match="not a position"):
            Position.from_json(other)


@pytest.mark.parametrize("partitions", [None, 1])
def test_a_cursor_of_another_queue_is_refused(tmp_path: Path, partitions: int | None) -> None:
    path = tmp_path / "q"
    rows = pa.table({"n": list(range(20))})
    with open_queue(path, "x", schema=SCHEMA, partitions=partitions) as queue:
        queue.append(rows)
    log = log_of(path)
    cursor = Replay(log, log, Selection()).cursor
    assert (cursor, cursor.queue) == (Position(0), log.queue_id)
    shutil.rmtree(path)
    with open_queue(path, "x", schema=SCHEMA, partitions=partitions) as queue:
        queue.append(rows)
        queue.append(rows)
    for moment in ({"since": cursor}, {"until": cursor}, {"from_moment": cursor}):
        with pytest.raises(QueueReplaced, match=f"of queue {cursor.queue}, and another"):
            Replay(log_of(path), log_of(path), Selection(**moment))


def log_of(path: Path) -> ReplayedLog:
    """The only partition."""
    queue = queue_at(path)
    return queue.partition(0) if isinstance(queue, ReferenceQueue) else Chain(LocalFolder(path))


def test_a_position_beyond_an_older_copy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q"
    made(path, 0, 20)
    shutil.copytree(path, tmp_path / "copy")
    with open_queue(path, "a") as queue:
        append(queue, 20, 10)
    replay = open_queue(path).replay()
    replay.read_all()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    with pytest.raises(OutOfRange, match="offset 30 is not in 0 … 20: it is beyond the end"):
        read_queue(path, from_moment=replay.cursor).read_all()
    with pytest.raises(OutOfRange, match="offset 30 is not in 0 … 20: it is beyond the end"):
        list(QueueSource(open_queue(path).chain).read(30))


def test_readers_that_are_open_are_told_of_another_queue(tmp_path: Path) -> None:
    path = tmp_path / "q"
    made(path, 0, 5)
    queue = open_queue(path)
    source, chain = QueueSource(queue.chain), queue.chain()
    following = queue.replay(follow=True)
    assert next(following)["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert sum(batch.batch.num_rows for batch in source.read(0)) == 5
    replaced(path)
    with pytest.raises(QueueReplaced, match=REPLACED):
        next(following)
    for look in (chain.refresh, source.end, lambda: list(source.read(5))):
        with pytest.raises(QueueReplaced, match=REPLACED):
            look()


def test_acknowledging_and_trimming_refuse_positions_of_another_queue(tmp_path: Path) -> None:
    made(tmp_path / "a", 0, 5)
    made(tmp_path / "b", 0, 5)
    there = open_queue(tmp_path / "b").position_at(-(2**63))
    with open_queue(tmp_path / "a", "a") as queue:
        with pytest.raises(QueueReplaced, match=REPLACED):
            queue.consumer("me", start=there)
        with pytest.raises(QueueReplaced, match=REPLACED):
            queue.trim(there)
        here = queue.position_at(-(2**63))
        with queue.consumer("me", start=here) as consumer:
            with pytest.raises(QueueReplaced, match=REPLACED):
                consumer.acknowledge(effects_saved=there)
            consumer.acknowledge(effects_saved=Position(3, queue=here.queue))
            assert consumer.effects_saved == 3


def test_what_was_read_before_a_power_cut_is_no_loss_until_a_writer_shows_it(
    tmp_path: Path,
) -> None:
    """The last frame is on disk; what was noted of it was not synced."""
    path = tmp_path / "cut"
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        append(queue, 0, 20)
        [note] = (tmp_path / "q").glob("durable-*")
        older = note.read_bytes()
        append(queue, 20, 10)
        replay = open_queue(tmp_path / "q").replay()
        replay.read_all()
        shutil.copytree(tmp_path / "q", path)
    (path / note.name).write_bytes(older)
    chain = Chain(LocalFolder(path))
    assert chain.end.offset < replay.cursor.offset == chain.written_offset == 30
    assert open_queue(path).replay(from_moment=replay.cursor).read_all().num_rows == 0
    reader = StreamReader(parse({"path": str(path)}, is_stream=True))
    start = reader.reached()
    assert start.offsets[0] < 30
    start.offsets[0] = 30
    assert reader.next_end(start, takes_all=True) == start
    with open_queue(path, "a") as queue:
        append(queue, 30, 5)
    assert numbers(open_queue(path).replay(from_moment=replay.cursor).read_all()) == [
        30, 31, 32, 33, 34
    ]  # fmt: skip
    assert reader.next_end(start, takes_all=True).offsets == {0: 35}
