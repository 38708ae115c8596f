"""A queue of many partitions by its own door: opened, appended to once, refused by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store import PartitionedQueue, open_queue, read_queue
from cec_store.errors import (
    CorruptLog,
    DurabilityLost,
    NotAQueue,
    Poisoned,
    ReadOnly,
    SchemaMismatch,
    StorageError,
    StoreUnreachable,
)
from cec_store.format.schema import RecordSchema
from cec_store.ledger.ages import GRACE_US
from cec_store.partitioned.batches import BatchCommitter
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import folder_at
from cec_store.storage.stores.store import Store
from support.places.layouts import LAYOUTS, put_into_objects
from support.stores.clocked import ClockedStore
from support.stores.copies import contents, in_memory
from support.stores.counting import CountingStore


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the rows go."""
    if request.param == "objects":
        put_into_objects(monkeypatch)
    return str(request.param)


COLUMNS = pa.schema([("carrier", pa.string()), ("n", pa.int64())])


def table(*numbers: int) -> pa.Table:
    return pa.table([[f"c{n % 5}" for n in numbers], pa.array(numbers)], schema=COLUMNS)


def opened(path: Path, mode: Any = "a", **more: Any) -> PartitionedQueue:
    said = {"schema": COLUMNS, "partitions": 3, "key_columns": ["carrier"], **more}
    return open_queue(path, mode, **said)  # type: ignore[no-any-return]


def numbers(path: Path | str) -> list[int]:
    return sorted(read_queue(path).read_all()["n"].to_pylist())


def test_a_queue_is_made_appended_to_and_read_by_one_function_each(tmp_path: Path) -> None:
    with opened(tmp_path) as queue:
        assert queue.append(table(*range(10))) == 1
        assert sum(queue.ends().values()) == 10
        assert (queue.partitions, queue.commit_number, queue.mode) == (3, 1, "a")
    reading = open_queue(tmp_path)
    assert isinstance(reading, PartitionedQueue)
    found = [row["n"] for p in range(3) for batch in reading.replay(p) for row in batch.to_pylist()]
    assert sorted(found) == numbers(tmp_path) == list(range(10))


def test_a_version_is_appended_once_however_often_it_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, layout: str
) -> None:
    queue = opened(tmp_path)
    for _ in range(2):
        queue.append(table(1, 2), txn_app_id="loader", txn_version=7)
    opened(tmp_path).append(table(1, 2), txn_app_id="loader", txn_version=6)
    assert "not appended: the queue has its versions up to 7" in caplog.text
    queue.append(table(1), txn_app_id="another", txn_version=0)
    queue.append(table(), txn_app_id="loader", txn_version=8)
    queue.append(table(9), txn_app_id="loader", txn_version=8)
    assert numbers(tmp_path) == [1, 1, 2]
    staged = {str(path.relative_to(tmp_path)) for path in (tmp_path / "data").rglob("*.seg")}
    named = {*read_queue_files(tmp_path)}
    assert staged == (named if layout == "objects" else set()), "nothing is left of the others"
    with pytest.raises(ValueError, match="go together"):
        queue.append(table(1), txn_app_id="loader")


@pytest.mark.parametrize("version", [2**63, 1.5, True, -5, "7"])
def test_a_version_that_no_commit_can_say_is_refused(
    tmp_path: Path, version: Any, layout: str
) -> None:
    """It would be acknowledged, and no reader would open the queue any more."""
    queue = opened(tmp_path)
    with pytest.raises(ValueError, match="a whole number from 0 to 2\\^63 - 1"):
        queue.append(table(1), txn_app_id="loader", txn_version=version)
    for name in (5, "a/b", "_loader", "loader."):
        with pytest.raises(ValueError, match="not a writer's name"):
            queue.append(table(1), txn_app_id=name, txn_version=1)  # type: ignore[arg-type]
    queue.append(table(2), txn_app_id="loader", txn_version=2**63 - 1)
    assert numbers(tmp_path) == [2]


