"""Opening a queue under awkward circumstances."""

from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import DiskFull, OutputQueue, QueueOptions, RecordSchema, open_queue
from cec_store.log.chain import Chain
from support.disks.memory_folder import MemoryFolder

SCHEMA = pa.schema({"v": pa.int64()})


def filled(segments: int = 1, rows: int = 100) -> MemoryFolder:
    folder = MemoryFolder()
    with open_queue(folder, "x", schema=SCHEMA) as queue:
        append(queue, segments, rows)
    return folder


def append(queue: OutputQueue, segments: int, rows: int = 100) -> None:
    for first in range(0, segments * rows, rows):
        queue.append(pa.record_batch([pa.array(range(first, first + rows))], schema=SCHEMA))
        queue.roll()


def values(queue: OutputQueue) -> list[int]:
    return [v for batch in queue.replay() for v in batch.column("v").to_pylist()]


def test_a_disk_too_full_for_the_copy_of_a_torn_tail_does_not_keep_a_queue_shut():
    folder = filled()
    newest = max(name for name in folder.files if name.endswith(".seg"))
    folder.files[newest].extend(b"half a frame")

    def no_room_for_copies(call: str, name: str) -> None:
        if call == "write" and name.endswith(".torn"):
            raise DiskFull(f"{name}: no space left")

    folder.before = no_room_for_copies
    with open_queue(folder, "a") as queue:
        assert queue.report.torn_bytes == len(b"half a frame")
        assert values(queue) == list(range(100))
    assert not [name for name in folder.files if name.endswith(".torn")]
    assert b"half a frame" not in folder.files[newest]


def test_reading_many_segments_keeps_one_of_them_in_memory():
    chain = Chain(filled(segments=20, rows=5_000))
    read = sum(chain.records(frame).num_rows for frame in chain.frames())
    assert read == 100_000
    held = [reader._buffer._data.size for reader in chain._readers.values()]
    assert len(held) > 20
    assert sum(size > 0 for size in held) <= 2


def test_a_newest_segment_that_is_trimmed_between_two_looks_is_looked_for_again():
    folder = MemoryFolder()
    with open_queue(folder, "x", schema=SCHEMA, options=QueueOptions(sync="none")) as queue:
        append(queue, 2)
        newest = f"{max(Chain(folder).segments):020d}.seg"
        seen = []

        def trimmed_first(call: str, name: str) -> None:
            if call == "read" and name == newest and not seen:
                seen.append(name)
                append(queue, 2)
                queue.trim(queue.end_offset)

        folder.before = trimmed_first
        chain = Chain(folder)
        assert seen
        assert newest not in folder.files
        assert chain.end.offset == 400


def test_columns_that_nothing_would_go_by_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
    described = RecordSchema(schema, timestamp_column="t", key_columns=("k",))
    for given, more in (
        (RecordSchema(schema), {"key_columns": ["k"], "partitions": 4}),
        (RecordSchema(schema), {"timestamp_column": "t"}),
        (described, {"key_columns": ["t"], "partitions": 4}),
        (None, {"key_columns": ["k"], "partitions": 4}),
        (None, {"timestamp_column": "t"}),
    ):
        with pytest.raises(ValueError, match="timestamp_column and key_columns"):
            open_queue(tmp_path / "q", "a", schema=given, **more)
        assert not (tmp_path / "q").exists()
    open_queue(
        tmp_path / "q", "a", schema=described, timestamp_column="t", key_columns=["k"], partitions=4
    ).close()
