"""Tables appended by reference: in their partitions by key, all of an append or nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from cec_store.errors import NotAQueue, OutOfRange, SchemaMismatch
from cec_store.format.schema import RecordSchema
from cec_store.log.selection import Selection
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.spark_hash import partitions_of
from cec_store.storage.stores.store import Store
from support.places.layouts import LAYOUTS, put_into_objects
from support.stores.counting import CountingStore

COLUMNS = pa.schema([("carrier", pa.string()), ("n", pa.int64())])
KEYED = RecordSchema(COLUMNS, key_columns=("carrier",))
PLAIN = RecordSchema(COLUMNS)


At = Callable[[], Store]


def writer(at: At, schema: RecordSchema | None = KEYED, partitions: int = 5) -> PartitionedQueue:
    return PartitionedQueue(at(), "a", schema, partitions=partitions, clock_us=lambda: 7)


def table(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table([[f"c{n % 13}" for n in numbers], pa.array(numbers)], schema=COLUMNS)


def rows(at: At) -> dict[int, list[tuple[str, int]]]:
    queue = ReferenceQueue(at())
    return {
        number: [
            (row["carrier"], row["n"])
            for batch in queue.replay(number, Selection())
            for row in batch.to_pylist()
        ]
        for number in queue.ends()
    }


def test_rows_stand_in_the_partitions_of_their_keys_in_order(at: At) -> None:
    appending = writer(at)
    for start in (0, 100, 200):
        appending.append(table(start, 100))
    found = rows(at)
    assert sorted(n for part in found.values() for _, n in part) == list(range(300))
    for number, part in found.items():
        assert [n for _, n in part] == sorted(n for _, n in part)
        keys = pa.array([carrier for carrier, _ in part], pa.string())
        assert set(partitions_of([keys], 5).tolist()) <= {number}
    assert sum(map(bool, found.values())) > 2


def test_a_queue_without_keys_takes_each_append_into_one_partition(at: At) -> None:
    appending = writer(at, PLAIN, 3)
    for start in range(6):
        appending.append(table(start, 1))
    assert [[n for _, n in part] for part in rows(at).values()] == [[0, 3], [1, 4], [2, 5]]


def test_metadata_says_where_a_row_stands(at: At) -> None:
    writer(at, PLAIN, 2).append(table(0, 3))
    found = pa.Table.from_batches(ReferenceQueue(at()).replay(0, Selection(include_metadata=True)))
    assert found.column_names == [*COLUMNS.names, "_timestamp", "_kind", "_offset", "_partition"]
    assert found["_offset"].to_pylist() == [0, 1, 2]
    assert found["_partition"].to_pylist() == [0] * 3
    assert found["_timestamp"].cast(pa.int64()).to_pylist() == [7] * 3


def test_an_append_of_no_rows_commits_nothing(at: At) -> None:
    appending = writer(at)
    assert appending.append(table(0, 0)) == 0
    assert appending.append(table(0, 4)) == 1


def test_writers_at_the_same_time_each_have_all_of_their_rows(at: At) -> None:
    writer(at)

    def write(first: int) -> None:
        own = writer(at, None)
        for start in range(first, first + 100, 10):
            own.append(table(start, 10))

    threads = [threading.Thread(target=write, args=[1000 * n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter(n for part in rows(at).values() for _, n in part)
    assert found == Counter(n for first in range(0, 4000, 1000) for n in range(first, first + 100))


def test_a_queue_is_opened_with_its_own_columns_only(at: At) -> None:
    with pytest.raises(NotAQueue):
        writer(at, None)
    with pytest.raises(NotAQueue):
        ReferenceQueue(at())
    writer(at).append(table(0, 1))
    assert writer(at, None).schema.is_as(KEYED)
    for other in (PLAIN, RecordSchema(pa.schema([("n", pa.int64())]))):
        with pytest.raises(SchemaMismatch, match="the queue's columns are"):
            writer(at, other)
    with pytest.raises(SchemaMismatch):
        writer(at).append(pa.table({"n": [1]}))
    assert sum(map(len, rows(at).values())) == 1


def test_a_partition_that_is_not_there_is_out_of_range(at: At) -> None:
    writer(at)
    with pytest.raises(OutOfRange, match="there is no partition 5"):
        ReferenceQueue(at()).replay(5, Selection())


def test_a_reader_stays_where_it_was_until_it_looks_again(at: At) -> None:
    appending = writer(at, PLAIN, 1)
    appending.append(table(0, 2))
    queue = ReferenceQueue(at())
    appending.append(table(2, 2))
    assert queue.ends() == {0: 2}
    queue.refresh()
    assert queue.ends() == {0: 4}
    assert (queue.first(0), queue.offset_at(0, 7), queue.offset_at(0, 8)) == (0, 0, None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_append_asks_the_store_for_its_objects_and_one_commit(
    at: At, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle reader asks once.

    The commit before is proven once it is followed, on local disks before rows and before the
    commit as well; there a reader proves its own commit each time it looks.
    """
    if layout == "objects":
        put_into_objects(monkeypatch)
    counted = CountingStore(at())
    appending = PartitionedQueue(counted, "a", KEYED, partitions=5, clock_us=lambda: 7)
    reading = ReferenceQueue(counted)
    before = counted.counts()
    for start in range(8):
        appending.append(table(100 * start, 100))
    after = counted.counts()
    partitions = sum(map(bool, rows(at).values())) if layout == "objects" else 0
    proofs = 1 if not counted.appends else 2 if layout == "inline" else 3
    assert {name: after[name] - before.get(name, 0) for name in after} == {
        **dict.fromkeys(after, 0), "create": 8 * partitions + 8, "read": 8 * proofs,
    }  # fmt: skip
    reading.refresh()
    caught_up = counted.counts()
    reading.refresh()
    idle = counted.counts()
    proofs = int(counted.appends)
    assert caught_up["read"] - after["read"] == 9 + proofs
    assert {name: idle[name] - caught_up[name] for name in idle} == {
        **dict.fromkeys(idle, 0), "read": 1 + proofs,
    }  # fmt: skip