def read_queue_files(path: Path) -> list[str]:
    from cec_store.ledger.reference_log import ReferenceLog

    return ReferenceLog(store_at(path)).open().live.column("file").to_pylist()  # type: ignore[no-any-return]


class LosingStore(CountingStore):
    """One whose next commit is made, or not, without an answer."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.losing: bool | None = None
        """Whether the object is made all the same; ``None``: all is well."""

    def create(self, name: str, parts: Any) -> None:
        if name.endswith(".commit") and self.losing is not None:
            is_made, self.losing = self.losing, None
            if is_made:
                super().create(name, parts)
            raise StoreUnreachable(f"{name}: it is not known whether this object was made")
        super().create(name, parts)


@pytest.mark.parametrize("is_made", [True, False])
def test_an_append_without_an_answer_is_in_once_if_it_has_a_version(
    tmp_path: Path, is_made: bool, layout: str
) -> None:
    opened(tmp_path)
    store = LosingStore(store_at(tmp_path))
    queue = PartitionedQueue(store, "a", partitions=3, clock_us=lambda: 5)
    store.losing = is_made
    with pytest.raises(StoreUnreachable):
        queue.append(table(1, 2, 3), txn_app_id="loader", txn_version=0)
    queue.append(table(1, 2, 3), txn_app_id="loader", txn_version=0)
    assert numbers(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("is_made", [True, False])
def test_an_append_without_an_answer_and_version_is_the_last(
    tmp_path: Path, is_made: bool, layout: str
) -> None:
    opened(tmp_path)
    store = LosingStore(store_at(tmp_path))
    queue = PartitionedQueue(store, "a", partitions=3, clock_us=lambda: 5)
    store.losing = is_made
    with pytest.raises(StoreUnreachable):
        queue.append(table(1, 2, 3))
    with pytest.raises(Poisoned, match="open it again"):
        queue.append(table(1, 2, 3))
    assert numbers(tmp_path) == ([1, 2, 3] if is_made else [])
    opened(tmp_path).append(table(4))


class BreakingStore(CountingStore):
    """One whose next commit is made, and then something else goes wrong."""

    def __init__(self, store: Store, error: BaseException) -> None:
        super().__init__(store)
        self.error = error

    def create(self, name: str, parts: Any) -> None:
        super().create(name, parts)
        if name.endswith(".commit"):
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DurabilityLost("its name may go")])
@pytest.mark.parametrize("version", [None, 0])
def test_what_breaks_off_behind_a_commit_takes_no_object_that_it_names(
    tmp_path: Path, error: BaseException, version: int | None, layout: str
) -> None:
    opened(tmp_path)
    store = BreakingStore(store_at(tmp_path), error)
    queue = PartitionedQueue(store, "a", partitions=3, clock_us=lambda: 5)
    said: Any = {} if version is None else {"txn_app_id": "loader", "txn_version": version}
    with pytest.raises(type(error)):
        queue.append(table(1, 2, 3), **said)
    assert numbers(tmp_path) == [1, 2, 3]
    if version is None:
        with pytest.raises(Poisoned, match="open it again"):
            queue.append(table(1, 2, 3))
    else:
        queue.append(table(1, 2, 3), **said)
    assert numbers(tmp_path) == [1, 2, 3]


class SlowStore(ClockedStore):
    """Takes more than a day for an object."""

    now_us = 0

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda: self.now_us, {})

    def create(self, name: str, parts: Any) -> None:
        super().create(name, parts)
        self.now_us += GRACE_US + 1


def test_rows_that_were_written_too_long_ago_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their objects may have been deleted as rubbish."""
    put_into_objects(monkeypatch)
    opened(tmp_path)
    store = SlowStore(store_at(tmp_path))
    queue = PartitionedQueue(store, "a", partitions=3, clock_us=lambda: store.now_us)
    with pytest.raises(StorageError, match=r"hours ago by the store's clock.*write it again"):
        queue.append(table(1))
    assert numbers(tmp_path) == []


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotAQueue):
        open_queue(tmp_path / "none", "a", partitions=3)
    with pytest.raises(ValueError, match="partitions=0"):
        opened(tmp_path / "none", partitions=0)
    opened(tmp_path).append(table(1))
    with pytest.raises(FileExistsError):
        opened(tmp_path, "x")
    with pytest.raises(SchemaMismatch, match="has 3 partitions, not 4"):
        opened(tmp_path, partitions=4)
    with pytest.raises(SchemaMismatch, match="the queue's columns are"):
        opened(tmp_path, key_columns=["n"])
    with pytest.raises(ValueError, match="say partitions=3"):
        open_queue(tmp_path, "a")
    with pytest.raises(ValueError, match="say partitions"):
        open_queue(tmp_path / "plain", "a", schema=COLUMNS, key_columns=["n"])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="options"):
        opened(tmp_path, options=cec_store.QueueOptions())
    assert numbers(tmp_path) == [1]


