"""Tables appended by reference: in their partitions by key, all of an append or nothing."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store.errors import NotAQueue, OutOfRange, SchemaMismatch
from cec_store.format.schema import RecordSchema
from cec_store.log.selection import Selection
from cec_store.partitioned.reference_queue import PartitionedWriter, ReferenceQueue
from cec_store.partitioned.spark_hash import partitions_of
from cec_store.storage.stores.local_store import LocalStore

COLUMNS = pa.schema([("carrier", pa.string()), ("n", pa.int64())])
KEYED = RecordSchema(COLUMNS, key_columns=("carrier",))
PLAIN = RecordSchema(COLUMNS)


def writer(
    folder: Path, schema: RecordSchema | None = KEYED, partitions: int = 5
) -> PartitionedWriter:
    return PartitionedWriter(LocalStore(folder), schema, partitions=partitions, clock_us=lambda: 7)


def table(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table([[f"c{n % 13}" for n in numbers], pa.array(numbers)], schema=COLUMNS)


def rows(folder: Path) -> dict[int, list[tuple[str, int]]]:
    queue = ReferenceQueue(LocalStore(folder))
    return {
        number: [
            (row["carrier"], row["n"])
            for batch in queue.replay(number, Selection())
            for row in batch.to_pylist()
        ]
        for number in queue.ends()
    }


def test_rows_stand_in_the_partitions_of_their_keys_in_order(tmp_path: Path) -> None:
    appending = writer(tmp_path)
    for start in (0, 100, 200):
        appending.append(table(start, 100))
    found = rows(tmp_path)
    assert sorted(n for part in found.values() for _, n in part) == list(range(300))
    for number, part in found.items():
        assert [n for _, n in part] == sorted(n for _, n in part)
        keys = pa.array([carrier for carrier, _ in part], pa.string())
        assert set(partitions_of([keys], 5).tolist()) <= {number}
    assert sum(map(bool, found.values())) > 2


def test_a_queue_without_keys_takes_each_append_into_one_partition(tmp_path: Path) -> None:
    appending = writer(tmp_path, PLAIN, 3)
    for start in range(6):
        appending.append(table(start, 1))
    assert [[n for _, n in part] for part in rows(tmp_path).values()] == [[0, 3], [1, 4], [2, 5]]


def test_metadata_says_where_a_row_stands(tmp_path: Path) -> None:
    writer(tmp_path, PLAIN, 2).append(table(0, 3))
    found = pa.Table.from_batches(
        ReferenceQueue(LocalStore(tmp_path)).replay(0, Selection(include_metadata=True))
    )
    assert found.column_names == [*COLUMNS.names, "_timestamp", "_kind", "_offset", "_partition"]
    assert found["_offset"].to_pylist() == [0, 1, 2]
    assert found["_partition"].to_pylist() == [0] * 3
    assert found["_timestamp"].cast(pa.int64()).to_pylist() == [7] * 3


def test_an_append_of_no_rows_commits_nothing(tmp_path: Path) -> None:
    appending = writer(tmp_path)
    assert appending.append(table(0, 0)) == 0
    assert appending.append(table(0, 4)) == 1


def test_writers_at_the_same_time_each_have_all_of_their_rows(tmp_path: Path) -> None:
    writer(tmp_path)

    def write(first: int) -> None:
        own = writer(tmp_path, None)
        for start in range(first, first + 100, 10):
            own.append(table(start, 10))

    threads = [threading.Thread(target=write, args=[1000 * n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter(n for part in rows(tmp_path).values() for _, n in part)
    assert found == Counter(n for first in range(0, 4000, 1000) for n in range(first, first + 100))


def test_a_queue_is_opened_with_its_own_columns_only(tmp_path: Path) -> None:
    with pytest.raises(NotAQueue):
        writer(tmp_path, None)
    with pytest.raises(NotAQueue):
        ReferenceQueue(LocalStore(tmp_path))
    writer(tmp_path).append(table(0, 1))
    assert writer(tmp_path, None).schema.is_as(KEYED)
    for other in (PLAIN, RecordSchema(pa.schema([("n", pa.int64())]))):
        with pytest.raises(SchemaMismatch, match="the queue's columns are"):
            writer(tmp_path, other)
    with pytest.raises(SchemaMismatch):
        writer(tmp_path).append(pa.table({"n": [1]}))
    assert sum(map(len, rows(tmp_path).values())) == 1


def test_a_partition_that_is_not_there_is_out_of_range(tmp_path: Path) -> None:
    writer(tmp_path)
    with pytest.raises(OutOfRange, match="there is no partition 5"):
        ReferenceQueue(LocalStore(tmp_path)).replay(5, Selection())


def test_a_reader_stays_where_it_was_until_it_looks_again(tmp_path: Path) -> None:
    appending = writer(tmp_path, PLAIN, 1)
    appending.append(table(0, 2))
    queue = ReferenceQueue(LocalStore(tmp_path))
    appending.append(table(2, 2))
    assert queue.ends() == {0: 2}
    queue.refresh()
    assert queue.ends() == {0: 4}
    assert (queue.first(0), queue.offset_at(0, 7), queue.offset_at(0, 8)) == (0, 0, None)
