"""Machines whose clocks differ by any number of days, or are set back and forth, lose no row."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from cec_store.errors import StorageError
from cec_store.format.schema import RecordSchema
from cec_store.ledger import ages
from cec_store.ledger.ages import GRACE_US
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.storage.stores.by_url import store_at
from support.places.layouts import put_into_objects
from support.runs.counts import crash_count
from support.stores.clocked import ClockedStore
from support.stores.needed import need

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))
DAYS = 20_000
SKEWS = crash_count(60, 300)


class World:
    """True time, and machines whose clocks are off by some days that change now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_us = DAYS * GRACE_US
        self.made: dict[str, int] = {}
        self.url = f"memory://{uuid.uuid4()}/q"
        self.store_skew_us = self.skew_us()

    def skew_us(self) -> int:
        return self.random.randint(-DAYS, DAYS) * GRACE_US + self.random.randrange(GRACE_US)

    def machine(self) -> Callable[[], int]:
        skew_us = self.skew_us()

        def clock_us() -> int:
            nonlocal skew_us
            if self.random.random() < 0.05:
                skew_us = self.skew_us()
            return max(0, self.now_us + skew_us)

        return clock_us

    def store(self, before_commit: Callable[[], None] = lambda: None) -> ClockedStore:
        return Interrupted(self, before_commit)

    def queue(self, before_commit: Callable[[], None] = lambda: None) -> PartitionedQueue:
        store = self.store(before_commit)
        return PartitionedQueue(store, "a", SCHEMA, partitions=1, clock_us=self.machine())


class Interrupted(ClockedStore):
    """Something happens between a writer's rows and their commit."""

    def __init__(self, world: World, before_commit: Callable[[], None]) -> None:
        super().__init__(
            store_at(world.url), lambda: world.now_us + world.store_skew_us, world.made
        )
        self.before_commit = before_commit

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        super().create(name, parts)
        if name.startswith("data/"):
            self.before_commit()


@pytest.fixture(autouse=True)
def objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inline rows are never there without their commit, so no clean-up can come in between."""
    put_into_objects(monkeypatch)


def rows(number: int) -> pa.Table:
    return pa.table({"n": [number]})


def test_no_clock_of_a_writer_or_a_cleaner_loses_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    need("fsspec")
    world = World(1)
    monkeypatch.setattr(ages, "uptime_us", lambda: world.now_us)
    acknowledged: list[int] = []
    refused = 0
    for number in range(SKEWS):

        def meanwhile(number: int = number) -> None:
            pause = world.random.choice([0, GRACE_US // 2, 2 * GRACE_US, 4 * GRACE_US])
            world.now_us += world.random.randrange(pause + 1)
            other = world.queue()
            # A commit far behind the rows: none that was lost can have named them.
            if world.random.random() < 0.5:
                other.append(rows(SKEWS + number))
                acknowledged.append(SKEWS + number)
            world.random.choice([other.clean, other.clean, other.merge, other.trim])()

        try:
            world.queue(meanwhile).append(rows(number))
        except StorageError as error:
            refused += "write it again" in str(error)
        else:
            acknowledged.append(number)
        world.now_us += world.random.randrange(GRACE_US // 4)
    reader = world.queue()
    found = [n for batch in reader.replay(0) for n in batch["n"].to_pylist()]
    # A merge of the writer's own is interrupted as well, behind its commit: only the rows of one
    # writer after the other have an order that is known here.
    assert sorted(found) == sorted(acknowledged)
    assert [n for n in found if n < SKEWS] == [n for n in acknowledged if n < SKEWS]
    assert 0 < refused < SKEWS / 2
    assert reader.clean() is not None


def test_rubbish_goes_whatever_the_clocks_say(monkeypatch: pytest.MonkeyPatch) -> None:
    need("fsspec")
    world = World(2)
    monkeypatch.setattr(ages, "uptime_us", lambda: world.now_us)
    queue = world.queue()
    queue.append(rows(1))

    def die() -> None:
        raise KeyboardInterrupt

    store = world.store(die)
    dying = PartitionedQueue(store, "a", SCHEMA, partitions=1, clock_us=world.machine())
    monkeypatch.setattr(store, "delete", lambda names: None)
    with pytest.raises(KeyboardInterrupt):
        dying.append(rows(2))
    world.now_us += GRACE_US // 2
    assert world.queue().clean() == []
    world.now_us += 2 * GRACE_US
    queue.append(rows(3))
    assert len(world.queue().clean()) == 1
