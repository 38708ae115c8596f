"""A follower of commits: rows come with the commit, and what a commit repeats is not decoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cec_store import PartitionedQueue
from cec_store.errors import CorruptLog
from cec_store.format.by_reference.commits import Since
from cec_store.format.schema import RecordSchema
from cec_store.ledger import commit_objects
from cec_store.log.selection import Selection
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.following import Following
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.copies import in_memory
from support.stores.counting import CountingStore
from support.stores.needed import need

need("fsspec")
COLUMNS = pa.schema([("n", pa.int64())])
SCHEMA = RecordSchema(COLUMNS)


def writing(store: Store) -> PartitionedQueue:
    return PartitionedQueue(store, "a", SCHEMA, partitions=2, clock_us=lambda: 5)


def append(queue: PartitionedQueue, count: int) -> None:
    for number in range(count):
        queue.append(pa.table({"n": [number, number]}, schema=COLUMNS))


@pytest.fixture
def store() -> Store:
    return store_at(in_memory())


def followed(queue: ReferenceQueue, following: Following) -> list[int]:
    return [n for batch in following.available() for n in batch["n"].to_pylist()]


def test_rows_of_followed_commits_take_no_request_of_their_own(store: Store) -> None:
    writer, counting = writing(store), CountingStore(store)
    queue = ReferenceQueue(counting)
    following = Following(queue, Selection())
    append(writer, 1)
    assert followed(queue, following) == [0, 0]
    append(writer, 10)
    counting.calls.clear()
    assert followed(queue, following) == [n for n in range(10) for _ in range(2)]
    names = [name for kind, name in counting.calls if kind == "read"]
    assert names == [commit_object_name(n) for n in range(2, 13)]  # the last one is not there
    assert counting.counts() == {"read": 11}


def test_since_is_not_decoded_by_who_follows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writing(store)
    queue = ReferenceQueue(store)
    append(writer, 13)

    def decoded(*_: Any) -> Since:
        raise AssertionError("nobody asked what came since")

    monkeypatch.setattr(Since, "of", decoded)
    queue.refresh()
    monkeypatch.undo()
    assert (queue.state.number, queue.state.live.num_rows) == (13, 13)
    anew = ReferenceQueue(store)
    assert anew.state.salt == queue.state.salt
    assert anew.state.segments_of(0).drop(["added"]) == queue.state.segments_of(0).drop(["added"])


def test_a_damaged_since_is_refused_by_who_follows(store: Store) -> None:
    writer = writing(store)
    queue = ReferenceQueue(store)
    append(writer, 4)
    name = commit_object_name(4)
    data = bytearray(store.read(name))
    at = data.index(b"CECF", data.index(b"CECF") + 1)  # the header of the second frame
    data[at + 128 + 5] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])
    with pytest.raises(CorruptLog, match=name):
        queue.refresh()


def test_what_is_kept_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest commits go first; their rows are read again."""
    writer, counting = writing(store), CountingStore(store)
    queue = ReferenceQueue(counting)
    append(writer, 1)
    size = len(store.read(commit_object_name(1)))
    monkeypatch.setattr(commit_objects, "_KEPT_BYTES_MAX", 3 * size)
    append(writer, 9)
    following = Following(queue, Selection())
    assert sorted(followed(queue, following)) == sorted([0, 0, *(2 * [*range(9)])])
    reads = [name for kind, name in counting.calls if kind == "read"]
    again = {name for name in reads if reads.count(name) > 1}
    assert {commit_object_name(n) for n in range(1, 8)} <= again
    assert commit_object_name(10) not in again


def test_a_commit_that_does_not_follow_is_not_kept(store: Store) -> None:
    """Numbers are given again where a late writer's commit was taken back."""
    writer = writing(store)
    queue = ReferenceQueue(store)
    append(writer, 1)
    other = store_at(in_memory())
    append(writing(other), 1)
    name = commit_object_name(1)
    own = store.read(name)
    store.delete([name])
    store.create(name, [other.read(name)])
    with pytest.raises(CorruptLog):
        queue.refresh()
    store.delete([name])
    store.create(name, [own])
    queue.refresh()
    assert followed(queue, Following(queue, Selection())) == [0, 0]
