"""A queue of many partitions: tasks stage, a committer commits, readers see whole batches."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog, NotAQueue, ReadOnly, SchemaMismatch
from cec_store.format.commit import Staged
from cec_store.format.schema import RecordSchema
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.log.chain import Chain
from cec_store.log.options import QueueOptions
from cec_store.opening import open_queue, read_queue
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from cec_store.values import Position
from support.places import version_1
from support.places.partitioned_queues import QUERY, SCHEMA, contents, rows, stage
from support.places.version_1 import Committer


def test_a_batch_is_seen_once_committed(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    assert contents(path) == {0: []}
    staged = stage(committer, 0, {0: rows(0, 3), 2: rows(10, 2)})
    assert contents(path) == {0: []}
    assert committer.commit(QUERY, 0, staged)
    assert contents(path) == {0: [0, 1, 2], 1: [], 2: [10, 11]}
    assert not committer.commit(QUERY, 0, stage(committer, 0, {0: rows(50, 3)}))
    assert committer.commit(QUERY, 1, stage(committer, 1, {0: rows(3, 2)}))
    assert contents(path) == {0: [0, 1, 2, 3, 4], 1: [], 2: [10, 11]}
    assert not list((path / "staged").iterdir())
    assert len(list((path / "partition-00000").glob("*.seg"))) == 2, "one as it was made, one since"


def test_a_commit_that_a_crash_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    committer.commit(QUERY, 0, stage(committer, 0, {0: rows(0, 3), 1: rows(10, 3)}))
    staged = stage(committer, 1, {0: rows(3, 2), 1: rows(13, 2)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            committer.commit(QUERY, 1, staged)
    assert contents(path) == {0: [0, 1, 2], 1: [10, 11, 12]}, "seen before it is applied"
    other = Committer(LocalFolder(path), SCHEMA)
    assert not other.commit(QUERY, 1, stage(other, 1, {0: rows(90, 2)})), "committed twice"
    assert contents(path) == {0: [0, 1, 2, 3, 4], 1: [10, 11, 12, 13, 14]}


def test_a_queue_is_read_as_a_stream_of_arrow_batches(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    times = iter(range(1000, 10**6, 1000))
    committer = Committer(LocalFolder(path), SCHEMA, clock_us=lambda: next(times))
    for batch in range(3):
        committer.commit(
            QUERY,
            batch,
            stage(committer, batch, {0: rows(10 * batch, 2), 1: rows(10 * batch + 5, 2)}),
        )
    reader = read_queue(path)
    assert reader.schema == SCHEMA.data
    assert reader.read_all().column("n").to_pylist() == [0, 1, 10, 11, 20, 21, 5, 6, 15, 16, 25, 26]
    table = read_queue(path, include_metadata=True).read_all()
    assert table.column("_partition").to_pylist() == [0] * 6 + [1] * 6
    assert table.column("_offset").to_pylist() == list(range(6)) * 2
    moments = table.column("_timestamp").cast(pa.int64()).to_pylist()
    some = read_queue(path, moments[2], moments[4]).read_all()
    wanted = [
        n
        for n, at in zip(table.column("n").to_pylist(), moments, strict=True)
        if moments[2] <= at < moments[4]
    ]
    assert some.column("n").to_pylist() == wanted
    with pytest.raises(ValueError, match="give moments"):
        read_queue(path, Position(3))


def test_rows_of_a_time_are_found_in_every_partition_where_timestamps_go_backward(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trades"
    schema = RecordSchema(pa.schema([("n", pa.int64())]), timestamp_column="n")
    committer = Committer(LocalFolder(path), schema)
    parts = [{0: [5, 1, 9], 1: [7]}, {0: [6, 2], 1: [3, 5]}, {0: [5], 1: [8, 4]}]
    for batch, numbers in enumerate(parts):
        rows_of = {p: pa.record_batch({"n": pa.array(n)}) for p, n in numbers.items()}
        committer.commit(QUERY, batch, stage(committer, batch, rows_of))

    def read(*bounds: int | None, **options: int) -> list[int]:
        return read_queue(path, *bounds, **options).read_all()["n"].to_pylist()

    assert read(5, 8) == [5, 6, 5, 7, 5]
    assert read(None, 4) == [1, 2, 3]
    assert read(9) == [9]
    assert read(from_moment=6) == [9, 6, 2, 5, 7, 3, 5, 8, 4]
    assert read(5, 8, from_moment=6) == [6, 5, 7, 5]
    with pytest.raises(ValueError, match="give moments"):
        read_queue(path, from_moment=Position(3))


def test_what_is_committed_while_a_reader_reads_is_not_in_it(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA.data) as queue:
        queue.append(rows(0, 3), pa.array([5, 1, 5]), sync=True)
        reader = read_queue(tmp_path / "q", 5)
        queue.append(rows(3, 3), pa.array([5, 5, 9]), sync=True)
        assert reader.read_all()["n"].to_pylist() == [0, 2]
        assert read_queue(tmp_path / "q", 9).read_all()["n"].to_pylist() == [5]


def test_a_plain_queue_is_read_the_same_way(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA.data) as queue:
        queue.append(rows(0, 5), sync=True)
        assert read_queue(tmp_path / "q").read_all().column("n").to_pylist() == [0, 1, 2, 3, 4]
        assert read_queue(tmp_path / "q", Position(2)).read_all().num_rows == 3


def test_a_piece_that_is_not_what_the_task_wrote_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    committer.commit(QUERY, 0, stage(committer, 0, {0: rows(0, 3)}))
    (piece,) = stage(committer, 1, {0: rows(3, 200)})
    (file,) = (path / "staged").glob("*/*.seg")
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[700] ^= 1
    wounds: dict[str, tuple[bytes, Staged, str]] = {
        "gone": (b"", piece, "damage at byte 0"),
        "cut": (whole[:-200], piece, "goes on beyond"),
        "flipped": (bytes(damaged), piece, "damage at byte"),
        "other": (whole, replace(piece, records=199), "not the 1 with 199"),
    }
    before = snapshot(path / "partition-00000")
    for content, said, message in wounds.values():
        file.write_bytes(content)
        with pytest.raises(CorruptLog, match=message) as caught:
            committer.commit(QUERY, 1, [said])
        assert caught.value.path == str(file)
    file.write_bytes(whole)
    assert contents(path) == {0: [0, 1, 2]}
    assert snapshot(path / "partition-00000") == before
    assert committer.commit(QUERY, 1, [piece])
    assert contents(path) == {0: [0, 1, 2, *range(3, 203)]}


def snapshot(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(path.glob("*.seg"))][:1]


def files_of(path: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in path.iterdir() if f.is_file() and f.suffix != ".lock"}


def test_committers_of_several_processes_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    one, two = (Committer(LocalFolder(path), SCHEMA) for _ in range(2))
    queries = [QUERY, QUERY.replace("3d", "4e")]
    for batch in range(4):
        for committer, query in zip((one, two), queries, strict=True):
            first = 100 * batch + 50 * (committer is two)
            staged = stage(committer, batch, {0: rows(first, 2)}, query)
            assert committer.commit(query, batch, staged)
    assert contents(path)[0] == [n for b in range(8) for n in (50 * b, 50 * b + 1)]
    for query in queries:
        assert not one.commit(query, 3, stage(one, 3, {0: rows(0, 1)}, query))


def test_a_committer_waits_for_the_one_at_work(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    staged = stage(committer, 0, {0: rows(0, 1)})
    lock = LocalFolder(path / "commits").lock("writer.lock")
    timer = Timer(0.3, lock.close)
    timer.start()
    assert committer.commit(QUERY, 0, staged)
    timer.join()


def test_the_log_of_commits_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_1, "_COMMITS_BYTES", 4000)
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    for batch in range(40):
        committer.commit(QUERY, batch, stage(committer, batch, {0: rows(batch, 1)}))
    assert len(list((path / "commits").glob("*.seg"))) == 2
    assert contents(path)[0] == list(range(40))
    assert not Committer(LocalFolder(path), SCHEMA).commit(QUERY, 39, [])


def test_an_abandoned_batch_leaves_nothing_unless_it_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    stage(committer, 0, {0: rows(0, 1)})
    committer.abandon(QUERY, 0)
    assert not list((path / "staged").iterdir())
    staged = stage(committer, 0, {0: rows(0, 1)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            committer.commit(QUERY, 0, staged)
    committer.abandon(QUERY, 0)
    assert contents(path) == {0: [0]}
    assert not list((path / "staged").iterdir())


def test_partitions_that_lost_rows_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    for batch in range(3):
        committer.commit(QUERY, batch, stage(committer, batch, {0: rows(batch, 1)}))
    committer.close()
    shutil.rmtree(path / "partition-00000")
    empty = Committer(LocalFolder(tmp_path / "other"), SCHEMA)
    empty.close()
    shutil.copytree(tmp_path / "other" / "partition-00000", path / "partition-00000")
    with pytest.raises(CorruptLog, match="ends with record 0, of 2"):
        contents(path)
    with pytest.raises(CorruptLog, match="ends with record 0, of"):
        Committer(LocalFolder(path), SCHEMA).commit(QUERY, 3, [])


def test_what_is_in_the_way_is_refused(tmp_path: Path) -> None:
    with open_queue(tmp_path / "plain", "x", schema=SCHEMA.data):
        pass
    with pytest.raises(NotAQueue, match="a queue without partitions"):
        Committer(LocalFolder(tmp_path / "plain"), SCHEMA)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(NotAQueue, match="no queue, and not empty"):
        Committer(LocalFolder(tmp_path / "full"), SCHEMA)
    Committer(LocalFolder(tmp_path / "q"), SCHEMA)
    other = RecordSchema(SCHEMA.data, key_columns=("n",))
    with pytest.raises(SchemaMismatch, match="keyColumns n"):
        Committer(LocalFolder(tmp_path / "q"), other)
    with pytest.raises(NotAQueue):
        read_queue(tmp_path / "none")
    with pytest.raises(NotAQueue, match="read it by read_queue"):
        open_queue(tmp_path / "q")


def a_queue(path: Path, batches: int = 3) -> None:
    """Two partitions; a batch puts 300 rows into each."""
    committer = Committer(LocalFolder(path), SCHEMA)
    for batch in range(batches):
        parts = {0: rows(300 * batch, 300), 1: rows(10_000 + 300 * batch, 300)}
        committer.commit(QUERY, batch, stage(committer, batch, parts))
    committer.close()


def cut_last_rows(partition: Path) -> None:
    """Take the newest batch off a partition, and what was noted of it, as an older copy would."""
    chain = Chain(LocalFolder(partition))
    last = chain.last()
    assert last is not None
    file = partition / segment_name(last.address.segment_id)
    os.truncate(file, last.address.byte)
    for note in partition.glob("durable-*"):
        note.unlink()


def append_plainly(partition: Path, batch: pa.RecordBatch) -> None:
    """As a writer does that knows nothing of commits."""
    with OutputQueue(LocalFolder(partition), "a", options=QueueOptions()) as queue:
        queue.append(batch, sync=True)


def test_a_partition_cut_below_the_newest_commit_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    a_queue(path)
    cut_last_rows(path / "partition-00001")
    before = files_of(path / "partition-00001")
    with pytest.raises(CorruptLog, match="ends with record 600, of 900 that are committed"):
        contents(path)
    with pytest.raises(CorruptLog, match="partition-00001"):
        read_queue(path)
    assert verify_place(place_at(path)).faults
    with pytest.raises(CorruptLog):
        Committer(LocalFolder(path), SCHEMA).commit(QUERY, 3, [])
    assert files_of(path / "partition-00001") == before, "changed by a refusal"


def test_the_only_commit_of_a_cut_partition_is_damage_as_well(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    a_queue(path, batches=1)
    cut_last_rows(path / "partition-00000")
    with pytest.raises(CorruptLog, match="ends with record 0, of 300 that are committed"):
        contents(path)


def test_a_commit_that_is_still_staged_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    a_queue(path)
    committer = Committer(LocalFolder(path), SCHEMA)
    staged = stage(committer, 3, {0: rows(900, 5)})
    kept = tmp_path / "kept"
    shutil.copytree(path / "staged", kept)
    committer.commit(QUERY, 3, staged)
    committer.close()
    cut_last_rows(path / "partition-00000")
    with pytest.raises(CorruptLog, match="of 905"):
        contents(path)
    shutil.copytree(kept, path / "staged", dirs_exist_ok=True)
    assert {n: len(found) for n, found in contents(path).items()} == {0: 900, 1: 900}
    Committer(LocalFolder(path), SCHEMA).abandon("another query", 0)
    assert {n: len(found) for n, found in contents(path).items()} == {0: 905, 1: 900}


def test_rows_appended_to_a_partition_by_a_plain_writer_swallow_no_committed_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trades"
    a_queue(path)
    append_plainly(path / "partition-00000", rows(77_000, 10))
    with pytest.raises(CorruptLog, match="ends with record 910, and 900 are committed"):
        contents(path)
    committer = Committer(LocalFolder(path), SCHEMA)
    commits = Chain(LocalFolder(path / "commits")).end.offset
    before = files_of(path / "partition-00000")
    staged = stage(committer, 3, {0: rows(900, 10)})
    with pytest.raises(CorruptLog, match="and 900 are committed"):
        committer.commit(QUERY, 3, staged)
    assert Chain(LocalFolder(path / "commits")).end.offset == commits, "committed all the same"
    assert files_of(path / "partition-00000") == before, "changed by a refusal"
    kinds = {fault.kind for fault in verify_place(place_at(path)).faults}
    assert "commits-behind" in kinds


def test_rows_of_a_plain_writer_do_not_pass_for_those_of_an_unfinished_commit(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trades"
    a_queue(path)
    committer = Committer(LocalFolder(path), SCHEMA)
    staged = stage(committer, 3, {0: rows(900, 10)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            committer.commit(QUERY, 3, staged)
    append_plainly(path / "partition-00000", rows(77_000, 5))
    with pytest.raises(CorruptLog, match="somebody appended"):
        Committer(LocalFolder(path), SCHEMA).abandon("another query", 0)


@pytest.mark.parametrize("part", ["partition-00000", "commits"])
def test_no_part_of_a_queue_is_opened_for_append(tmp_path: Path, part: str) -> None:
    path = tmp_path / "trades"
    a_queue(path)
    (tmp_path / "link").symlink_to(path / part)
    before = files_of(path / part)
    for name in (path / part, tmp_path / "link"):
        with pytest.raises(ReadOnly, match="only commits append"):
            open_queue(name, "a")
    assert files_of(path / part) == before
    shutil.copytree(path / part, tmp_path / "partition-00000")
    with open_queue(tmp_path / "partition-00000", "a"):
        pass  # a copy is a queue of its own
