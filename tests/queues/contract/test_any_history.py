"""Any history of a queue of any layout, beside a model: a list of rows for each partition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cec_store import OutOfRange, Position
from cec_store.errors import Fenced
from support.contract.layouts import (
    LAYOUTS,
    MANY_IN_S3,
    PLAIN_IN_STORE,
    Layout,
    OpenConsumer,
    every_layout,
    layout_at,
)
from support.runs.counts import crash_count

NAMES = st.sampled_from(["hourly", "daily"])
OFFSETS = st.integers(-1, 12)
IN_PROCESS = tuple(name for name in LAYOUTS if name != MANY_IN_S3)
"""Those that are fast enough for thousands of steps."""


class QueueHistory(RuleBasedStateMachine):
    """Drives one queue; ``place`` makes the empty place of each run."""

    def __init__(self, place: Callable[[], Layout]) -> None:
        super().__init__()
        self.layout = place()
        self.rows: dict[int, list[int]] = {n: [] for n in range(self.layout.partitions or 1)}
        self.starts = dict.fromkeys(self.rows, 0)
        self.ends_of_parts: dict[int, set[int]] = {n: {0} for n in self.rows}
        self.numbers = count()
        self.consumers: dict[str, OpenConsumer] = {}
        self.received: dict[str, dict[int, int]] = {}
        self.saved: dict[str, dict[int, int]] = {}
        self.queue = self.layout.open()

    @property
    def has_consumers(self) -> bool:
        return self.layout.name != PLAIN_IN_STORE

    def ends(self) -> dict[int, int]:
        return {n: len(rows) for n, rows in self.rows.items()}

    @rule(rows=st.integers(0, 4))
    def append(self, rows: int) -> None:
        added = [next(self.numbers) for _ in range(rows)]
        self.queue.append(added)
        grown = {n: end - len(self.rows[n]) for n, end in self.queue.ends().items()}
        assert sorted(grown.values(), reverse=True)[0] == sum(grown.values()) == rows
        for partition, more in grown.items():
            self.rows[partition] += added[:more]
            self.ends_of_parts[partition].add(len(self.rows[partition]))

    @rule()
    def cut(self) -> None:
        self.queue.cut()

    @rule(partition=st.integers(0, 2), offset=OFFSETS, more=st.integers(0, 4))
    def read_from_an_offset(self, partition: int, offset: int, more: int) -> None:
        partition %= len(self.rows)
        offset = max(0, offset)
        start, end = self.starts[partition], len(self.rows[partition])
        until = Position(offset + more)
        if not start <= offset <= end:
            with pytest.raises(OutOfRange):
                self.queue.numbers(partition, Position(offset), until)
            return
        found = self.queue.numbers(partition, Position(offset), until)
        assert found == self.rows[partition][offset : offset + more]

    @rule(partition=st.integers(0, 2), low=st.integers(0, 30), more=st.integers(0, 30))
    def read_from_a_moment(self, partition: int, low: int, more: int) -> None:
        partition %= len(self.rows)
        found = self.queue.numbers(partition, 1000 * low, 1000 * (low + more))
        left = self.rows[partition][self.starts[partition] :]
        assert found == [n for n in left if low <= n < low + more]

    @rule(partition=st.integers(0, 2), before=OFFSETS)
    def trim(self, partition: int, before: int) -> None:
        partition %= len(self.rows)
        before = max(0, before)
        if before > len(self.rows[partition]):
            with pytest.raises(OutOfRange):
                self.queue.trim({partition: before})
            return
        starts = self.queue.trim({partition: before})
        needed = min([before, *(saved[partition] for saved in self.saved.values())])
        limits = {**self.starts, partition: max(needed, self.starts[partition])}
        for n, start in starts.items():
            assert self.starts[n] <= start <= limits[n]
            assert start in self.ends_of_parts[n]
        self.starts = starts

    @rule()
    def reopen(self) -> None:
        self.queue.close()
        self.consumers.clear()
        self.queue = self.layout.open()
        assert self.queue.ends() == self.ends()
        assert self.queue.starts() == self.starts

    @precondition(lambda self: self.has_consumers)
    @rule(name=NAMES)
    def take_over(self, name: str) -> None:
        before = self.consumers.get(name)
        if name in self.saved and any(
            self.saved[name][n] < start for n, start in self.starts.items()
        ):
            raise AssertionError("a trim took what a consumer needs")
        consumer = self.queue.consumer(name)
        self.received.setdefault(name, dict(self.starts))
        self.saved.setdefault(name, dict(self.starts))
        self.consumers[name] = consumer
        assert consumer.received == self.received[name]
        assert consumer.effects_saved == self.saved[name]
        # An acknowledgement that says nothing new may be passed over before anybody looks.
        if before is not None and before.received != self.ends():
            with pytest.raises(Fenced):
                before.acknowledge(received=self.ends())
        if before is not None:
            before.close()

    @precondition(lambda self: self.consumers)
    @rule(name=NAMES, partition=st.integers(0, 2), received=OFFSETS, saved=OFFSETS)
    def acknowledge(self, name: str, partition: int, received: int, saved: int) -> None:
        consumer = self.consumers.get(name)
        if consumer is None:
            return
        partition %= len(self.rows)
        received, saved = max(0, received), max(0, saved)
        said: Any = {"received": {partition: received}, "effects_saved": {partition: saved}}
        if saved > received or received > len(self.rows[partition]):
            with pytest.raises((OutOfRange, ValueError)):
                consumer.acknowledge(**said)
        else:
            consumer.acknowledge(**said)
            for known, offset in ((self.received, received), (self.saved, saved)):
                known[name][partition] = max(known[name][partition], offset)
        assert consumer.received == self.received[name]
        assert consumer.effects_saved == self.saved[name]

    @precondition(lambda self: self.consumers)
    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        if (consumer := self.consumers.pop(name, None)) is not None:
            consumer.close()
            self.queue.queue.drop_consumer(name)
            del self.received[name], self.saved[name]

    @precondition(lambda self: self.has_consumers)
    @rule()
    def lags(self) -> None:
        ends = self.ends()
        assert self.queue.lags() == {
            name: sum(ends[n] - offset for n, offset in received.items())
            for name, received in self.received.items()
        }

    def teardown(self) -> None:
        self.queue.close()
        left = {n: rows[self.starts[n] :] for n, rows in self.rows.items()}
        assert self.layout.rows() == {n: rows for n, rows in left.items() if rows}
        assert self.layout.faults() == []


@pytest.mark.quick
@every_layout(among=IN_PROCESS)
def test_a_queue_is_what_its_model_is(layout: Layout, tmp_path: Path) -> None:
    places = count()

    def place() -> Layout:
        return layout_at(layout.name, tmp_path / f"run-{next(places)}", lambda: "")

    run_state_machine_as_test(
        lambda: QueueHistory(place),
        settings=settings(max_examples=crash_count(4, 300), stateful_step_count=20),
    )
