"""Merging, trimming and deleting: no row is lost or doubled, and no file is taken from a reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store import PartitionedQueue, Position, read_queue
from cec_store.errors import CorruptLog, OutOfRange, UnsupportedVersion
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.frame import SegmentFlags, decode_segment_header
from cec_store.format.schema import RecordSchema
from cec_store.ledger.ages import GRACE_US
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import RETENTION_SETTING, settings_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.stores.by_url import store_at
from support.places.damaged_queues import flip
from support.places.layouts import LAYOUTS, put_into_objects
from support.stores.clocked import ClockedStore

COLUMNS = pa.schema([("carrier", pa.string()), ("n", pa.int64())])
KEYED = RecordSchema(COLUMNS, key_columns=("carrier",))


class Clock:
    """Of all who write, and of the store."""

    now_us = 1_000

    def __init__(self) -> None:
        self.made: dict[str, int] = {}

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rows in data objects."""
    put_into_objects(monkeypatch)


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    """Where the rows go."""
    if request.param == "objects":
        request.getfixturevalue("objects")
    return str(request.param)


def opened(path: Path, clock: Clock) -> PartitionedQueue:
    store = ClockedStore(store_at(path), clock, clock.made)
    return PartitionedQueue(store, "a", KEYED, partitions=3, clock_us=clock)


def appended(queue: PartitionedQueue, start: int, appends: int, rows: int = 20) -> None:
    for first in range(start, start + appends * rows, rows):
        found = np.arange(first, first + rows)
        queue.append(pa.table([[f"c{n % 13}" for n in found], pa.array(found)], schema=COLUMNS))


def rows(path: Path) -> list[tuple[int, int, int]]:
    """Partition, offset and number of each row, in the queue's order."""
    found = read_queue(path, include_metadata=True).read_all()
    columns = (found[name].to_pylist() for name in ("_partition", "_offset", "n"))
    return list(zip(*columns, strict=True))


def segments(path: Path) -> int:
    return int(ReferenceLog(store_at(path)).open().live.num_rows)


def files(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in (path / "data").rglob("*.seg")}


def test_merged_segments_hold_the_same_rows_at_the_same_offsets(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 20)
    before, count = rows(tmp_path), segments(tmp_path)
    assert queue.merge() == count
    assert rows(tmp_path) == before
    assert segments(tmp_path) == 3
    live = ReferenceLog(store_at(tmp_path)).open().live
    merged = [tmp_path / name for name in live["file"].to_pylist()]
    heads = [decode_segment_header(path.read_bytes()) for path in merged]
    assert {head.flags for head in heads} == {SegmentFlags.COMPACTED}
    assert queue.merge() == 0
    appended(queue, 400, 20)
    queue.merge()
    assert rows(tmp_path)[: len(before)] != before  # more rows in each partition
    assert sorted(n for _, _, n in rows(tmp_path)) == list(range(800))


def test_a_reader_that_began_before_a_merge_gets_all_of_its_rows(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 10)
    reading = read_queue(tmp_path)
    queue.merge()
    queue.trim(before=queue.ends())
    clock.now_us += GRACE_US - 1
    queue.trim()
    queue.clean()
    assert sorted(reading.read_all()["n"].to_pylist()) == list(range(200))


def test_a_reader_slower_than_the_grace_period_goes_on_with_merged_segments(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 10)
    before = rows(tmp_path)
    reading = read_queue(tmp_path, include_metadata=True)
    found = [reading.read_next_batch()]
    for number in range(2):  # merged once more while it reads on
        appended(queue, 200 * (number + 1), 10)
        queue.merge()
        clock.now_us += GRACE_US
        queue.clean()
        found.append(reading.read_next_batch())
    table = pa.Table.from_batches([*found, *reading])
    columns = (table[name].to_pylist() for name in ("_partition", "_offset", "n"))
    assert list(zip(*columns, strict=True)) == before


def test_a_segment_that_is_still_named_and_missing_is_damage(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 3)
    reading = read_queue(tmp_path)
    appended(queue, 60, 1)
    for file in files(tmp_path):
        (tmp_path / file).unlink()
    with pytest.raises(CorruptLog, match="an object that a commit names is missing"):
        reading.read_all()


def test_a_reader_whose_rows_are_trimmed_and_deleted_is_told(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 10)
    reading = read_queue(tmp_path)
    queue.trim(before=queue.ends())
    clock.now_us += GRACE_US
    queue.clean()
    with pytest.raises(OutOfRange, match="it was trimmed while it was read"):
        reading.read_all()


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_removed_objects_go_after_the_grace_period(
    tmp_path: Path, clock: Clock, is_opened_again: bool, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 10)
    old = files(tmp_path)
    queue.merge()
    assert files(tmp_path) > old
    clock.now_us += GRACE_US - 1
    opened(tmp_path, clock).clean()
    queue.trim()
    assert files(tmp_path) > old
    clock.now_us += 1
    if is_opened_again:  # it has not seen them go, and reads what the commits say
        opened(tmp_path, clock).clean()
    else:
        queue.trim()
    assert len(files(tmp_path)) == 3
    assert not files(tmp_path) & old
    assert sorted(n for _, _, n in rows(tmp_path)) == list(range(200))


