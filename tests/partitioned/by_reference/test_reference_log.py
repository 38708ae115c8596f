"""The log of commits by reference, against a plain model of what a queue holds."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cec_store.errors import CorruptLog, NotAQueue, UnsupportedVersion
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceObject,
    since_base,
)
from cec_store.format.checksum import with_crc
from cec_store.format.frame import SEGMENT_HEADER_BYTES
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.local_store import LocalStore
from support.places.commits_in_memory import LOG_ID, Objects, appended, held, made, row
from support.runs.counts import crash_count


def merged(state: QueueState, begin: int, count: int) -> ReferenceObject | None:
    """Some neighbours become one."""
    old = state.live.to_pylist()[begin : begin + count]
    if len(old) < 2:
        return None
    number = state.number + 1
    rows = sorted(old, key=lambda each: each["first_offset"])
    new = row(number, rows[0]["first_offset"], sum(each["records"] for each in rows))
    gone = [{**{k: v for k, v in each.items() if k != "added"}, "removed": True} for each in old]
    commit = replace(state.commit, operation=Operation.MERGE, schema=None)
    return ReferenceObject(number, LOG_ID, commit, segments_of([new, *gone]), number)


def test_where_nothing_is_there_is_no_queue(tmp_path: Path) -> None:
    with pytest.raises(NotAQueue, match="no queue here"):
        ReferenceLog(Objects()).open()
    with pytest.raises(NotAQueue, match="no queue here"):
        ReferenceLog(LocalStore(tmp_path)).open()


def test_a_queue_is_made_once() -> None:
    log = ReferenceLog(Objects())
    assert made(log).number == 0
    with pytest.raises(FileExistsError):
        made(log)
    assert log.open().commit.schema is not None


def test_a_commit_of_a_later_format_is_no_damage() -> None:
    store = Objects()
    log = ReferenceLog(store)
    state = made(log)
    name = commit_object_name(0)
    head = bytearray(store.held[name][:SEGMENT_HEADER_BYTES])
    head[8] = 2
    store.held[name] = with_crc(bytes(head)) + store.held[name][SEGMENT_HEADER_BYTES:]
    for look in (log.open, lambda: log.prove(state)):
        with pytest.raises(UnsupportedVersion, match=r"version 2.*upgrade cec-store"):
            look()


def test_a_commit_says_what_came_since_the_last_wider_one() -> None:
    due = {n: since_base(n) for n in (0, 1, 4, 8, 60, 64, 68, 128, 4092, 4096, 4100, 4160, 8192)}
    assert due == {
        0: None, 1: None, 4: 0, 8: 0, 60: 0, 64: 0, 68: 64, 128: 0, 4092: 4032, 4096: 0,
        4100: 4096, 4160: 4096, 8192: 0,
    }  # fmt: skip


@pytest.mark.crash
@settings(
    max_examples=crash_count(5, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_a_queue_that_is_opened_is_as_its_writers_left_it(data: st.DataObject) -> None:
    store = Objects()
    log = ReferenceLog(store)
    state = made(log)
    follower = log.open()
    for _ in range(data.draw(st.integers(1, 150))):
        if data.draw(st.booleans()):
            begin, count = data.draw(st.integers(0, 20)), data.draw(st.integers(2, 6))
            state = log.add(state, lambda s, b=begin, c=count: merged(s, b, c))
        else:
            state = log.add(state, appended)
        if data.draw(st.integers(0, 9)) == 0:
            name = commit_object_name(state.number)
            newest = ReferenceObject.decode(store.held[name], name, state.number)
            store.held[name] = b"".join(replace(newest, since=None).encode())
        if data.draw(st.integers(0, 5)) == 0:
            opened = log.open()
            assert (opened.number, opened.commit) == (state.number, state.commit)
            assert held(opened) == held(state)
            state = opened if data.draw(st.booleans()) else state
        if data.draw(st.integers(0, 5)) == 0:
            follower = log.refresh(follower)
            assert held(follower) == held(state)
    total = sum(records for _, _, records in held(state))
    assert total == state.commit.ends[0]


def test_opening_takes_few_requests_however_long_the_history() -> None:
    store = Objects()
    log = ReferenceLog(store)
    state = made(log)
    most = 0
    for _ in range(4300):
        state = log.add(state, appended)
        if state.number % 251 == 0 or 4090 < state.number < 4110 or state.number > 4290:
            store.calls.clear()
            opened = log.open()
            most = max(most, len(store.calls))
            assert opened.live.num_rows == state.number == opened.number
    assert most == 8
    store.calls.clear()
    assert log.refresh(state) is state
    assert store.calls == ["read"], "an idle follower asks once"
    store.calls.clear()
    log.add(state, appended)
    assert store.calls == ["create", "read"], "a commit is one object, and one look behind it"


def test_racing_writers_each_get_their_commits_in(tmp_path: Path) -> None:
    log = ReferenceLog(LocalStore(tmp_path / "queue"))
    made(log)

    def write() -> None:
        state = log.open()
        for _ in range(20):
            state = log.add(state, appended)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = log.open()
    assert state.number == 80
    offsets = sorted((first, records) for _, first, records in held(state))
    ends = [first + records for first, records in offsets]
    assert [first for first, _ in offsets] == [0, *ends[:-1]]


def test_a_commit_that_is_missing_or_damaged_is_said() -> None:
    store = Objects()
    log = ReferenceLog(store)
    state = made(log)
    for _ in range(7):
        state = log.add(state, appended)
    lost = store.held.pop(commit_object_name(6))
    with pytest.raises(CorruptLog, match="a commit is missing"):
        log.open()
    store.held[commit_object_name(6)] = lost[:-9] + b"damaged!!"
    with pytest.raises(CorruptLog, match=r"00000000000000000006\.commit"):
        log.open()
    store.held[commit_object_name(6)] = store.held[commit_object_name(5)]
    with pytest.raises(CorruptLog, match="the object is number 5"):
        log.open()
    store.held[commit_object_name(6)] = lost
    assert held(log.open()) == held(state)


def test_a_commit_of_another_queue_is_refused() -> None:
    store, other = Objects(), Objects()
    log = ReferenceLog(store)
    state = log.add(made(log), appended)
    commit = replace(appended(state), log_id=bytes(16), after=(1, state.salt))
    other.create(commit_object_name(2), commit.encode())
    store.held |= other.held
    for look in (log.open, lambda: log.refresh(state)):
        with pytest.raises(CorruptLog, match="a commit of another queue"):
            look()


def test_a_commit_that_takes_away_what_is_not_there_is_refused() -> None:
    store = Objects()
    log = ReferenceLog(store)
    state = log.add(made(log), appended)
    wrong = segments_of([row(99, 0, 1, removed=True)])
    added = replace(appended(state), segments=wrong, after=(1, state.salt))
    store.create(commit_object_name(2), added.encode())
    with pytest.raises(CorruptLog, match="takes away what is not there"):
        log.open()
