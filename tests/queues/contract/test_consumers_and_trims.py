"""Consumers of a queue of any layout, and what may be deleted: by them, by age, by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from cec_store import OutOfRange, Position, QueueReplaced
from cec_store.errors import CecError, Fenced
from support.contract.layouts import (
    PLAIN_IN_STORE,
    Layout,
    Opened,
    Rows,
    every_layout,
)

NO_CONSUMERS = {PLAIN_IN_STORE: "a queue without partitions in a store has no consumers"}
DAY_US = 86_400_000_000


@dataclass
class Clock:
    """A clock that is put forward by hand."""

    now_us: int = 1_600_000_000_000_000

    def __call__(self) -> int:
        return self.now_us


def boundaries(rows: Rows, each: int = 2) -> dict[int, list[int]]:
    """Return the offsets at which parts begin, by partition, each part of so many rows."""
    return {n: [*range(0, len(part) + 1, each)] for n, part in rows.items()}


def left(layout: Layout, rows: Rows, starts: Mapping[int, int]) -> None:
    """Check that what is shown is what stood at or behind these offsets."""
    shown = layout.rows()
    for partition, part in rows.items():
        assert shown.get(partition, []) == part[starts[partition] :]


# -- consumers ------------------------------------------------------------------------------------


@every_layout(NO_CONSUMERS, raises=CecError)
def test_what_a_consumer_acknowledged_is_there_when_it_comes_back(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(7)
        consumer = queue.consumer("hourly")
        assert {*consumer.received.values(), *consumer.effects_saved.values()} == {0}
        consumer.acknowledge(received={0: 4}, effects_saved={0: 2})
        consumer.acknowledge(received={0: 3})  # nothing falls
        consumer.close()
        again = queue.consumer("hourly")
        assert (again.received[0], again.effects_saved[0]) == (4, 2)
    with layout.open("r") as reader:
        later = reader.consumer("hourly")
        assert (later.received[0], later.effects_saved[0]) == (4, 2)
        later.acknowledge(effects_saved={0: 4})
    with layout.open() as queue:
        assert queue.consumer("hourly").effects_saved[0] == 4


@every_layout(NO_CONSUMERS, raises=CecError)
def test_the_lag_of_consumers_is_what_they_have_not_received(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(6)
        first, second = queue.consumer("first"), queue.consumer("second")
        first.acknowledge(received=queue.ends())
        second.acknowledge(received={0: 3})
        assert queue.lags() == {"first": 0, "second": 12 - 3}
        queue.append([100])
        assert queue.lags() == {"first": 1, "second": 13 - 3}
        assert sum(map(len, rows.values())) == 12


@every_layout(NO_CONSUMERS, raises=CecError)
def test_a_consumer_begins_where_it_registers(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(4)
        assert queue.consumer("late", {0: 2}).received[0] == 2
        with pytest.raises(OutOfRange):
            queue.consumer("beyond", {0: 1000})
        assert {*queue.lags()} == {"late"}


@every_layout(NO_CONSUMERS, raises=CecError)
def test_a_consumer_acknowledges_nothing_that_cannot_be(layout: Layout) -> None:
    other = "0" * 32
    with layout.open() as queue:
        queue.fill(4)
        consumer = queue.consumer("hourly")
        before = layout.files()
        with pytest.raises(OutOfRange):
            consumer.acknowledge(received={0: 1000})
        with pytest.raises(ValueError, match="received"):
            consumer.acknowledge(received={0: 1}, effects_saved={0: 2})
        with pytest.raises(QueueReplaced, match=other):
            consumer.acknowledge(received={0: Position(1, 0, other)})  # type: ignore[dict-item]
        with pytest.raises(QueueReplaced, match=other):
            queue.consumer("later", {0: Position(1, 0, other)})  # type: ignore[dict-item]
        assert layout.files() == before
        assert {*consumer.received.values()} == {0}


@every_layout(NO_CONSUMERS, raises=CecError)
def test_whoever_takes_over_a_consumer_fences_the_one_before(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(7)
        first = queue.consumer("hourly")
        first.acknowledge(effects_saved={0: 2})
        second = queue.consumer("hourly")
        assert second.effects_saved[0] == 2
        with pytest.raises(Fenced):
            first.acknowledge(effects_saved={0: 4})
        second.acknowledge(received={0: 3}, effects_saved={0: 3})
        with pytest.raises(Fenced):
            first.acknowledge(effects_saved={0: 4})
        assert queue.consumer("hourly").effects_saved[0] == 3


@every_layout(NO_CONSUMERS, raises=CecError)
def test_a_dropped_consumer_is_forgotten(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(3)
        consumer = queue.consumer("hourly")
        consumer.acknowledge(received={0: 2})
        consumer.close()
        queue.queue.drop_consumer("hourly")
        assert queue.lags() == {}
        with pytest.raises(ValueError, match="hourly"):
            queue.queue.drop_consumer("hourly")
        assert queue.consumer("hourly").received[0] == 0


# -- trims ----------------------------------------------------------------------------------------


@every_layout()
def test_nothing_is_deleted_unless_that_is_asked_for(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(9)
        assert {*queue.trim().values()} == {0}
    assert layout.rows() == rows


@every_layout()
def test_a_trim_takes_whole_parts_below_an_offset(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(9)
        for before in (1, 2, 3):
            starts = queue.trim({0: before})
            assert starts == queue.starts()
            assert starts[0] == before - before % 2
            assert {*starts.values()} <= {0, starts[0]}
            left(layout, rows, starts)
        with pytest.raises(OutOfRange):
            queue.trim({0: 1000})
        queue.append([100])
    assert layout.faults() == []
    with layout.open("r") as reader:
        assert reader.starts() == starts


@every_layout()
def test_a_reader_of_what_was_deleted_is_told(layout: Layout) -> None:
    with layout.open() as queue, layout.open("r") as reader:
        rows = queue.fill(9)
        slow = reader.replay(0, Position(0))
        assert next(slow).column("n").to_pylist() == rows[0][:2]
        queue.trim({0: 4})
        for stale in (0, 3):
            with pytest.raises(OutOfRange):
                reader.numbers(0, Position(stale))
        assert reader.numbers(0, Position(4)) == rows[0][4:]
        assert reader.numbers(0) == rows[0][4:]
        # Rows that are still on disk are shown; those that are not are never passed over.
        found = list(rows[0][:2])
        try:
            found += [n for batch in slow for n in batch.column("n").to_pylist()]
        except OutOfRange:
            assert found == rows[0][: len(found)]
        else:
            assert found == rows[0]


@every_layout()
def test_a_trim_by_age_takes_what_was_written_before(layout: Layout) -> None:
    clock = Clock()
    with layout.open(clock_us=clock) as queue:
        rows = queue.fill(6)
        clock.now_us += 10 * DAY_US
        young = queue.fill(6, 100)
        assert {*queue.trim(keep="20d").values()} == {0}
        starts = queue.trim(keep=timedelta(days=5))
        both = {n: part + young[n] for n, part in rows.items()}
        assert starts == {n: len(part) for n, part in rows.items()}
        left(layout, both, starts)
    assert layout.faults() == []


@every_layout()
def test_a_trim_by_size_keeps_the_newest(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(12)
        assert {*queue.trim(keep="1GiB").values()} == {0}
        starts = queue.trim(keep=1)
        for partition, part in rows.items():
            assert starts[partition] in boundaries(rows)[partition]
            assert 0 < starts[partition] < len(part)
        left(layout, rows, starts)
        queue.fill(3, 100)
    assert layout.faults() == []


def _with_retention(layout: Layout, retention: Any, clock: Clock) -> Opened:
    return layout.open(retention=retention, clock_us=clock)


@every_layout()
def test_retention_is_kept_with_the_queue_and_says_what_a_trim_takes(layout: Layout) -> None:
    clock = Clock()
    with _with_retention(layout, "8d", clock) as queue:
        rows = queue.fill(6)
        assert {*queue.trim().values()} == {0}
    with layout.open(clock_us=clock) as queue:
        assert str(queue.queue.retention) == "8d"
        clock.now_us += 10 * DAY_US
        young = queue.fill(6, 100)
        starts = queue.trim()
        assert starts == {n: len(part) for n, part in rows.items()}
        left(layout, {n: part + young[n] for n, part in rows.items()}, starts)


@every_layout()
def test_retention_can_be_changed(layout: Layout) -> None:
    with layout.open() as queue:
        assert str(queue.queue.retention) == "forever"
        for wanted in ("consumers", "8d", "10GiB", "forever"):
            queue.queue.set_retention(wanted)
            with layout.open("r") as reader:
                assert str(reader.queue.retention) == wanted
        before = layout.files()
        with pytest.raises(ValueError, match="soon"):
            queue.queue.set_retention("soon")
        assert layout.files() == before


@every_layout(NO_CONSUMERS, raises=CecError)
def test_what_consumers_need_stays_and_what_all_have_saved_goes(layout: Layout) -> None:
    with layout.open(retention="consumers") as queue:
        rows = queue.fill(12)
        assert {*queue.trim().values()} == {0}
        quick, slow = queue.consumer("quick"), queue.consumer("slow")
        quick.acknowledge(effects_saved=queue.ends())
        assert {*queue.trim().values()} == {0}
        slow.acknowledge(received=queue.ends(), effects_saved={0: 3})
        starts = queue.trim()
        assert starts[0] == 2
        assert {*starts.values()} <= {0, 2}
        left(layout, rows, starts)
        assert queue.trim({0: 4})[0] == 2  # held by the slow one
        slow.close()
        queue.queue.drop_consumer("slow")
        starts = queue.trim()
        assert starts[0] > 2
        left(layout, rows, starts)
    assert layout.faults() == []


@every_layout(NO_CONSUMERS, raises=CecError)
def test_a_consumer_whose_rows_were_deleted_is_told(layout: Layout) -> None:
    clock = Clock()
    with _with_retention(layout, "8d", clock) as queue:
        queue.fill(6)
        consumer = queue.consumer("hourly")
        consumer.close()
        clock.now_us += 10 * DAY_US
        queue.fill(6, 100)
        assert queue.trim()[0] > 0
        with pytest.raises(OutOfRange, match="hourly"):
            queue.consumer("hourly")
