"""A partition by reference is replayed as any log is: against a plain list of its rows."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.errors import OutOfRange
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import Operation, ReferenceObject
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import batch_after, making
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.replay import Replay
from cec_store.log.selection import Selection
from cec_store.partitioned.by_reference.partition_log import PartitionLog
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from cec_store.values import Position

SCHEMA = RecordSchema(
    pa.schema([("t", pa.timestamp("us")), ("n", pa.int64())]), timestamp_column="t"
)


class Queue:
    """One partition, of rows with any timestamps, which `appended` are numbered."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = LocalStore(folder)
        self.log = ReferenceLog(self.store)
        self.state = self.log.make(making(SCHEMA, 1, {}, 1))
        self.times: list[int] = []

    def made(self, batch: int, start: int, times: list[int]) -> dict[str, Any]:
        maker = SegmentMaker(SCHEMA, lambda: 5)
        numbers = pa.array(np.arange(start, start + len(times)))
        stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us"))
        maker.append(pa.record_batch([stamps, numbers], schema=SCHEMA.data))
        found = maker.finish(self.store, "q", batch, 0)
        assert found is not None
        return found

    def append(self, times: list[int]) -> None:
        batch = self.state.number + 1
        piece = self.made(batch, len(self.times), times)
        self.state = self.log.add(self.state, lambda s: batch_after(s, "q", batch, [piece], 9))
        self.times += times

    def merge(self, begin: int, count: int) -> None:
        """Neighbours become one segment of the same rows."""

        def merged(state: QueueState) -> ReferenceObject | None:
            rows = sorted(state.live.to_pylist(), key=lambda row: row["first_offset"])
            old = rows[begin : begin + count]
            if len(old) < 2:
                return None
            first = old[0]["first_offset"]
            records = sum(row["records"] for row in old)
            number = state.number + 1
            new = self.made(number, first, self.times[first : first + records])
            gone = [{**row, "removed": True} for row in old]
            for row in gone:
                del row["added"]
            segments = segments_of([{**new, "first_offset": first}, *gone])
            commit = replace(state.commit, operation=Operation.MERGE, schema=None)
            return ReferenceObject(number, state.log_id, commit, segments, 9)

        self.state = self.log.add(self.state, merged)

    def replay(self, state: QueueState | None = None, **selection: Any) -> Replay:
        log = PartitionLog(self.log, state or self.log.open(), SCHEMA, 0)
        return Replay(log, log, Selection(**selection))


def numbers(replay: Replay) -> list[int]:
    return [n for batch in replay for n in batch["n"].to_pylist()]


@given(data=st.data())
def test_a_replay_returns_the_rows_that_a_list_has(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queue = Queue(tmp_path_factory.mktemp("queue"))
    times = st.lists(st.integers(-50, 50), min_size=1, max_size=8)
    for _ in range(data.draw(st.integers(0, 9))):
        queue.append(data.draw(times))
        if data.draw(st.integers(0, 3)) == 0:
            queue.merge(data.draw(st.integers(0, 3)), data.draw(st.integers(2, 4)))
    rows = list(enumerate(queue.times))
    since, until = (data.draw(st.none() | st.integers(-60, 60)) for _ in range(2))
    assert numbers(queue.replay(since=since, until=until)) == [
        n for n, t in rows if (since is None or t >= since) and (until is None or t < until)
    ]
    start = data.draw(st.integers(0, len(rows)))
    assert numbers(queue.replay(since=Position(start))) == [n for n, _ in rows[start:]]
    moment = data.draw(st.integers(-60, 60))
    first = next((n for n, t in rows if t >= moment), len(rows))
    assert numbers(queue.replay(from_moment=moment)) == [n for n, _ in rows[first:]]


def test_offsets_and_timestamps_stand_beside_the_rows(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for begin in (0, 40, 20):
        queue.append([begin, begin + 1])
    found = queue.replay(include_metadata=True, columns=["n"]).read_all()
    assert found.column_names == ["n", "_timestamp", "_kind", "_offset"]
    assert found["_offset"].to_pylist() == found["n"].to_pylist() == list(range(6))
    assert found["_timestamp"].cast(pa.int64()).to_pylist() == [0, 1, 40, 41, 20, 21]


def test_an_empty_partition_has_one_batch_without_rows(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    (batch,) = queue.replay()
    assert (batch.num_rows, batch.schema) == (0, SCHEMA.data)
    with pytest.raises(OutOfRange, match="offset 5 is not in 0 … 0"):
        numbers(queue.replay(since=Position(5)))


def test_a_segment_without_a_wanted_row_is_not_read(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for begin in range(0, 100, 10):
        queue.append([begin, begin + 1])
    for entry in sorted((tmp_path / "data").rglob("*.seg")):
        if entry.parent.name != "4":
            entry.unlink()
    assert numbers(queue.replay(since=30, until=32)) == [6, 7]
    assert numbers(queue.replay(since=Position(6), until=Position(8))) == [6, 7]


def test_who_follows_misses_no_row_where_segments_are_merged(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.append([1, 2])
    replay = queue.replay(follow=True)
    found = next(replay)["n"].to_pylist()
    for round_ in range(12):
        queue.append([round_] * 3)
        queue.append([round_] * 2)
        queue.merge(0, 99)
        while len(found) < len(queue.times):
            found += next(replay)["n"].to_pylist()
    assert found == list(range(len(queue.times)))
    stopping = threading.Timer(0.2, replay.stop)
    stopping.start()
    assert list(replay) == []
