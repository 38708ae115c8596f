"""A fleet to which anything happens, over real queues and checkpoints; Spark is plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from cec_store.connectors.spark.fleet import going_back
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.recovery_plans.density import best_density
from support.fleets import plain_spark
from support.fleets.plain_spark import INPUTS, SHAPE, PlainSpark

EXECUTORS = 4
SETTLED_STEPS = 3000
LOOKS_MAX = 3000


class Walk:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        for name in INPUTS:
            plain_spark.opened(folder / name, retention="consumers").close()
        self.fleet = plain_spark.declared(folder, kept_checkpoints=3)
        self.now_s, self.rows, self.executors = 0.0, 0, EXECUTORS
        self.outages = self.rollbacks = 0
        self.feed()
        self.drive()

    def drive(self) -> None:
        """Whoever drove it before is dead, and has said nothing."""
        self.engine = PlainSpark(EXECUTORS, self.dice, self.executors)
        self.executors += EXECUTORS
        self.driver = driver_of(self.fleet, self.engine, self.now_s)

    def feed(self) -> None:
        for name in INPUTS:
            count = self.dice.randint(0, 3)
            texts = [f"{name} {self.rows + each}" for each in range(count)]
            self.rows += count
            if texts:
                with plain_spark.opened(self.folder / name) as queue:
                    queue.append(pa.table({"v": texts}, schema=plain_spark.ROWS))

    def look(self) -> None:
        self.now_s += self.dice.random()
        before = self.driver.notes.situation.outage
        self.driver.look(self.now_s)
        self.outages += before is None and self.driver.notes.situation.outage is not None

    def until_checkpoint(self) -> None:
        """Until there is a global one."""
        while not self.rows:
            self.feed()
        for _ in range(LOOKS_MAX):
            if self.fleet.folder.checkpoints():
                return
            self.look()
            self.engine.step()
        notes = self.driver.notes
        failures = {query.name: notes.of(query.name).failures.reason for query in notes.declared}
        raise AssertionError(f"no global checkpoint after {LOOKS_MAX} looks: {failures}")

    def fail(self, executors: int = 3) -> None:
        """So many are lost at once, and the driver sees it."""
        for name in sorted(self.engine.there)[:executors]:
            del self.engine.there[name]
        self.look()

    def lose(self) -> None:
        there = sorted(self.engine.there)
        for each in self.dice.sample(there, min(len(there), self.dice.randint(1, 3))):
            del self.engine.there[each]

    def come(self) -> None:
        if len(self.engine.there) < EXECUTORS:
            self.executors += 1
            self.engine.come(str(self.executors))

    def go_back(self) -> None:
        numbers = self.fleet.folder.checkpoints()
        if numbers:
            folder = self.fleet.folder
            wanted = folder.checkpoint(self.dice.choice(numbers))
            going_back.roll_back(folder, folder.read(), wanted, lambda: None)
            self.rollbacks += 1
            self.drive()

    def settle(self) -> None:
        """All executors are there, and all that has come in goes through."""
        while len(self.engine.there) < EXECUTORS:
            self.come()
        for step in range(SETTLED_STEPS):
            self.look()
            for _ in range(10):
                self.engine.step()
            # Not after each step: it reads every queue, all of it.
            if step % 8 == 7 and not self.faults():
                return

    def faults(self) -> list[str]:
        queues = {name: self.folder / name for name in SHAPE}
        return plain_spark.differences(self.folder, queues)

    def run(self, steps: int, *more: Callable[[], None]) -> None:
        happen = [self.feed, self.lose, *[self.come] * 3, self.drive, *more]
        for _ in range(steps):
            self.look()
            for _ in range(self.dice.randint(0, 8)):
                self.engine.step()
            if self.dice.random() < 0.4:
                self.dice.choice(happen)()


def driver_of(fleet: Fleet, engine: PlainSpark, now_s: float) -> FleetDriver:
    graph = fleet.checked()
    return FleetDriver(engine, fleet.folder, lambda: fleet.noted(graph), best_density, now_s=now_s)
