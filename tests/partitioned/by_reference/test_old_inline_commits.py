"""Commits that hold rows which count are not deleted, and those around them go."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import PartitionedQueue, read_queue
from cec_store.errors import OutOfRange
from cec_store.format.by_reference import commits
from cec_store.format.schema import RecordSchema
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger import queue_state
from cec_store.ledger.ages import GRACE_US
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.sweeping import delete_commits, sweep_gone
from cec_store.partitioned.by_reference import reference_writer, upkeep
from cec_store.partitioned.by_reference.commit_search import CommitSearch
from cec_store.partitioned.by_reference.earlier import state_at
from cec_store.storage.names import (
    DATA_FOLDER,
    LOG_FOLDER,
    commit_number_of,
    commit_object_name,
)
from cec_store.storage.stores.by_url import store_at
from support.places.commits_in_memory import AgedObjects, made, row
from support.places.commits_in_memory import Clock as Uptime
from support.runs.counts import crash_count
from support.stores.clocked import ClockedStore

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]), key_columns=("n",))
EVERY = (4, 8, 32)
"""As `SINCE_EVERY`, so that few commits make a long history."""
PARTITIONS = 2


class World:
    """A queue, several who have it open, and the time by all clocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_us = 20_000 * GRACE_US
        self.made: dict[str, int] = {}
        self.store = ClockedStore(store_at(path), lambda: self.now_us, self.made)
        self.log = ReferenceLog(self.store)
        self.next = 0
        self.appended: list[int] = []

    def opened(self) -> PartitionedQueue:
        return PartitionedQueue(
            self.store, "a", SCHEMA, partitions=PARTITIONS, clock_us=lambda: self.now_us
        )

    def append(self, queue: PartitionedQueue) -> None:
        numbers = range(self.next, self.next + 3)
        self.next += 3
        queue.append(pa.table({"n": [*numbers]}))
        self.appended += numbers

    def rows(self) -> list[int]:
        return sorted(read_queue(self.path).read_all()["n"].to_pylist())

    def commits(self) -> list[int]:
        names = [path.name for path in (self.path / LOG_FOLDER).rglob("*.commit")]
        return sorted(number for name in names if (number := commit_number_of(name)) is not None)

    def objects(self) -> set[str]:
        """Names of those that are no commits."""
        below = (self.path / DATA_FOLDER).rglob("*.seg")
        return {str(path.relative_to(self.path)) for path in below}

    def inline(self, state: QueueState) -> set[int]:
        """Numbers of commits whose rows count."""
        names = [file.rpartition("/")[2] for file in state.live["file"].to_pylist()]
        return {number for name in names if (number := commit_number_of(name)) is not None}


