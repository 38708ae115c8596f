"""Commits before one that says all there is are deleted, and nobody loses a row by it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cec_store.errors import OutOfRange
from cec_store.inspector.verifying.reference_commits import CommitChecks
from cec_store.ledger import ages, queue_state
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.sweeping import delete_commits
from cec_store.log.positions import Behind
from cec_store.partitioned.by_reference.commit_search import CommitSearch
from cec_store.partitioned.by_reference.earlier import state_at
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.local_store import LocalStore
from support.places.commits_in_memory import (
    COMMITS,
    FLOOR,
    AgedObjects,
    Clock,
    appended,
    held,
    long_history,
    write_old,
)
from support.runs.counts import crash_count

DAY_US = ages.GRACE_US


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(queue_state, "uptime_us", clock)
    return clock


@pytest.fixture(scope="module")
def history() -> tuple[dict[str, bytes], dict[int, QueueState]]:
    return long_history()


@pytest.fixture
def store(history: tuple[dict[str, bytes], Any]) -> AgedObjects:
    return AgedObjects(history[0])


def seen_at(history: tuple[Any, dict[int, QueueState]], number: int) -> QueueState:
    """The state after this commit, as seen just now."""
    state = history[1][number]
    state.look.renew()
    return state


def deleted(store: AgedObjects) -> ReferenceLog:
    """Delete the old commits, a day and more after they were made."""
    store.now_us = 2 * DAY_US
    log = ReferenceLog(store)
    assert delete_commits(log, log.open()) == FLOOR
    assert store.numbers() == [0, *range(FLOOR, COMMITS + 1)]
    return log


def test_a_queue_is_opened_as_before_and_by_as_few_requests(
    store: AgedObjects, history: Any
) -> None:
    log = deleted(store)
    store.calls.clear()
    opened = log.open()
    assert len(store.calls) <= 8
    assert held(opened) == held(history[1][COMMITS])
    assert held(log.add(opened, appended))[:-1] != []


def test_what_says_all_has_to_be_a_day_old(store: AgedObjects) -> None:
    store.now_us = DAY_US - 1
    log = ReferenceLog(store)
    assert delete_commits(log, log.open()) == 0
    assert store.numbers() == [*range(COMMITS + 1)]


def test_where_all_does_not_fit_into_a_frame_nothing_is_deleted(store: AgedObjects) -> None:
    store.now_us = 2 * DAY_US
    log = ReferenceLog(store)
    silent = replace(log.commit(FLOOR), since=None)
    store.held[commit_object_name(FLOOR)] = b"".join(silent.encode())
    assert delete_commits(log, log.open()) == FLOOR
    assert store.numbers() == [*range(COMMITS + 1)]
    assert log.open().live.num_rows == COMMITS


@pytest.mark.parametrize("number", [0, 100, FLOOR - 1, FLOOR, COMMITS - 1])
def test_a_reader_that_slept_goes_on(
    store: AgedObjects, history: Any, clock: Clock, number: int
) -> None:
    before = seen_at(history, number)
    log = deleted(store)
    clock.sleep(hours=30)
    after = log.refresh(before)
    assert (after.number, held(after)) == (COMMITS, held(history[1][COMMITS]))


@pytest.mark.parametrize("number", [0, 100, FLOOR - 1])
def test_a_writer_that_slept_takes_no_number_that_was_deleted(
    store: AgedObjects, history: Any, clock: Clock, number: int
) -> None:
    before = seen_at(history, number)
    log = deleted(store)
    clock.sleep(hours=30)
    after = log.add(before, appended)
    assert after.number == COMMITS + 1
    assert store.numbers() == [0, *range(FLOOR, COMMITS + 2)]
    assert log.open().live.num_rows == COMMITS + 1


@pytest.mark.parametrize("number", [0, 100, FLOOR - 1])
def test_a_writer_that_sleeps_before_it_creates_takes_its_commit_back(
    store: AgedObjects, history: Any, clock: Clock, number: int
) -> None:
    before = seen_at(history, number)
    log = deleted(store)
    naps = [30.0]
    store.before_create = lambda: clock.sleep(naps.pop() if naps else 0)
    after = log.add(before, appended)
    assert after.number == COMMITS + 1
    assert store.numbers() == [0, *range(FLOOR, COMMITS + 2)]


def test_a_position_behind_a_deleted_commit_fits(store: AgedObjects, history: Any) -> None:
    log = deleted(store)
    newest = log.open()
    assert log.has(100, history[1][100].salt, newest.floor)
    assert not log.has(100, history[1][100].salt)
    assert log.has(FLOOR, history[1][FLOOR].salt, newest.floor)
    assert not log.has(FLOOR, 1, newest.floor)
    assert not log.has(COMMITS + 1, 1, newest.floor)


@pytest.mark.parametrize("number", [0, 1, 100, FLOOR - 1, FLOOR, COMMITS])
def test_a_position_is_behind_a_commit_that_is_left(
    store: AgedObjects, history: Any, number: int
) -> None:
    log = deleted(store)
    ends = number * (number + 1) // 2
    behind = CommitSearch(log).behind(log.open(), {0: ends})
    expected = max(number, FLOOR)
    assert behind == Behind(expected, history[1][expected].salt)


@pytest.mark.parametrize("number", [0, 1, 100, FLOOR - 1, FLOOR, COMMITS - 1, COMMITS])
def test_what_deleted_commits_added_comes_in_one_step(
    store: AgedObjects, history: Any, number: int
) -> None:
    log = deleted(store)
    search, state = CommitSearch(log), log.open()
    ends = {n: n * (n + 1) // 2 for n in (number, FLOOR, COMMITS)}
    first = search.first_beyond(state, {0: ends[number]})
    assert first == max(number + 1, FLOOR)
    assert search.ends(state, 100) is None
    if first <= COMMITS:
        (end,) = search.ends(state, first) or ()
        assert end == first * (first + 1) // 2


def test_a_deleted_commit_is_no_moment_to_go_back_to(store: AgedObjects) -> None:
    log = deleted(store)
    with pytest.raises(OutOfRange, match="commit 100 is deleted"):
        state_at(log, 100)


@pytest.mark.parametrize("left", [(), (4_000,), (7, 4_094, 4_095)], ids=str)
def test_verify_asks_for_no_commit_that_may_be_deleted(
    store: AgedObjects, history: Any, left: tuple[int, ...]
) -> None:
    deleted(store)
    for number in left:
        name = commit_object_name(number)
        store.held[name] = history[0][name]
    checks = CommitChecks(store)  # type: ignore[arg-type]
    checks.check()
    assert checks.faults == []
    assert checks.state is not None
    assert held(checks.state) == held(history[1][COMMITS])
    assert checks.named >= {f"data/q/{number}.seg" for number in range(1, COMMITS + 1)}
    lost = commit_object_name(FLOOR + 3)
    del store.held[lost]
    checks = CommitChecks(store)  # type: ignore[arg-type]
    checks.check()
    assert next((fault.kind, fault.path) for fault in checks.faults) == (
        "commit-missing", f"{store.url}/{lost}",
    )  # fmt: skip


def test_verify_misses_no_commit_that_is_deleted_meanwhile(tmp_path: Path, history: Any) -> None:
    write_old(tmp_path, history[0])
    log = ReferenceLog(LocalStore(str(tmp_path)))
    log.note(log.open())
    store = Cleaned(str(tmp_path), lambda: delete_commits(log, log.open()))
    checks = CommitChecks(store)
    checks.check()
    assert store.deleted == FLOOR
    assert checks.faults == []
    assert checks.state is not None
    assert held(checks.state) == held(history[1][COMMITS])


class Cleaned(LocalStore):
    """One whose writer cleans up while somebody reads the commits."""

    def __init__(self, path: str, clean: Callable[[], int]) -> None:
        super().__init__(path)
        self._clean = clean
        self._reads = 0
        self.deleted = 0

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        self._reads += name.endswith(".commit")
        if self._reads == 300 and not self.deleted:
            self.deleted = self._clean()
        return super().read(name, byte, size)


@pytest.mark.parametrize("number", [0, 100, COMMITS])
def test_on_a_disk_who_slept_goes_on_as_well(
    tmp_path: Path, history: Any, clock: Clock, number: int
) -> None:
    write_old(tmp_path, history[0])
    before = seen_at(history, number)
    store = LocalStore(tmp_path)
    log = ReferenceLog(store)
    log.note(log.open())
    assert delete_commits(log, log.open()) == FLOOR
    clock.sleep(hours=30)
    assert held(log.refresh(before)) == held(history[1][COMMITS])
    clock.sleep(hours=30)
    assert log.young(before).number == log.add(before, appended).number - 1 == COMMITS
    assert len([*tmp_path.rglob("*.commit")]) == COMMITS + 3 - FLOOR


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(crash_count(20, 2_000)))
def test_a_clean_up_that_is_cut_off_leaves_a_queue(
    store: AgedObjects, history: Any, clock: Clock, seed: int
) -> None:
    """Any of the deletions may be undone by a power cut, and anybody may have slept."""
    chance = random.Random(seed)
    kept = chance.random() ** 3
    for number in range(1, FLOOR):
        if chance.random() >= kept:
            del store.held[commit_object_name(number)]
    store.now_us = 2 * DAY_US
    log = ReferenceLog(store)
    number = chance.choice(sorted(history[1]))
    before = seen_at(history, number)
    clock.sleep(hours=25)
    if chance.random() < 0.5:
        assert held(log.refresh(before)) == held(history[1][COMMITS])
    after = log.add(before, appended)
    assert after.number == COMMITS + 1
    assert held(log.open()) == held(after)
    assert delete_commits(log, after) == FLOOR
    assert store.numbers() == [0, *range(FLOOR, COMMITS + 2)]
