"""Queues of any layout that are removed, made anew, damaged, or whose writers die."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from random import Random

import pytest

from cec_store import Position, QueueReplaced
from cec_store.errors import CecError
from support.contract.layouts import (
    LAYOUTS,
    LOCAL,
    MANY_IN_MEMORY,
    MANY_IN_S3,
    PLAIN_IN_STORE,
    Layout,
    Opened,
    Rows,
    every_layout,
)
from support.runs.counts import crash_count

OTHER_PROCESSES = (*LOCAL, MANY_IN_S3)
"""Layouts that other processes reach: the memory of this one is its own."""
NO_SECOND_NOTE = (
    "a store keeps no second note of the newest commit: a lost one is missed in silence"
)
WITH_CONSUMERS = tuple(name for name in LAYOUTS if name != PLAIN_IN_STORE)


def remove(layout: Layout, copy: Layout) -> None:
    layout.remove()


def make_anew(layout: Layout, copy: Layout) -> None:
    layout.remove()
    with layout.open("x") as queue:
        queue.fill(3, 500)


def make_anew_longer(layout: Layout, copy: Layout) -> None:
    layout.remove()
    with layout.open("x") as queue:
        queue.fill(12, 500)


def restore(layout: Layout, copy: Layout) -> None:
    layout.remove()
    copy.copy_to(layout)


def restore_and_go_on(layout: Layout, copy: Layout) -> None:
    restore(layout, copy)
    with layout.open(takeover=True) as queue:
        queue.fill(3, 500)


replaced = pytest.mark.parametrize(
    "replace", [remove, make_anew, make_anew_longer, restore, restore_and_go_on]
)
Replace = Callable[[Layout, Layout], None]


def opened_twice(layout: Layout) -> tuple[Opened, Layout]:
    """Return a queue with six appends, and a copy of what it was after three."""
    queue = layout.open()
    queue.fill(3)
    copy = layout.beside("copy")
    layout.copy_to(copy)
    queue.fill(3, 100)
    return queue, copy


def forget(queue: Opened) -> None:
    """Close a queue whose place is another's."""
    try:
        queue.close()
    except CecError:
        return


def require_refusals(layout: Layout, replace: Replace) -> None:
    """Check that a writer whose queue was replaced is refused, and changes nothing."""
    queue, copy = opened_twice(layout)
    replace(layout, copy)
    before = layout.files()
    for call in (lambda: queue.append([900]), lambda: queue.trim({0: 2})):
        with pytest.raises(CecError):
            call()
    forget(queue)
    after = layout.files()
    assert {name: after[name] for name in before} == before
    assert not any(name.endswith((".seg", ".commit")) for name in after.keys() - before.keys())


@pytest.mark.parametrize("replace", [remove, make_anew, restore])
@every_layout()
def test_a_writer_writes_to_no_queue_but_its_own(layout: Layout, replace: Replace) -> None:
    require_refusals(layout, replace)


@pytest.mark.parametrize("replace", [make_anew_longer, restore_and_go_on])
@every_layout()
def test_a_writer_writes_to_no_queue_that_has_gone_further(
    layout: Layout, replace: Replace
) -> None:
    require_refusals(layout, replace)


@replaced
@every_layout(among=WITH_CONSUMERS)
def test_a_consumer_acknowledges_nothing_of_another_queue(layout: Layout, replace: Replace) -> None:
    queue, copy = opened_twice(layout)
    consumer = queue.consumer("hourly")
    replace(layout, copy)
    before = layout.files()
    with pytest.raises(QueueReplaced):
        consumer.acknowledge(received={0: 1})
    assert layout.files() == before
    forget(queue)


@pytest.mark.parametrize("replace", [remove, make_anew])
@every_layout(
    {PLAIN_IN_STORE: "who follows it in a store is told within a minute"},
    among=(*LOCAL, PLAIN_IN_STORE),  # by reference in a store it is told within a minute
)
def test_a_reader_that_follows_is_told(layout: Layout, replace: Replace) -> None:
    queue, copy = opened_twice(layout)
    told: list[CecError] = []
    with layout.open("r") as reader:
        end = reader.ends()[0]
        replay = reader.replay(0, Position(0), follow=True)
        found: list[int] = []
        while len(found) < end:
            found += next(replay).column("n").to_pylist()

        def follow() -> None:
            try:
                next(replay, None)
            except CecError as error:
                told.append(error)

        replace(layout, copy)
        thread = threading.Thread(target=follow)
        thread.start()
        thread.join(5)
        replay.stop()  # type: ignore[attr-defined]
        thread.join()
    forget(queue)
    assert told