def test_of_two_merges_at_once_one_counts(tmp_path: Path, clock: Clock, layout: str) -> None:
    appended(opened(tmp_path, clock), 0, 10)
    before = rows(tmp_path)
    first, second = opened(tmp_path, clock), opened(tmp_path, clock)
    late = second._upkeep
    state = second._state
    from cec_store.partitioned.by_reference.merging import merges_of

    planned = list(merges_of(state))
    assert first.merge()
    for each in planned:
        state, is_merged = late._merge_one(state, each, "merge-late")
        assert not is_merged
    assert rows(tmp_path) == before
    assert not [name for name in files(tmp_path) if "merge-late" in name]


def test_of_two_appends_of_one_version_the_later_leaves_nothing(
    tmp_path: Path, clock: Clock, objects: None, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    first, second, add = opened(tmp_path, clock), opened(tmp_path, clock), ReferenceLog.add
    table = pa.table([["a", "b", "c"], [1, 2, 3]], schema=COLUMNS)

    def added(log: ReferenceLog, state: QueueState, commit: Any) -> QueueState:
        monkeypatch.setattr(ReferenceLog, "add", add)
        second.append(table, txn_app_id="loader", txn_version=1)
        return add(log, state, commit)

    monkeypatch.setattr(ReferenceLog, "add", added)
    first.append(table, txn_app_id="loader", txn_version=1)
    assert sorted(n for _, _, n in rows(tmp_path)) == [1, 2, 3]
    live = ReferenceLog(store_at(tmp_path)).open().live
    assert files(tmp_path) == set(live["file"].to_pylist())
    assert "version 1 of 'loader' is not appended" in caplog.text


def test_rubbish_of_dead_writers_goes_and_nothing_else(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 3)
    kept = files(tmp_path)
    maker = queue._writer
    makers = maker._makers(queue._state, pa.table([["a", "b"], [1, 2]], schema=COLUMNS))
    maker._finished(makers, queue._state, "append-dead", 1)
    stranger = tmp_path / "data" / "append-dead" / "1" / "notes.txt"
    stranger.write_text("not ours")
    assert queue.clean() == []
    # A commit within the day of the rows could name them, and be taken back within the next one.
    clock.now_us += GRACE_US + 1
    appended(queue, 200, 1)
    assert queue.clean() == []
    clock.now_us += GRACE_US
    appended(queue, 100, 1)
    young = files(tmp_path) - kept
    found = queue.clean()
    assert found
    assert all("append-dead" in name for name in found)
    assert files(tmp_path) == kept | {name for name in young if "append-dead" not in name}
    assert stranger.exists()
    assert len(rows(tmp_path)) == 100


def test_a_clean_up_leaves_objects_that_were_taken_away_just_now(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    """Made before the moment by which it goes, committed behind it, trimmed a day later."""
    queue = opened(tmp_path, clock)
    made = clock.now_us = 1_000_000_000
    appended(queue, 0, 1)
    before = files(tmp_path)
    committed = [name for name in clock.made if name.endswith(".commit")]
    clock.made.update(dict.fromkeys(committed[1:], made + 60000000))
    clock.now_us = made + GRACE_US + 30_000_000
    appended(queue, 100, 1)
    queue.trim(before=dict(opened(tmp_path, clock).ends()))
    assert queue.clean() == []
    assert before <= files(tmp_path)
    clock.now_us += GRACE_US + 1
    queue.trim()
    assert not before & files(tmp_path)


def test_a_trim_takes_whole_segments_below_an_offset(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 6)
    before = rows(tmp_path)
    middle = {number: end // 2 for number, end in queue.ends().items()}
    starts = queue.trim(before=middle)
    assert all(0 < starts[n] <= middle[n] for n in middle)
    assert rows(tmp_path) == [row for row in before if row[1] >= starts[row[0]]]
    assert queue.trim(before=middle) == starts
    with pytest.raises(OutOfRange, match="trim to"):
        queue.trim(before={0: queue.ends()[0] + 1})
    with pytest.raises(OutOfRange, match="no partition 9"):
        queue.trim(before={9: 0})
    with pytest.raises(OutOfRange):
        next(iter(queue.replay(0, since=Position(0))))


def test_retention_by_time_goes_by_when_rows_were_written(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    queue.set_retention("1h")
    appended(queue, 0, 10)
    clock.now_us += 3_000_000_000
    appended(queue, 200, 10)
    queue.merge()
    clock.now_us += 599_999_999
    assert sum(queue.trim().values()) == 0
    clock.now_us += 3_000_000_001
    # Merged with younger ones, the older ones stay as long as those.
    queue.trim()
    assert rows(tmp_path) == []
    assert queue.starts() == queue.ends()
    appended(queue, 400, 1)
    assert sorted(n for _, _, n in rows(tmp_path)) == list(range(400, 420))


def test_a_retention_of_a_later_release_deletes_nothing_and_stops_no_writer(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(tmp_path, clock)
    log = ReferenceLog(store_at(tmp_path))

    def later(now: QueueState) -> ReferenceObject:
        return settings_after(now, {RETENTION_SETTING: "full moons"}, clock())

    log.add(log.open(), later)
    appended(queue, 0, 70, rows=3)
    assert len(rows(tmp_path)) == 210
    assert "not kept small" in caplog.text
    with pytest.raises(UnsupportedVersion, match=r"retention 'full moons': upgrade cec-store"):
        queue.trim()
    assert sum(queue.starts().values()) == 0


def test_retention_by_size_keeps_the_newest_of_each_partition(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 12)
    state = ReferenceLog(store_at(tmp_path)).open()
    sizes = state.live.group_by("partition").aggregate([("bytes", "sum")])
    half = int(sizes["bytes_sum"].to_numpy().min()) // 2
    queue.trim(keep=half)
    after = ReferenceLog(store_at(tmp_path)).open().live.group_by("partition")
    left = after.aggregate([("bytes", "sum")])["bytes_sum"].to_numpy()
    assert (left >= half).all()
    assert (left < 2 * half).all()


def test_appends_keep_a_queue_small_by_themselves(
    tmp_path: Path, clock: Clock, layout: str
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 200, rows=3)
    assert segments(tmp_path) < 250  # of some 500 that were made
    assert sorted(n for _, _, n in rows(tmp_path)) == list(range(600))


def test_a_damaged_segment_is_not_merged_away(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 10)
    victim = tmp_path / sorted(files(tmp_path))[0]
    data = bytearray(victim.read_bytes())
    data[-200] ^= 1
    victim.write_bytes(data)
    with pytest.raises(CorruptLog, match=victim.name):
        queue.merge()
    appended(queue, 200, 60)  # an append looks after the queue, and says what it could not do
    assert "is not kept small" in caplog.text


def test_a_damaged_segment_keeps_no_other_from_being_merged(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    queue = opened(tmp_path, clock)
    appended(queue, 0, 40)
    first = ReferenceLog(store_at(tmp_path)).open().segments_of(0)["file"][0].as_py()
    flip(tmp_path / first, -1)
    appended(queue, 800, 30)  # the 64th commit among them
    live = ReferenceLog(store_at(tmp_path)).open()
    counts = [live.segments_of(number).num_rows for number in range(3)]
    assert counts[0] > 60 > 10 > max(counts[1:])


def test_who_opens_a_queue_anew_deletes_what_others_took_away(
    tmp_path: Path, clock: Clock, objects: None
) -> None:
    """A process for each batch, each of which only knows what is there."""
    removed: set[str] = set()
    for number in range(64):
        queue = opened(tmp_path, clock)
        appended(queue, 20 * number, 1)
        if number % 5 == 3:
            before = files(tmp_path)
            queue.merge()
            removed |= before - set(
                ReferenceLog(store_at(tmp_path)).open().live["file"].to_pylist()
            )
        clock.now_us += GRACE_US // 8
    before = rows(tmp_path)
    assert len(removed) > 100
    assert len(removed & files(tmp_path)) < len(removed) / 2
    clock.now_us += 2 * GRACE_US
    opened(tmp_path, clock).trim()
    assert not removed & files(tmp_path)
    assert rows(tmp_path) == before


def test_upkeep_of_a_model(tmp_path: Path, clock: Clock, layout: str) -> None:
    """Whatever is done in whatever order, the queue holds what a list would."""
    random = np.random.default_rng(7)
    queue = opened(tmp_path, clock)
    model: dict[int, list[int]] = {0: [], 1: [], 2: []}
    starts = dict.fromkeys(model, 0)
    next_number = 0
    for _ in range(120):
        clock.now_us += int(random.integers(0, GRACE_US // 4))
        what = random.choice(["append", "append", "append", "merge", "trim", "clean", "reopen"])
        if what == "append":
            before = queue.ends()
            appended(queue, next_number, 1, rows=7)
            next_number += 7
            for number, batch in ((p, b) for p in model for b in queue.replay(p)):
                fresh = [n for n in batch["n"].to_pylist() if n >= next_number - 7]
                model[number] += fresh
            assert sum(queue.ends().values()) == sum(before.values()) + 7
        elif what == "merge":
            queue.merge()
        elif what == "trim":
            starts = queue.trim(before={p: end // 3 for p, end in queue.ends().items()})
        elif what == "clean":
            queue.clean()
        else:
            queue = opened(tmp_path, clock)
        wanted = [
            (p, offset, n)
            for p, all_numbers in model.items()
            for offset, n in enumerate(all_numbers)
            if offset >= starts[p]
        ]
        assert rows(tmp_path) == wanted
