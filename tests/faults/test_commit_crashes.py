"""Batches are committed once and whole, wherever a committer or its machine dies."""

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from cec_store.format.commit import Staged
from cec_store.format.schema import RecordSchema
from cec_store.log.selection import Selection
from cec_store.partitioned import finishing
from cec_store.partitioned.partitions import Partitions
from cec_store.values import Position
from support.disks.folder_tree import Died, Tree
from support.places.version_1 import Committer
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))
PATH = "/trades"
QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"
BATCHES, PARTITIONS = 4, 3


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a case is the same each time."""
    monkeypatch.setattr(finishing, "_AT_ONCE", 1)


def rows_of(batch: int, attempt: int) -> dict[int, list[int]]:
    """What an attempt at a batch has for each partition; no two attempts have the same."""
    random = Random(1000 * batch + attempt)
    parts = random.sample(range(PARTITIONS), random.randint(1, PARTITIONS))
    first = 10_000 * batch + 100 * attempt
    return {p: [first + 10 * p + i for i in range(random.randint(1, 9))] for p in sorted(parts)}


class Driver:
    """Spark's side: it runs the batch again that it does not know to be committed."""

    def __init__(self) -> None:
        self.done = -1
        self.attempts = [0] * BATCHES

    def run(self, tree: Tree) -> None:
        committer = Committer(tree.at(PATH), SCHEMA, segment_bytes=1500)
        try:
            while self.done + 1 < BATCHES:
                batch = self.done + 1
                attempt = self.attempts[batch]
                self.attempts[batch] += 1
                committer.commit(QUERY, batch, self._tasks(committer, batch, attempt))
                self.done = batch
        finally:
            tree.dies_at = None
            committer.close()

    @staticmethod
    def _tasks(committer: Committer, batch: int, attempt: int) -> list[Staged]:
        pieces = []
        for number, values in rows_of(batch, attempt).items():
            for is_twin in (True, False):  # nobody hears of the twin
                stager = committer.stager(QUERY, batch, number)
                for value in values:
                    stager.append(pa.record_batch({"n": [value + 5 * is_twin * 1000]}))
                    if value % 2:
                        stager._flush()
                staged = stager.finish()
                assert staged is not None
            pieces.append(staged)
        return pieces


def contents(tree: Tree) -> dict[int, list[int]]:
    queue = Partitions(tree.at(PATH))
    return {
        number: [
            n
            for part in queue.replay(number, Selection(Position(0), Position(end)))
            for n in part.column("n").to_pylist()
        ]
        for number, end in queue.ends().items()
    }


def check(tree: Tree, driver: Driver) -> int:
    """Every batch up to ``done`` once, by one of its attempts; the next whole or not at all."""
    found = contents(tree)
    batches = 0
    for batch in range(BATCHES):
        if not any(found.values()):
            break
        fits = [
            attempt
            for attempt in range(driver.attempts[batch])
            if all(found.get(p, [])[: len(v)] == v for p, v in rows_of(batch, attempt).items())
        ]
        assert len(fits) == 1, f"batch {batch} by attempts {fits}: {found}"
        for number, values in rows_of(batch, fits[0]).items():
            del found[number][: len(values)]
        batches += 1
    assert not any(found.values()), f"left over: {found}"
    assert batches in (driver.done + 1, driver.done + 2)
    return batches


def operations() -> int:
    tree = Tree()
    driver = Driver()
    driver.run(tree)
    count = tree.operations
    assert check(tree, driver) == BATCHES
    assert not tree.at(PATH).folder("staged").names()
    return count - 50  # closing at the end may take more or less


def die(driver: Driver, tree: Tree, at: int) -> None:
    tree.dies_at = at
    with pytest.raises(Died):
        driver.run(tree)


def test_a_death_at_any_operation_loses_and_doubles_nothing(
    crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    seen = set()
    places = range(0, operations(), crash_count(17, 1))
    for at in places:
        tree, driver = Tree(), Driver()
        die(driver, tree, at)
        tree = tree.after_kill()
        if driver.done >= 0:
            check(tree, driver)
            Committer(tree.at(PATH), SCHEMA).abandon("another query", 0)  # finishes what it finds
            seen.add(check(tree, driver) - driver.done)
        driver.run(tree)
        assert check(tree, driver) == BATCHES
        assert not tree.at(PATH).folder("staged").names(), at
    assert seen == {1, 2}, "no death between a commit and its news"
    tally(len(places))


def test_deaths_during_recovery_lose_and_double_nothing(
    crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    total = operations()
    rounds = crash_count(30, 3_000)
    for seed in range(rounds):
        random = Random(seed)
        tree, driver = Tree(), Driver()
        die(driver, tree, random.randrange(total))
        for _ in range(random.randint(1, 4)):
            tree = tree.after_kill()
            tree.dies_at = random.randrange(150)
            try:
                driver.run(tree)
                break
            except Died:
                continue
        tree = tree.after_kill()
        driver.run(tree)
        assert check(tree, driver) == BATCHES, seed
    tally(rounds)


def test_power_cuts_take_nothing_that_was_committed(
    crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    total = operations()
    rounds = crash_count(40, 5_000)
    for seed in range(rounds):
        random = Random(seed)
        tree, driver = Tree(), Driver()
        die(driver, tree, random.randrange(total))
        for _ in range(random.randint(1, 3)):
            tree = tree.after_power_cut(random)
            tree.dies_at = random.randrange(200)
            try:
                driver.run(tree)
                break
            except Died:
                continue
        tree = tree.after_power_cut(random)
        driver.run(tree)
        assert check(tree, driver) == BATCHES, seed
    tally(rounds)