@pytest.mark.parametrize("mode", ["a", "x"])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_no_queue_is_made_over_one_of_another_kind(kind: str, mode: str, tmp_path: Path) -> None:
    place = str(tmp_path / "q") if kind == "local" else in_memory()
    with open_queue(place, "a", schema=COLUMNS) as plain:
        plain.append(table(1))
    before = contents(store_at(place))
    with pytest.raises(NotAQueue, match="a queue without partitions is here; open it as such"):
        open_queue(place, mode, schema=COLUMNS, partitions=2)
    assert contents(store_at(place)) == before
    assert numbers(place) == [1]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_no_queue_is_made_between_other_files(kind: str, tmp_path: Path) -> None:
    place = str(tmp_path) if kind == "local" else in_memory()
    store_at(place).create("notes.txt", [b"mine"])
    with pytest.raises(NotAQueue, match=r"no queue, and not empty either: \['notes.txt'\]"):
        open_queue(place, "a", schema=COLUMNS, partitions=2)
    assert [*contents(store_at(place))] == ["notes.txt"]


@pytest.mark.parametrize("left", ["rows", "a consumer"])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_no_queue_is_made_over_rows_or_consumers_whose_commits_are_lost(
    kind: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    place = str(tmp_path / "q") if kind == "local" else in_memory()
    store = store_at(place)
    with open_queue(place, "a", schema=COLUMNS, partitions=2) as queue:
        if left == "rows":
            queue.append(table(1, 2, 3))
    if left == "a consumer":
        store.create("consumers/daily/00000000000000000000.ack", [b"?"])
    store.delete([name for name in contents(store) if name.startswith("log/")])
    before = contents(store)
    for mode in ("a", "x"):
        with pytest.raises(CorruptLog, match="the commit that made the queue is missing") as told:
            open_queue(place, mode, schema=COLUMNS, partitions=2)
        assert "restore log/ from a copy" in str(told.value)
        with pytest.raises(CorruptLog):
            BatchCommitter(folder_at(place), store, RecordSchema(COLUMNS))
    assert contents(store) == before != {}
    store.delete(list(before))
    open_queue(place, "x", schema=COLUMNS, partitions=2).close()
    assert numbers(place) == []


def test_a_queue_that_is_open_for_reading_changes_nothing(tmp_path: Path) -> None:
    opened(tmp_path).append(table(1))
    reading = open_queue(tmp_path)
    assert isinstance(reading, PartitionedQueue)
    before = Counter(path for path in tmp_path.rglob("*"))
    for change in (
        lambda: reading.append(table(2)),
        lambda: reading.set_retention("7d"),
        reading.merge,
        reading.trim,
        reading.clean,
    ):
        with pytest.raises(ReadOnly):
            change()
    assert Counter(path for path in tmp_path.rglob("*")) == before


def test_the_retention_stays_what_it_was_set_to(tmp_path: Path) -> None:
    opened(tmp_path, retention="7d")
    queue = opened(tmp_path)
    assert str(queue.retention) == "7d"
    queue.append(table(1))
    queue.set_retention("10GiB")
    queue.append(table(2))
    assert str(opened(tmp_path).retention) == "10GiB"
