"""Rows that tasks put into objects are those that a commit's readers get, or an error by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.errors import CorruptLog, SchemaMismatch, UnsupportedVersion
from cec_store.format.by_reference.segment_frames import ReferencedFrame, frames_of
from cec_store.format.schema import RecordSchema
from cec_store.ledger.reference_commits import batch_after, making
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker, read_segment
from cec_store.storage.stores.local_store import LocalStore

SCHEMA = RecordSchema(
    pa.schema([("t", pa.timestamp("us")), ("n", pa.int64()), ("text", pa.string())]),
    timestamp_column="t",
)


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    return pa.record_batch(
        [
            pa.array(numbers).cast(pa.timestamp("us")),
            pa.array(numbers),
            pa.array(map(str, numbers)),
        ],
        schema=SCHEMA.data,
    )


def staged(store: LocalStore, start: int, count: int, partition: int = 0) -> dict[str, Any]:
    maker = SegmentMaker(SCHEMA, lambda: 5)
    for at in range(start, start + count, 100):
        maker.append(rows(at, min(100, start + count - at)))
    found = maker.finish(store, "q", 0, partition)
    assert found is not None
    return found


def numbers_of(store: LocalStore, segment: dict[str, Any]) -> list[int]:
    return [
        n
        for part in read_segment(store.url, store.read, segment, SCHEMA)
        for n in part["n"].to_pylist()
    ]


def test_rows_of_tasks_become_visible_by_one_commit(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    log = ReferenceLog(store)
    state = log.make(making(SCHEMA, 3, {"retention": "7d"}, 1))
    for batch in range(6):
        pieces = [staged(store, 1000 * batch + 300 * p, 250, p) for p in (0, 2)]
        assert log.open().commit == state.commit, "what is staged is not seen"
        state = log.add(state, lambda s, b=batch, p=pieces: batch_after(s, "q", b, p, 9))
    found = log.open()
    assert found.commit.ends == (1500, 0, 1500)
    assert found.commit.settings == {"retention": "7d"}
    for partition in (0, 2):
        segments = [s for s in found.live.to_pylist() if s["partition"] == partition]
        segments.sort(key=lambda s: s["first_offset"])
        assert [s["first_offset"] for s in segments] == list(range(0, 1500, 250))
        assert [n for s in segments for n in numbers_of(store, s)] == [
            1000 * batch + 300 * partition + n for batch in range(6) for n in range(250)
        ]
        assert [(s["least_us"], s["greatest_us"]) for s in segments] == [
            (1000 * b + 300 * partition, 1000 * b + 300 * partition + 249) for b in range(6)
        ]


def test_a_batch_is_committed_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    log = ReferenceLog(store)
    log.make(making(SCHEMA, 1, {}, 1))
    piece = staged(store, 0, 10)
    late = log.open()
    first = log.add(log.open(), lambda s: batch_after(s, "q", 7, [piece], 9))
    again = log.add(late, lambda s: batch_after(s, "q", 7, [piece], 9))
    assert (first.number, again.number) == (1, 1)
    assert log.add(first, lambda s: batch_after(s, "q", 6, [piece], 9)).number == 1
    other = log.add(first, lambda s: batch_after(s, "other", 6, [staged(store, 0, 3)], 9))
    assert (other.number, other.commit.ends) == (2, (13,))


def test_a_partition_that_is_new_is_added(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    log = ReferenceLog(store)
    state = log.make(making(SCHEMA, 1, {}, 1))
    state = log.add(state, lambda s: batch_after(s, "q", 0, [staged(store, 0, 4, 2)], 9))
    assert (state.commit.starts, state.commit.ends) == ((0, 0, 0), (0, 0, 4))
    assert log.open().commit == state.commit


def test_columns_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    segment = {**staged(store, 0, 50_000), "first_offset": 70}
    (records,) = read_segment(store.url, store.read, segment, SCHEMA, ["n"])
    assert (records.num_rows, records.schema.names) == (50_000, ["n"])


def test_many_rows_at_once_are_cut_to_frames_that_fit_a_cache(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    maker = SegmentMaker(SCHEMA, lambda: 5)
    maker.append(rows(0, 600_000))
    found = maker.finish(store, "q", 0, 0)
    assert found is not None
    data = store.read(found["file"], found["byte"], found["bytes"])
    items = [*frames_of({**found, "first_offset": 0}, data)]
    frames = [item.header for item in items if isinstance(item, ReferencedFrame)]
    assert len(frames) == found["frames"] > 1
    assert all(header.raw_bytes <= 8 << 20 for header in frames)
    assert sum(header.raw_bytes for header in frames) > 16 << 20
    assert sum(header.record_count for header in frames) == 600_000


def test_a_task_without_rows_makes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "queue")
    maker = SegmentMaker(SCHEMA, lambda: 5)
    maker.append(rows(0, 0))
    assert maker.finish(store, "q", 0, 0) is None
    with pytest.raises(SchemaMismatch):
        maker.append(pa.record_batch({"n": [1]}))
    assert not (tmp_path / "queue").exists() or not list((tmp_path / "queue").rglob("*.seg"))


@settings(deadline=None, max_examples=60)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_segment_that_is_read_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flips")
    store = LocalStore(folder)
    segment = {**staged(store, 0, 300), "first_offset": 0}
    file = folder / segment["file"]
    data = bytearray(file.read_bytes())
    data[segment["byte"] + at % segment["bytes"]] ^= 1 << bit
    file.write_bytes(data)
    with pytest.raises((CorruptLog, UnsupportedVersion), match="seg"):
        numbers_of(store, segment)


def test_another_segment_does_not_pass_for_the_one_that_is_meant(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    one, two = ({**staged(store, at, 300), "first_offset": 0} for at in (0, 1000))
    (tmp_path / one["file"]).write_bytes((tmp_path / two["file"]).read_bytes())
    with pytest.raises(CorruptLog, match="belongs to another segment"):
        numbers_of(store, {**one, "bytes": two["bytes"]})
    with pytest.raises(CorruptLog, match="with 300 records, not those of the commit"):
        numbers_of(store, {**two, "records": 299})
    (tmp_path / two["file"]).unlink()
    with pytest.raises(CorruptLog, match="is missing"):
        numbers_of(store, two)
