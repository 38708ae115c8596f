"""Reading a queue of any layout: from where one says, beside its writer, and of no other queue."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from cec_store import OutOfRange, Position, QueueReplaced, SchemaMismatch
from support.contract.layouts import (
    BY_REFERENCE,
    MANY,
    MANY_IN_MEMORY,
    PLAIN,
    PLAIN_IN_STORE,
    Layout,
    Opened,
    every_layout,
    layout_at,
)

NO_SEARCH = "a position is found for a moment of one partition only by its reader"


def moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)


@every_layout()
def test_a_replay_begins_and_ends_at_an_offset(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(4, rows=3)
        for partition, expected in rows.items():
            for first in (0, 1, 2, len(expected)):
                since = Position(first, partition)
                assert queue.numbers(partition, since) == expected[first:]
                until = Position(min(first + 2, len(expected)), partition)
                assert queue.numbers(partition, since, until) == expected[first : first + 2]


@every_layout()
def test_a_replay_begins_and_ends_at_a_moment(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(4, rows=3)
        for partition, expected in rows.items():
            for low in (0, expected[1], 1000):
                found = queue.numbers(partition, 1000 * low, moment(1000 * (low + 5)))
                assert found == [n for n in expected if low <= n < low + 5]
                found = queue.numbers(partition, from_moment=moment(1000 * low))
                assert found == [n for n in expected if n >= low]


@every_layout(dict.fromkeys(BY_REFERENCE, NO_SEARCH), raises=AttributeError)
def test_a_moment_has_a_position(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(5)
        assert queue.queue.position_at(7000) == Position(7)  # type: ignore[union-attr]


@every_layout()
def test_moments_may_go_backward_and_all_are_found(layout: Layout) -> None:
    numbers = [5, 3, 9, 1, 9, 0, 4]
    with layout.open() as queue:
        queue.append(numbers)
        assert queue.numbers(0, 3000, 9000) == [5, 3, 4]
        assert queue.numbers(0, from_moment=9000) == [9, 1, 9, 0, 4]


@every_layout()
def test_a_replay_returns_the_columns_that_are_asked_for(layout: Layout) -> None:
    with layout.open() as queue:
        queue.append([4, 5])
        (batch,) = queue.replay(0, columns=["at"])
        assert batch.to_pydict() == {"at": [4000, 5000]}
        with pytest.raises(SchemaMismatch, match="other"):
            next(queue.replay(0, columns=["other"]))
    assert layout.read(columns=["at"]).to_pydict() == {"at": [4000, 5000]}


@every_layout()
def test_no_replay_begins_beyond_the_end(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(3)
        for offset in (100, 2**40):
            with pytest.raises(OutOfRange):
                queue.numbers(0, Position(offset))


@every_layout()
def test_a_partition_that_is_not_there_is_not_read(layout: Layout) -> None:
    partitions = layout.partitions or 1
    with layout.open() as queue:
        queue.append([1])
        assert sorted(queue.ends()) == list(range(partitions))
        if not layout.is_plain:
            with pytest.raises(OutOfRange):
                queue.numbers(partitions)
        assert {*layout.rows()} <= {*range(partitions)}


@every_layout()
def test_a_replay_says_the_position_behind_what_it_has_returned(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(7)
        replay = queue.replay(0)
        next(replay)
        position = Position.from_json(replay.cursor.to_json())  # type: ignore[attr-defined]
    with layout.open("r") as reader:
        assert reader.numbers(0, position) == rows[0][2:]


@every_layout()
def test_a_position_of_another_queue_is_refused_by_readers(layout: Layout) -> None:
    other = "0" * 32
    with layout.open() as queue:
        queue.fill(4)
        for at in (0, 1):
            with pytest.raises(QueueReplaced, match=other):
                queue.numbers(0, Position(at, 0, other))
            with pytest.raises(QueueReplaced, match=other):
                queue.numbers(0, None, Position(at, 0, other))


# -- beside the writer ----------------------------------------------------------------------------


@every_layout()
def test_a_reader_that_follows_is_shown_all_that_the_writer_appends(layout: Layout) -> None:
    expected = list(range(12))
    shown: list[int] = []
    with layout.open() as writer:
        writer.append([0])
        with layout.open("r") as reader:

            def follow() -> None:
                shown.extend(reader.numbers(0, Position(0), Position(12), follow=True))

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            number = 1
            while number < 12:
                before = writer.ends()[0]
                writer.append([number])
                number += writer.ends()[0] - before
            thread.join(30)
            assert not thread.is_alive()
    assert shown == expected


@every_layout()
def test_a_replay_ends_where_the_queue_ended_when_it_began_or_later(layout: Layout) -> None:
    with layout.open() as writer, layout.open("r") as reader:
        writer.append([0, 1])
        replay = reader.replay(0)
        writer.fill(3, 10)
        found = [n for batch in replay for n in batch.column("n").to_pylist()]
    assert found[:2] == [0, 1]
    assert found == layout.rows()[0][: len(found)]


@every_layout()
def test_readers_in_many_threads_are_shown_whole_appends(layout: Layout) -> None:
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        seen = 0
        while not done.is_set():
            rows = layout.rows()
            count = sum(map(len, rows.values()))
            if count < seen or any(len(part) % 5 for part in rows.values()):
                wrong.append(rows)
            seen = count

    with layout.open() as writer:
        writer.append(range(5))
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 10):
            writer.append(range(5 * number, 5 * number + 5))
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert sum(map(len, layout.rows().values())) == 50


# -- elsewhere ------------------------------------------------------------------------------------


@every_layout()
def test_a_copy_is_read_on_this_machine(layout: Layout, tmp_path: Path) -> None:
    with layout.open() as queue:
        rows = queue.fill(5)
    copy = Layout(PLAIN if layout.is_plain else MANY, str(tmp_path / "copy"), layout.partitions)
    layout.copy_to(copy)
    assert copy.rows() == rows
    assert copy.faults() == []


@every_layout(
    {PLAIN: "a copy in a store of a queue of local files is read only: a store appends to no file"},
    raises=PermissionError,
)
def test_a_copy_goes_on_by_itself_in_a_store(layout: Layout, tmp_path: Path) -> None:
    with layout.open() as queue:
        rows = queue.fill(5)
    name = PLAIN_IN_STORE if layout.is_plain else MANY_IN_MEMORY
    place = layout_at(name, tmp_path, lambda: "")
    copy = Layout(name, place.url, layout.partitions)
    layout.copy_to(copy)
    assert copy.rows() == rows
    with copy.open() as queue:
        queue.append([100])
    assert copy.numbers() == [*range(10), 100]
    assert layout.rows() == rows


@every_layout()
def test_a_copy_goes_on_by_itself_on_this_machine(layout: Layout, tmp_path: Path) -> None:
    with layout.open() as queue:
        rows = queue.fill(5)
    copy = Layout(PLAIN if layout.is_plain else MANY, str(tmp_path / "copy"), layout.partitions)
    layout.copy_to(copy)
    with copy.open() as queue:
        queue.append([100])
    assert copy.numbers() == [*range(10), 100]
    assert layout.rows() == rows
    assert copy.faults() == []


@every_layout()
def test_a_copy_is_the_same_queue_for_a_position(layout: Layout, tmp_path: Path) -> None:
    with layout.open() as queue:
        rows = queue.fill(5)
        queue_id = _id_of(queue)
    copy = Layout(PLAIN if layout.is_plain else MANY, str(tmp_path / "copy"), layout.partitions)
    layout.copy_to(copy)
    with copy.open("r") as reader:
        assert reader.numbers(0, Position(1, 0, queue_id)) == rows[0][1:]


def _id_of(queue: Opened) -> str:
    """Return the queue's id, as the refusal of another queue's position says it."""
    with pytest.raises(QueueReplaced) as refused:
        queue.numbers(0, Position(0, 0, "0" * 32))
    (here,) = (word.strip(":,.;") for word in str(refused.value).split() if _is_id(word))
    return here


def _is_id(word: str) -> bool:
    text = word.strip(":,.;")
    with suppress(ValueError):
        return len(text) == 32 and int(text, 16) > 0
    return False