@pytest.fixture(autouse=True)
def uptime(monkeypatch: pytest.MonkeyPatch) -> Uptime:
    monkeypatch.setattr(commits, "SINCE_EVERY", EVERY)
    monkeypatch.setattr(queue_state, "SINCE_EVERY", EVERY)
    monkeypatch.setattr(upkeep, "_EVERY", 10**9)  # nothing by itself
    uptime = Uptime()
    monkeypatch.setattr(queue_state, "uptime_us", uptime)
    return uptime


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A queue of 40 commits that hold rows."""
    world = World(tmp_path / "q")
    queue = world.opened()
    while queue.commit_number < 40:
        world.append(queue)
    return world


def merge_first(world: World, count: int) -> QueueState:
    """Put the rows of the first commits of each partition together."""
    queue = world.opened()
    state = queue._state
    for number in range(PARTITIONS):
        rows = state.segments_of(number)
        state, is_merged = queue._upkeep._merge_one(state, rows.slice(0, count), "merge-first")
        assert is_merged
    return state


def test_no_commit_goes_whose_rows_count(world: World) -> None:
    world.now_us += 2 * GRACE_US
    assert delete_commits(world.log, world.log.open()) == 32
    assert world.commits() == [*range(41)]
    assert world.rows() == world.appended


def test_commits_go_whose_rows_were_merged_before_the_last_that_says_all(world: World) -> None:
    merge_first(world, 16)
    queue = world.opened()
    while queue.commit_number < 66:
        world.append(queue)
    world.now_us += 2 * GRACE_US
    state = world.log.open()
    assert delete_commits(world.log, state) == 64
    kept = world.commits()
    assert {*kept} == {0, *world.inline(state), *range(64, 67)}
    assert kept[1] > 16, "the rows of all before are merged"
    assert world.rows() == world.appended
    found = verify_place(place_at(world.path), deep=True)
    assert found.is_sound, found.faults


def test_a_reader_that_began_before_a_merge_has_its_rows_for_a_day(world: World) -> None:
    """They were merged behind the last commit that says all: so their commits stay."""
    reading = read_queue(world.path)
    merge_first(world, 16)
    world.now_us += 2 * GRACE_US
    queue = world.opened()
    assert queue.clean() == []
    assert delete_commits(world.log, world.log.open()) == 32
    assert world.commits() == [*range(43)]
    assert sorted(reading.read_all()["n"].to_pylist()) == world.appended


def test_removed_rows_take_no_commit_with_them_that_is_needed(world: World) -> None:
    """Neither merging nor trimming deletes an object of `log/`."""
    queue = world.opened()
    merge_first(world, 40)
    queue.trim(before=queue.ends())
    world.now_us += 2 * GRACE_US
    queue.trim()
    queue.clean()
    assert world.commits() == [*range(44)]
    world.append(queue)
    assert world.rows() == world.appended[-3:]


def test_a_commit_that_is_left_alone_is_no_moment_to_go_back_to(world: World) -> None:
    merge_first(world, 16)
    queue = world.opened()
    while queue.commit_number < 66:
        world.append(queue)
    world.now_us += 2 * GRACE_US
    delete_commits(world.log, world.log.open())
    left = world.commits()[1]
    assert left - 1 not in world.commits()
    with pytest.raises(OutOfRange, match=f"commit {left} is deleted"):
        state_at(world.log, left)
    assert state_at(world.log, 65).number == 65


def test_positions_are_found_between_commits_that_are_left(world: World) -> None:
    ends = {number: world.log.at(number).commit.ends for number in range(41)}
    merge_first(world, 16)
    queue = world.opened()
    while queue.commit_number < 66:
        world.append(queue)
    world.now_us += 2 * GRACE_US
    delete_commits(world.log, world.log.open())
    state = world.log.open()
    for offsets in ends.values():
        search = CommitSearch(world.log)
        behind = search.behind(state, dict(enumerate(offsets)))
        reached = world.log.commit(behind.number).commit.ends
        assert all(end >= offset for end, offset in zip(reached, offsets, strict=True))
        assert world.log.has(behind.number, behind.salt, state.floor)
        first = search.first_beyond(state, dict(enumerate(offsets)))
        assert any(
            end > offset
            for end, offset in zip(world.log.commit(first).commit.ends, offsets, strict=True)
        )


@pytest.mark.parametrize("number", [0, 5, 20, 31])
def test_a_writer_that_slept_takes_no_number_between_those_that_are_left(
    world: World, uptime: Uptime, number: int
) -> None:
    slept = world.opened()
    slept._state = world.log.at(number)
    merge_first(world, 16)
    queue = world.opened()
    while queue.commit_number < 66:
        world.append(queue)
    world.now_us += 2 * GRACE_US
    delete_commits(world.log, world.log.open())
    before = world.commits()
    uptime.sleep(hours=50)
    world.append(slept)
    assert world.commits() == [*before, 67]
    assert world.rows() == world.appended


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(crash_count(6, 400)))
def test_whatever_is_done_the_rows_are_those_of_a_list(
    tmp_path: Path, uptime: Uptime, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Several append, merge, trim and clean up, sleep for days, and are cut off cleaning up."""
    chance = random.Random(seed)
    monkeypatch.setattr(upkeep, "_EVERY", 16)
    world = World(tmp_path / "q")
    queues = [world.opened() for _ in range(3)]
    starts = dict.fromkeys(range(PARTITIONS), 0)
    order: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}

    def append(queue: PartitionedQueue) -> None:
        is_inline = chance.random() < 0.8
        monkeypatch.setattr(reference_writer, "INLINE_BYTES_MAX", (1 << 18) if is_inline else -1)
        world.append(queue)
        for number in range(PARTITIONS):
            shown = queue.replay(number, include_metadata=True)
            rows = [n for part in shown for n in part["n"].to_pylist()]
            order[number] += [n for n in rows if n >= world.next - 3]

    for _ in range(150):
        queue = chance.choice(queues)
        what = chance.choice(["append"] * 8 + ["merge", "trim", "clean", "sleep", "reopen", "cut"])
        if what == "append":
            append(queue)
        elif what == "merge":
            queue.merge()
        elif what == "trim":
            queue.refresh()
            starts = queue.trim(before={p: end // 3 for p, end in queue.ends().items()})
        elif what == "clean":
            queue.clean()
        elif what == "sleep":
            uptime.sleep(hours=30)
            world.now_us += GRACE_US + GRACE_US // 4
        elif what == "reopen":
            queues[queues.index(queue)] = world.opened()
        else:
            cut_off_cleaning_up(world, chance)
        table = read_queue(world.path, include_metadata=True).read_all()
        shown = [*zip(table["_partition"].to_pylist(), table["n"].to_pylist(), strict=True)]
        assert shown == [(p, n) for p in order for n in order[p][starts[p] :]]
    found = verify_place(place_at(world.path))
    assert found.is_sound, found.faults
    world.now_us += 2 * GRACE_US
    state = world.log.open()
    delete_commits(world.log, state)
    assert len(world.commits()) <= len(world.inline(state)) + 3 * EVERY[-1]


def cut_off_cleaning_up(world: World, chance: random.Random) -> None:
    """Delete some of the commits that a clean-up would."""
    state = world.log.open()
    is_old = state.floor and world.log.made_us(state.floor) <= world.now_us - GRACE_US
    named = {*state.live["file"].to_pylist(), *state.gone["file"].to_pylist()}
    for number in range(1, state.floor if is_old else 0):
        name = commit_object_name(number)
        if name not in named and chance.random() < 0.3:
            world.store.delete([name])


def test_what_old_commits_took_away_goes_with_them(world: World) -> None:
    """Also where nobody has seen it go, who has the queue open now."""
    for count in (4, 2, 2):
        merge_first(world, count)
    queue = world.opened()
    while queue.commit_number < 66:
        world.append(queue)
    world.now_us += 2 * GRACE_US
    state = world.log.open()
    counted = {file for file in state.live["file"].to_pylist() if file.startswith(DATA_FOLDER)}
    assert len(counted) == PARTITIONS < len(world.objects())
    left = len(world.commits())
    while (done := delete_commits(world.log, state, most=5)) != 64:
        assert done == 0
        assert left - 5 <= (left := len(world.commits()))
        assert world.rows() == world.appended
    assert world.objects() == counted
    assert world.rows() == world.appended


def test_an_object_stays_for_the_grace_period_of_its_last_segment() -> None:
    """A task of Spark's writes segments of several partitions into one."""
    store, name = AgedObjects(), f"{DATA_FOLDER}/q/1/0-a.seg"
    for number, made_us in ((5, 0), (6, GRACE_US)):
        store.held[commit_object_name(number)] = b""
        store.made[commit_object_name(number)] = made_us
    store.held[name] = b""
    first = made(ReferenceLog(store))
    rows = [
        {**row(5, 0, 5, file=name), "removed_at": 5},
        {**row(6, 5, 6, file=name), "removed_at": 6},
    ]
    gone = pa.Table.from_pylist(rows, first.gone.schema)
    state = replace(first, number=6, live=first.live, gone=gone)
    store.now_us = GRACE_US + 1
    assert sweep_gone(ReferenceLog(store), state, 0) == 5
    assert name in store.held
    store.now_us = 2 * GRACE_US
    assert sweep_gone(ReferenceLog(store), state, 5) == 6
    assert name not in store.held
