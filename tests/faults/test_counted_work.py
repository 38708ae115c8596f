"""What is done is counted, not timed: bytes, opens, reads and looks for a given amount of work."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.errors import StorageError
from cec_store.format.commit import Commit, Staged
from cec_store.indexes import files
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.log import reader
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.partitioned import kept_writers
from cec_store.partitioned import partitions as partitions_room
from cec_store.partitioned.partitions import Partitions
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder
from support.disks.open_files import open_below
from support.paths import TESTS
from support.places.partitioned_queues import QUERY, SCHEMA, contents, rows, stage
from support.places.version_1 import Committer


def test_a_rebuild_decodes_no_column_that_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Aggregate(
        group_by=["k"], aggregates={"rows": ("count",)}, window=CountWindow(3),
        input_schema=pa.schema([("k", pa.int64()), ("t", pa.int64())]),
    )  # fmt: skip
    queue = open_queue(MemoryFolder({}), "a", schema=record_schema(operator))
    at = np.arange(2_000)
    table = pa.table({"k": at % 50, "t": at})
    Runner(operator, [ArrowSource(table, "t")], queue, step_rows_max=100).run()
    decoded: list[list[str]] = []
    decode_body = reader.decode_body

    def count(*given: Any) -> pa.RecordBatch:
        records = decode_body(*given)
        decoded.append(records.schema.names)
        return records

    monkeypatch.setattr(reader, "decode_body", count)
    assert queue.rebuild().open_windows
    assert decoded
    assert {name for names in decoded for name in names} == {"_kind", "_input_0", "_key", "_state"}
    assert len(queue.schema.arrow.names) == 7, "nothing to drop"
    queue.close()


class Counted(tuple[Staged, ...]):
    """Counts how many pieces are looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Staged]:
        for piece in super().__iter__():
            Counted.looked_at += 1
            yield piece

    def __reversed__(self) -> Iterator[Staged]:
        return iter(Counted(self[::-1]))


@pytest.mark.parametrize("partitions", [4, 32])
def test_a_commit_looks_at_each_piece_a_fixed_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    committer = Committer(LocalFolder(tmp_path / "trades"), SCHEMA)
    pieces = []
    for task in range(4):
        parts = {n: rows(10 * n + task, 1) for n in range(partitions)}
        pieces += stage(committer, 0, parts)
    following = Commit.following

    def counted(self: Commit, *arguments: Any, **more: Any) -> Commit:
        found = following(self, *arguments, **more)
        object.__setattr__(found, "staged", Counted(found.staged))
        return found

    monkeypatch.setattr(Commit, "following", counted)
    Counted.looked_at = 0
    committer.commit(QUERY, 0, pieces)
    committer.close()
    assert len(pieces) == 4 * partitions
    # Before, each partition looked at all pieces, and at all again for each of its own.
    assert 0 < Counted.looked_at <= 3 * len(pieces)


def descriptors(path: Path) -> int:
    gc.collect()
    return len(open_below(path))


def a_partitioned_queue(path: Path, partitions: int, batches: int = 2) -> Committer:
    committer = Committer(LocalFolder(path), SCHEMA, segment_bytes=600)
    for batch in range(batches):
        parts = {n: rows(100 * n + 2 * batch, 2) for n in range(partitions)}
        committer.commit(QUERY, batch, stage(committer, batch, parts))
    return committer


def test_a_committer_holds_no_more_files_open_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_writers, "_OPEN_MAX", 4)
    path = tmp_path / "trades"
    committer = a_partitioned_queue(path, 24, 4)
    # Before, one for each partition.
    assert descriptors(path) <= 5
    assert {n: len(found) for n, found in contents(path).items()} == dict.fromkeys(range(24), 8)
    committer.close()
    assert descriptors(path) <= 1
    assert not verify_place(place_at(path)).faults


def test_a_writer_that_rests_goes_on_only_with_its_own_file(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    file = folder.create("a.seg")
    file.write([b"one"])
    file.sync()
    file.rest()
    file.rest()
    file.write([b"two"])
    file.sync()
    assert folder.read("a.seg", 0, 10) == b"onetwo"
    file.rest()
    os.truncate(tmp_path / "a.seg", 3)
    with pytest.raises(StorageError, match="not as its writer left it"):
        file.write([b"three"])
    assert folder.read("a.seg", 0, 10) == b"one"
    file.close()


LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (320, 320))
from cec_store import read_queue
from faults.test_counted_work import a_partitioned_queue
path = Path(sys.argv[1])
a_partitioned_queue(path, 340, 2)
assert read_queue(path).read_all().num_rows == 1_360
"""


def test_more_partitions_than_descriptors_are_committed_and_read(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "trades"), str(TESTS)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]


def test_readers_of_many_partitions_hold_few_indexes_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trades"
    a_partitioned_queue(path, 12, 4).close()
    monkeypatch.setattr(partitions_room, "_QUEUES_OPEN_MAX", 3)
    with closing(Partitions(LocalFolder(path))) as queue:
        for number in queue.ends():
            queue.queue(number).position_at(0)
        held = descriptors(path)
        assert 0 < held <= 3
    assert descriptors(path) == 0
    for _ in range(10):
        assert read_queue(path, 0).read_all().num_rows == 96
    forgotten = Partitions(LocalFolder(path))
    forgotten.queue(0).position_at(0)
    del forgotten
    assert descriptors(path) == 0


def test_an_index_is_checksummed_once_and_not_at_every_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=pa.schema([("n", pa.int64())])) as queue:
        for number in range(300):
            queue.append(pa.record_batch({"n": [number]}), pa.array([number]))
        queue.sync()
        queue.position_at(0)
    monkeypatch.setattr(files, "_SETTLED_NS", 0)
    read, bytes_read = LocalFolder.read, 0

    def counted(self: LocalFolder, name: str, byte: int, size: int) -> bytes:
        nonlocal bytes_read
        data = read(self, name, byte, size)
        bytes_read += len(data) if name.endswith(".mdb") else 0
        return data

    monkeypatch.setattr(LocalFolder, "read", counted)
    (index,) = (path / "index").glob("*.mdb")
    for _ in range(5):
        with open_queue(path) as reader:
            assert reader.position_at(7).offset == 7
    assert bytes_read == index.stat().st_size, "before, five times as much"
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    with open_queue(path) as reader:
        assert reader.position_at(7).offset == 7
        assert reader._timestamp_index().problem, "believed an index that was changed"
