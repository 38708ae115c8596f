"""Queues that are removed, made anew or restored while open; commits that are lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cec_store import PartitionedQueue, open_queue, read_queue
from cec_store.errors import CecError, CorruptLog, NotAQueue, QueueReplaced
from cec_store.format.schema import RecordSchema
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger import reference_log
from cec_store.ledger.ages import GRACE_US
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import Range
from cec_store.partitioned.batches import BatchCommitter, write_segments
from cec_store.partitioned.by_reference.earlier import go_back
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.offsets import Positions
from cec_store.partitioned.read_options import parse
from cec_store.partitioned.reading import StreamReader
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import (
    COMMIT_MARK,
    LOG_FOLDER,
    commit_object_name,
)
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from support.models.replaced_queue import ReplacedQueue, refusals
from support.runs.counts import crash_count
from support.stores.clocked import ClockedStore
from support.stores.copies import in_memory

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))


def opened(store: Store, now_us: int = 1_000) -> PartitionedQueue:
    return PartitionedQueue(store, "a", SCHEMA, partitions=2, clock_us=lambda: now_us)


def table(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(path: Path | str) -> list[int]:
    return sorted(read_queue(path).read_all()["n"].to_pylist())


def files(path: Path) -> dict[str, bytes]:
    """Whatever is in a folder, by name."""
    found = [each for each in path.rglob("*") if each.is_file()]
    return {str(each.relative_to(path)): each.read_bytes() for each in found}


# -- under those who have it open ------------------------------------------------------------------


def remove(path: Path) -> None:
    shutil.rmtree(path)


def make_anew(path: Path) -> None:
    shutil.rmtree(path)
    with opened(LocalStore(path)) as queue:
        for n in (100, 101, 102):
            queue.append(table(n))


def make_anew_shorter(path: Path) -> None:
    shutil.rmtree(path)
    opened(LocalStore(path))


def restore(path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(path.with_name("copy"), path)


def restore_and_go_on(path: Path) -> None:
    restore(path)
    with opened(LocalStore(path)) as queue:
        for n in (200, 201):
            queue.append(table(n))


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


REPLACING = [remove, make_anew, make_anew_shorter, restore, restore_and_go_on]
Act = Callable[[], object]


def acts(path: Path) -> dict[str, Act]:
    """What those who have the queue open do next, by name."""
    store = LocalStore(path)
    queues = {name: opened(store) for name in ("append", "version", "settings", "clean", "trim")}
    consumer = opened(store).consumer("reader")
    committer = BatchCommitter(LocalFolder(path), store, SCHEMA)
    reader, follower = ReferenceQueue(store), open_queue(path, "r", partitions=2)
    assert isinstance(follower, PartitionedQueue)

    def commit() -> object:
        rows = [pa.record_batch({"n": [9]})]
        made = write_segments(store, SCHEMA, "q", 1, 0, rows, segment_bytes=1 << 20)
        return committer.commit("q", 1, made)

    return {
        "append": lambda: queues["append"].append(table(9)),
        "version": lambda: queues["version"].append(table(9), txn_app_id="app", txn_version=1),
        "settings": lambda: queues["settings"].set_retention("7d"),
        "clean": lambda: queues["clean"].clean(),
        "trim": lambda: queues["trim"].trim(before={0: 1, 1: 1}),
        "acknowledge": lambda: consumer.acknowledge(received={0: 1}),
        "commit": commit,
        "refresh": reader.refresh,
        "follow": follower.refresh,
    }


class RemoteLike(LocalStore):
    """A store that is asked less often whether its queue is still the same."""

    appends = False


@pytest.mark.parametrize("replace", [remove, make_anew, make_anew_shorter, rename])
@pytest.mark.parametrize("is_local", [True, False])
def test_a_follower_of_a_queue_that_goes_is_told(
    tmp_path: Path,
    replace: Callable[[Path], None],
    is_local: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "q"
    with opened(LocalStore(path)) as queue:
        queue.append(table(1, 2))
    store = LocalStore(path) if is_local else RemoteLike(path)
    following = PartitionedQueue(store, "r", clock_us=lambda: 0).replay(0, follow=True)
    assert next(following).num_rows
    monkeypatch.setattr(reference_log, "_PROVEN_FOR_S", 0)  # in a store once a minute
    replace(path)
    with pytest.raises(QueueReplaced, match="open the queue again"):
        next(following)


ACTS = (
    "append", "version", "settings", "clean", "trim", "acknowledge", "commit", "refresh", "follow",
)  # fmt: skip


@pytest.mark.parametrize("replace", REPLACING)
@pytest.mark.parametrize("name", ACTS)
def test_who_has_a_queue_open_that_is_replaced_is_told_and_disturbs_nothing(
    tmp_path: Path, replace: Callable[[Path], None], name: str
) -> None:
    path = tmp_path / "q"
    queue = opened(LocalStore(path))
    queue.append(table(1, 2))
    shutil.copytree(path, tmp_path / "copy")
    queue.append(table(3))
    act = acts(path)[name]
    replace(path)
    before = files(path)
    with pytest.raises(QueueReplaced, match="open the queue again"):
        act()
    after = files(path)
    if name == "commit":  # its tasks have written their rows; no commit names them
        after = {key: data for key, data in after.items() if not key.startswith("data/q/")}
    assert after == before
    if replace is not remove:
        assert verify_place(place_at(path)).faults == ()
    else:
        with pytest.raises(NotAQueue):
            numbers(path)


class ReplacedInBetween(LocalStore):
    """A queue that is replaced when a commit is about to be made, and once it is."""

    def __init__(self, path: Path, replace: Callable[[Path], None], is_before: bool) -> None:
        super().__init__(path)
        self._place = path
        self._replace: Callable[[Path], None] | None = replace
        self._is_before = is_before
        self.is_on = False

    def create(self, name: str, parts: Any) -> None:
        replace, self._replace = self._replace, None if self.is_on else self._replace
        is_now = self.is_on and replace is not None and name.endswith(".commit")
        if self.is_on and not is_now:
            self._replace = replace
        if is_now and self._is_before and replace is not None:
            replace(self._place)
        super().create(name, parts)
        if is_now and not self._is_before and replace is not None:
            replace(self._place)


@pytest.mark.parametrize("replace", REPLACING)
@pytest.mark.parametrize("is_before", [True, False])
def test_a_commit_that_comes_into_another_queue_is_taken_back(
    tmp_path: Path, replace: Callable[[Path], None], is_before: bool
) -> None:
    path = tmp_path / "q"
    store = ReplacedInBetween(path, replace, is_before)
    queue = opened(store)
    queue.append(table(1, 2))
    shutil.copytree(path, tmp_path / "copy")
    queue.append(table(3))
    store.is_on = True
    try:
        queue.append(table(9))
    except (QueueReplaced, FileExistsError):
        pass
    else:
        raise AssertionError("acknowledged")
    if replace is remove:
        assert not [name for name in files(path) if name.endswith(".commit")]
    else:
        assert 9 not in numbers(path)
        assert verify_place(place_at(path)).faults == ()


def test_a_queue_in_a_store_that_is_made_anew_is_not_written_to() -> None:
    url = in_memory()
    store = store_at(url)
    queue = opened(store)
    queue.append(table(1))
    store.delete([commit_object_name(n) for n in (0, 1)])
    with opened(store_at(url)) as other:
        other.append(table(100))
    with pytest.raises(QueueReplaced):
        queue.append(table(9))
    assert numbers(url) == [100]
    with pytest.raises(QueueReplaced):
        queue.append(table(9), txn_app_id="app", txn_version=1)


# -- positions -------------------------------------------------------------------------------------


def stream(path: Path | str, fail: str = "true", **more: str) -> StreamReader:
    given = {"path": str(path), "startingOffsets": "earliest", "failOnDataLoss": fail, **more}
    return StreamReader(parse(given, is_stream=True))


def kept(position: Positions) -> Positions:
    """Return it as it comes back from a checkpoint."""
    return Positions.of(json.loads(json.dumps(position.said())))


@pytest.mark.parametrize("limit", [None, "2", "6"])
def test_a_position_in_an_older_copy_that_has_grown_beyond_it_is_refused(
    tmp_path: Path, limit: str | None
) -> None:
    path = tmp_path / "q"
    queue = opened(LocalStore(path))
    for n in range(3):
        queue.append(table(n))
    shutil.copytree(path, tmp_path / "copy")
    for n in range(3, 8):
        queue.append(table(n))
    more = {} if limit is None else {"maxOffsetsPerTrigger": limit}
    reader = stream(path, **more)
    begin = reader.begin()
    end = kept(reader.next_end(begin, takes_all=limit is None))
    count = 8 if limit is None else int(limit)
    assert [each and each.number for each in (begin.behind, end.behind)] == [0, count]
    restore(path)
    with opened(LocalStore(path)) as queue:
        for n in range(20, 30):
            queue.append(table(n))
    if count <= 3:  # the copy has all that the position is behind
        assert stream(path).batch(begin, end)
        assert sum(stream(path).next_end(end, takes_all=True).offsets.values()) == 13
        return
    for look in (
        lambda: stream(path).next_end(end, takes_all=True),
        lambda: stream(path).batch(begin, end),
        lambda: stream(path).batch(end, end),
    ):
        with pytest.raises(QueueReplaced, match=r"has gone on otherwise.*failOnDataLoss=false"):
            look()
    goes_on = stream(path, fail="false")
    after = goes_on.next_end(end, takes_all=True)
    assert after.behind not in (None, end.behind)
    assert [each.stop for each in goes_on.batch(end, after)] == [7, 6]
    assert kept(after) == after


@pytest.mark.parametrize("partitions", [2, None])
def test_a_reader_goes_on_over_another_queue_where_loss_is_allowed(
    tmp_path: Path, partitions: int | None
) -> None:
    def write(path: Path, first: int, count: int) -> None:
        with open_queue(path, "a", schema=SCHEMA.data, partitions=partitions) as queue:
            queue.append(table(*range(first, first + count)))

    path = tmp_path / "q"
    write(path, 0, 20)
    readers = {fail: stream(path, fail) for fail in ("true", "false")}
    ends = {fail: each.next_end(each.begin(), takes_all=True) for fail, each in readers.items()}
    end, reader = ends["false"], readers["false"]
    path.rename(tmp_path / "away")
    assert reader.next_end(end, takes_all=True) == end == reader.next_end(end, takes_all=True)
    assert reader.reached().offsets == end.offsets
    assert reader.batch(end, end) == []
    with pytest.raises(QueueReplaced):
        readers["true"].next_end(end, takes_all=True)
    write(tmp_path / "new", 1000, 40)
    (tmp_path / "new").rename(path)
    after = reader.next_end(end, takes_all=True)
    assert reader.batch(end, after) == [Range(0, 0, 40)]
    assert after.queue != end.queue
    with pytest.raises(QueueReplaced):
        readers["true"].next_end(end, takes_all=True)
    shutil.rmtree(path)
    with open_queue(path, "a", schema=pa.schema([("m", pa.string())]), partitions=partitions):
        pass
    with pytest.raises(QueueReplaced):  # of other columns
        reader.next_end(after, takes_all=True)


def test_a_position_names_the_first_commit_with_all_of_its_records(tmp_path: Path) -> None:
    """A queue that was taken back to that commit, and went on otherwise, still fits."""
    path = tmp_path / "q"
    queue = opened(LocalStore(path))
    for n in range(40):
        queue.append(table(n))
        if n % 3 == 0:
            queue.set_retention(f"{n + 1}d")
    log = ReferenceLog(LocalStore(path))
    reader = stream(path, maxOffsetsPerTrigger="1")
    position = reader.begin()
    for _ in range(40):
        position = reader.next_end(position, takes_all=False)
        assert position.behind is not None
        number, ends = position.behind.number, position.offsets
        found = [dict(enumerate(log.commit(n).commit.ends)) for n in (number - 1, number)]
        assert all(found[1][n] >= ends[n] for n in ends)
        assert any(found[0][n] < ends[n] for n in ends)
        assert stream(path)._position(ends) == position  # whoever finds it
    go_back(LocalStore(path), 30, 1_000)
    before = stream(path, maxOffsetsPerTrigger="20")
    middle = before.next_end(before.begin(), takes_all=False)
    opened(LocalStore(path)).append(table(99))
    assert stream(path).next_end(kept(middle), takes_all=True) != middle


def test_a_reader_that_follows_asks_for_no_commit_twice(tmp_path: Path) -> None:
    path = tmp_path / "q"
    queue = opened(LocalStore(path))
    for n in range(20):
        queue.append(table(n))
    reader = stream(path)
    position = reader.next_end(reader.begin(), takes_all=True)
    reads = list[int]()
    log = reader.queue._log  # type: ignore[union-attr]
    commit = log.commit
    log.commit = lambda number: (reads.append(number), commit(number))[1]  # type: ignore[method-assign]
    for n in range(20):
        queue.append(table(n))
        position = reader.next_end(position, takes_all=True)
        newest = ReferenceLog(LocalStore(path)).open()
        assert position.behind == (newest.number, newest.salt)
    assert reads == []


@pytest.mark.parametrize("text", ["", "1", "1-2", "x-0000000000000000", "-1-0000000000000000"])
def test_a_checkpoint_with_half_of_a_commit_is_refused(text: str) -> None:
    with pytest.raises(CecError, match="is none of a queue"):
        Positions.of({"0" * 32: {"0": 1}, "behind": text})


# -- the newest commit -----------------------------------------------------------------------------


def lose(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    elsewhere = path.parents[3] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def link_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [lose, link, link_nowhere, make_fifo, make_folder])
@pytest.mark.parametrize("newest", [0, 1, 3, 4])
def test_a_newest_commit_that_is_lost_is_damage_by_name(
    tmp_path: Path, harm: Callable[[Path], None], newest: int
) -> None:
    path = tmp_path / "q"
    writer = opened(LocalStore(path))
    before = ReferenceQueue(LocalStore(path))
    for n in range(newest):
        if n == newest - 1:
            before = ReferenceQueue(LocalStore(path))
        writer.append(table(n))
    present = ReferenceQueue(LocalStore(path))
    name = commit_object_name(newest)
    harm(path / name)
    looks: list[Callable[[], object]] = [
        lambda: numbers(path),
        lambda: opened(LocalStore(path)),
        lambda: writer.append(table(9)),
        before.refresh,
        present.refresh,
    ]
    for look in looks:
        with pytest.raises(CorruptLog) as caught:
            look()
        assert caught.value.path == str(path / name)
    faults = verify_place(place_at(path)).faults
    assert [each for each in faults if each.path == str(path / name)], faults
    assert not (path / commit_object_name(newest + 1)).exists()


def test_a_commit_is_put_back_and_the_queue_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "q"
    writer = opened(LocalStore(path))
    for n in range(3):
        writer.append(table(n))
    kept = path / commit_object_name(3)
    kept.rename(tmp_path / "kept")
    with pytest.raises(CorruptLog, match="commit is missing"):
        numbers(path)
    (tmp_path / "kept").rename(kept)
    opened(LocalStore(path)).append(table(3))
    assert numbers(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("harm", [link, link_nowhere, make_fifo, make_folder])
def test_a_mark_that_is_no_file_is_refused_by_name(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "q" / LOG_FOLDER / COMMIT_MARK
    writer = opened(LocalStore(tmp_path / "q"))
    writer.append(table(1))
    path.parent.joinpath("x").mkdir()
    harm(path)
    for look in (lambda: numbers(tmp_path / "q"), lambda: writer.append(table(2))):
        with pytest.raises(CorruptLog, match="in the place of a file") as caught:
            look()
        assert caught.value.path == str(path)


def test_a_queue_without_a_mark_gets_one_with_the_next_commit(tmp_path: Path) -> None:
    path = tmp_path / "q"
    opened(LocalStore(path)).append(table(1))
    mark = path / LOG_FOLDER / COMMIT_MARK
    mark.unlink()
    (note,) = verify_place(place_at(path)).notes
    assert note.path == str(mark)
    opened(LocalStore(path)).append(table(2))
    assert numbers(path) == [1, 2]
    (path / commit_object_name(2)).unlink()
    with pytest.raises(CorruptLog, match="commit is missing"):
        numbers(path)


def test_after_going_back_the_mark_names_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "q"
    queue = opened(LocalStore(path))
    for n in range(6):
        queue.append(table(n))
    go_back(LocalStore(path), 3, 1_000)
    assert numbers(path) == [0, 1, 2]
    assert verify_place(place_at(path)).faults == ()
    opened(LocalStore(path)).append(table(7))
    assert numbers(path) == [0, 1, 2, 7]


def test_garbage_collection_leaves_what_a_lost_commit_may_have_named() -> None:
    url = in_memory()
    made: dict[str, int] = {}
    store = ClockedStore(store_at(url), lambda: 1_000, made)
    queue = opened(store)
    queue.append(table(1))
    queue.append(table(2))
    lost = store.read(commit_object_name(2))
    store.delete([commit_object_name(2)])
    assert numbers(url) == [1]  # no second place in a store
    later = ClockedStore(store_at(url), lambda: 1_001 + GRACE_US, made)
    assert opened(later).clean() == []
    store.create(commit_object_name(2), [lost])
    assert numbers(url) == [1, 2]


def test_a_commit_of_a_history_that_is_over_is_damage() -> None:
    url = in_memory()
    store = store_at(url)
    queue = opened(store)
    for n in range(3):
        queue.append(table(n))
    older = store.read(commit_object_name(2))
    go_back(store, 1, 1_000)
    queue = opened(store)
    for n in range(10, 12):
        queue.append(table(n))
    store.delete([commit_object_name(2)])
    store.create(commit_object_name(2), [older])
    with pytest.raises(CorruptLog, match="another commit"):
        numbers(url)


# -- files that are none ---------------------------------------------------------------------------


def test_a_segment_that_is_a_dangling_link_is_told_as_one(tmp_path: Path) -> None:
    path = tmp_path / "q"
    with open_queue(path, "a", schema=SCHEMA.data) as queue:
        queue.append(table(1))
    (segment,) = path.glob("*.seg")
    segment.unlink()
    segment.symlink_to("nowhere")
    for look in (lambda: place_at(path), lambda: read_queue(path).read_all()):
        with pytest.raises(CorruptLog, match="a symbolic link is in the place of a file"):
            look()


# -- at random -------------------------------------------------------------------------------------


class Model(ReplacedQueue):
    """Queues of two partitions."""

    def open(self) -> PartitionedQueue:
        if not self.path.exists():
            self.rows = []
        return opened(LocalStore(self.path))

    def replace(self) -> None:
        """Remove the queue, and put nothing, a new one or an older copy in its place."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.rows = []
        kind = self.random.choice(["remove", "anew", "restore"])
        if kind == "restore":
            self.restore()
        elif kind == "anew":
            self.write(self.open())

    def write(self, queue: PartitionedQueue) -> None:
        """Append a row, and remember it once it is acknowledged."""
        self.next += 1
        queue.append(table(self.next))
        self.rows.append(self.next)

    def check(self) -> None:
        try:
            found = numbers(self.path)
        except NotAQueue:
            assert self.rows == []
        else:
            assert found == sorted(self.rows)


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(crash_count(3, 100)))
def test_queues_replaced_at_random_lose_nothing_unsaid(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    model = Model(tmp_path / "q", random)
    refused = 0
    for _ in range(4):
        writer = model.open()
        for _ in range(random.randint(1, 5)):
            model.write(writer)
        reader, consumer = ReferenceQueue(LocalStore(model.path)), writer.consumer("reader")
        model.copy()
        for _ in range(random.randint(0, 5)):
            model.write(writer)
        model.replace()
        acts: list[Callable[[], object]] = [
            lambda w=writer: model.write(w),
            reader.refresh,
            lambda c=consumer: c.acknowledge(received={0: 1}, effects_saved={0: 1}),
            model.check,
        ]
        refused += refusals(acts, random)
        model.check()
    assert refused
