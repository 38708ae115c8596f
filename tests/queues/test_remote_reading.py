"""A plain queue, or one of partitions, in a store: what a local one gives, for few requests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import (
    CorruptLog,
    NotAQueue,
    OutputQueue,
    QueueOptions,
    ReadOnly,
    open_queue,
    read_queue,
    set_retention,
)
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store_folder import StoreFolder
from support.places import damaged_places as places
from support.stores.copies import contents, copy_into, in_memory
from support.stores.counting import CountingStore
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of

need("fsspec")
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("text", pa.string())])


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    texts = [f"{n * 7919 % 104729:09d}" * 5 for n in numbers]
    at = pa.array([1_000_000 * n for n in numbers], pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "n": list(numbers), "text": texts}, schema=SCHEMA)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand frames in some segments of a quarter of a MiB."""
    path = tmp_path_factory.mktemp("local") / "q"
    options = QueueOptions(sync="none", segment_bytes=1 << 18, compression_level=1)
    with open_queue(path, "x", schema=SCHEMA, timestamp_column="at", options=options) as queue:
        for number in range(1000):
            queue.append(rows(100 * number, 100))
    return path


def counted(path: Path) -> CountingStore:
    store = store_at(in_memory(path))
    return CountingStore(store)


def opened(store: CountingStore) -> OutputQueue:
    queue = open_queue(StoreFolder(store))
    assert isinstance(queue, OutputQueue)
    return queue


def test_a_copy_gives_the_same_rows(local: Path) -> None:
    expected = read_queue(local, include_metadata=True).read_all()
    url = in_memory(local)
    assert read_queue(url, include_metadata=True).read_all() == expected
    with open_queue(url) as queue:
        assert isinstance(queue, OutputQueue)
        assert queue.replay(include_metadata=True).read_all().num_rows == 100_000
        assert queue.durable_offset == 100_000
        assert queue.consumers() == []


def test_a_thousand_frames_cost_few_requests(local: Path) -> None:
    store = counted(local)
    with opened(store) as queue:
        assert queue.replay().read_all().num_rows == 100_000
    segments = sum(name.endswith(".seg") for name in contents(store.store))
    whole = sum(len(d) for n, d in contents(store.store).items() if n.endswith(".seg"))
    assert segments > 3
    assert len(store.calls) <= 30 + 2 * segments + whole // (1 << 20)


def test_a_position_is_found_without_reading_what_stands_before(local: Path) -> None:
    store = counted(local)
    with opened(store) as queue:
        store.calls.clear()
        found = queue.replay(since=queue.position_at(99_990 * 1_000_000)).read_all()
        first_search = len(store.calls)
        assert found["n"].to_pylist() == list(range(99_990, 100_000))
    with opened(store) as queue:
        store.calls.clear()
        position = queue.position_at(50_000 * 1_000_000)
        assert position.offset == 50_000
        # The index in the cache says where; it was made by the first search.
        assert len(store.calls) <= min(20, first_search)


def test_what_is_damaged_is_named_by_its_url(local: Path) -> None:
    url = in_memory(local)
    store = store_at(url)
    name = sorted(name for name in contents(store) if name.endswith(".seg"))[1]
    data = bytearray(store.read(name))
    data[len(data) // 2] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])
    with pytest.raises(CorruptLog, match=f"{url}/{name}: damage at byte"):
        read_queue(url).read_all()


def test_a_copy_that_lacks_a_segment_is_damaged(local: Path) -> None:
    url = in_memory(local)
    store = store_at(url)
    names = sorted(name for name in contents(store) if name.endswith(".seg"))
    for name in (names[0], names[-1]):
        data = store.read(name)
        store.delete([name])
        with pytest.raises(CorruptLog, match=f"{name}.*missing"):
            read_queue(url).read_all()
        store.create(name, [data])
    assert read_queue(url).read_all().num_rows == 100_000


def test_partitions_are_read_in_a_store(tmp_path: Path) -> None:
    path = places.partitioned(tmp_path / "p")
    expected = read_queue(path, include_metadata=True).read_all()
    url = in_memory(path)
    assert read_queue(url, include_metadata=True).read_all() == expected


def test_who_reads_on_sees_what_was_copied_since(local: Path, tmp_path: Path) -> None:
    """As by a copy of a queue that nobody writes to at the moment."""
    path = tmp_path / "q"
    shutil.copytree(local, path)
    url = in_memory(path)
    with open_queue(url) as queue:
        assert isinstance(queue, OutputQueue)
        assert queue.durable_offset == 100_000
        with open_queue(path, "a") as writer:
            writer.append(rows(100_000, 50), sync=True)
        store = store_at(url)
        store.delete(contents(store))
        copy_into(store, path)
        assert queue.durable_offset == 100_050
        assert queue.replay(since=queue.position_at(99_999 * 1_000_000)).read_all().num_rows == 51


def test_a_copy_is_not_changed_and_where_nothing_is_nothing_is_read(local: Path) -> None:
    url = in_memory()
    with pytest.raises(NotAQueue):
        open_queue(url)
    with pytest.raises(NotAQueue):
        read_queue(url)
    assert contents(store_at(url)) == {}
    url = in_memory(local)
    before = contents(store_at(url))
    for change in (
        lambda: open_queue(url, "a"),
        lambda: open_queue(url, "a", schema=SCHEMA, timestamp_column="at"),
        lambda: set_retention(url, "7d"),
        lambda: open_queue(url).consumer("x"),  # type: ignore[union-attr]
    ):
        with pytest.raises(ReadOnly, match=r"a store of objects has no|a copy of a queue of local"):
            change()
    assert contents(store_at(url)) == before


def test_a_real_s3_server_gives_the_same(local: Path, s3_address: str) -> None:
    url, options = f"s3://{BUCKET}/queues/plain", options_of(s3_address)
    copy_into(store_at(url, options), local)
    expected = read_queue(local, since=99_000 * 1_000_000).read_all()
    assert read_queue(url, since=99_000 * 1_000_000, storage_options=options).read_all() == expected
    with open_queue(url, storage_options=options) as queue:
        assert queue.position_at(77_000 * 1_000_000).offset == 77_000