@every_layout()
def test_a_position_outlives_no_queue(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(4)
        replay = queue.replay(0)
        next(replay)
        position = replay.cursor  # type: ignore[attr-defined]
    make_anew_longer(layout, layout)
    with layout.open("r") as reader, pytest.raises(QueueReplaced):
        reader.numbers(0, position)
    assert layout.rows() != rows


# -- damage ---------------------------------------------------------------------------------------


def newest_parts(layout: Layout) -> dict[str, range]:
    """Append once more, and return the bytes that this has made, by file."""
    before = layout.files()
    with layout.open() as queue:
        queue.append(range(100, 105))
        after = layout.files()
    found = {}
    for name, data in after.items():
        old = before.get(name, b"")
        first = next((n for n, (a, b) in enumerate(zip(old, data, strict=False)) if a != b), None)
        begin = min(len(old), len(data)) if first is None else first
        if data[begin:]:
            found[name] = range(begin, len(data))
    return found


def told_by_reading(layout: Layout, expected: Rows) -> str | None:
    """Return the error of a reader that is not shown all of these rows."""
    try:
        rows = layout.rows()
    except CecError as error:
        return str(error)
    assert rows == expected
    return None


@every_layout()
def test_damage_of_the_newest_part_is_told_by_name(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(3)
    random = Random(1)
    damaged = told = 0
    parts = newest_parts(layout)
    expected = layout.rows()
    for name, place in parts.items():
        data = layout.files()[name]
        flips = [random.choice(place) for _ in range(crash_count(5, 200))]
        for byte in flips:
            bad = bytearray(data)
            bad[byte] ^= 1 << random.randrange(8)
            layout.put(name, bytes(bad))
            damaged += 1
            if error := told_by_reading(layout, expected):
                told += 1
                assert name.rpartition("/")[2] in error
        layout.put(name, data)
    assert told > damaged // 4
    assert layout.rows() == expected
    assert layout.faults() == []


@every_layout(dict.fromkeys((MANY_IN_MEMORY, MANY_IN_S3), NO_SECOND_NOTE))
def test_a_lost_newest_part_is_told_or_missed_by_nobody(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(3)
    parts = newest_parts(layout)
    expected = layout.rows()
    files = layout.files()
    for name in parts:
        layout.remove()
        for other, data in files.items():
            if other != name:
                layout.put(other, data)
        error = told_by_reading(layout, expected)
        assert error is None or layout.url in error


# -- deaths ---------------------------------------------------------------------------------------


def killed(layout: Layout, appends: int, rows: int, random: Random) -> int:
    """Let a process append, kill it, and return how many appends it was told are durable."""
    command = [sys.executable, "-m", "support.processes.contract_writer", layout.url]
    command += [str(layout.partitions or 0), str(rows), json.dumps(layout.options)]
    told = -1
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(appends):
            told = int(process.stdout.readline())
        timer = threading.Timer(random.random() * 0.05, process.kill)
        timer.start()
        for line in process.stdout:
            told = int(line)
        timer.join()
    return told + 1


@every_layout(among=OTHER_PROCESSES)
def test_a_killed_writer_leaves_whole_appends_and_all_it_was_told(layout: Layout) -> None:
    random, rows = Random(layout.name), 12
    for _ in range(crash_count(1, 30)):
        told = killed(layout, 1 + random.randrange(8), rows, random)
        numbers = layout.numbers()
        assert numbers == list(range(len(numbers)))
        assert len(numbers) % rows == 0
        assert told * rows <= len(numbers)
    with layout.open(**({} if layout.is_plain else {"key_columns": ["n"]})) as queue:
        before = layout.numbers()
        queue.append([10_000])
    assert layout.numbers() == [*before, 10_000]
    assert layout.faults() == []
