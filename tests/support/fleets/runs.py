"""A fleet on a real cluster to which things happen: executors are lost and come, drivers die."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.fleet.notes import Notes
from support.fleets import diamond
from support.spark import archive
from support.spark.killed_runs import Driver
from support.spark.standalone import StandaloneCluster

COSTS = {"parsed": 0.5, "even": 0.3, "odd": 0.3, "counts": 0.4, "joined": 0.8, "tall": 0.3}
"""Of 3.2 planned cores of four; two leave room for `parsed` and `counts`, three for all but one."""
WORKERS = 4
ROWS_AT_ONCE = 10
LIFE_S_MAX = 1800.0
CONF = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    # What a killed executor takes with it is no fault of the tasks.
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.excludeOnFailure.enabled": "false",
}


class FleetRun:
    """Cluster, input and driver, each of which may come to grief alone."""

    def __init__(self, folder: Path, rules: Mapping[str, float] | None = None) -> None:
        self.folder = folder
        self.fleet = FleetFolder(folder / "fleet")
        self.rows = 0
        self._rules = dict(rules or {})
        self._drivers = 0
        diamond.make_input(folder)
        self.feed(60)
        self.cluster = StandaloneCluster(folder / "cluster", WORKERS)
        self.start_driver()

    def feed(self, count: int = ROWS_AT_ONCE) -> None:
        diamond.add_rows(self.folder, self.rows, count)
        self.rows += count

    def start_driver(self) -> None:
        """Returns once it drives."""
        self._drivers += 1
        order = {
            "folder": str(self.folder), "master": self.cluster.url, "costs": COSTS,
            "rules": self._rules,
            "conf": {**CONF, "spark.executor.extraJavaOptions": archive.submit_options()},
        }  # fmt: skip
        log = self.folder / f"driver-{self._drivers}.log"
        self.driver = Driver("fleet_job", order, log, LIFE_S_MAX)
        self._events = self.driver.events()
        assert "started" in next(self._events)

    def kill_driver(self) -> None:
        self.driver.kill()
        self.driver.close()

    def lose(self, count: int, dice: random.Random) -> None:
        """Machines, by SIGKILL."""
        for number in dice.sample(self.cluster.workers, count):
            self.cluster.kill_worker(number)

    def await_notes(self, is_so: Callable[[Notes], bool], what: str) -> Notes:
        end_s = time.monotonic() + diamond.DEADLINE_S
        while not is_so(notes := self.fleet.read()):
            assert time.monotonic() < end_s, f"{what}: {notes}\n{self.tail()}"
            self.feed()
            time.sleep(0.5)
        return notes

    def await_all_running(self) -> Notes:
        def is_so(notes: Notes) -> bool:
            return notes.situation.outage is None and len(notes.situation.executors) == WORKERS

        return self.await_notes(is_so, "not all queries run")

    def stop_driver(self) -> None:
        self.fleet.ask(STOP)
        assert [each for each in self._events if "stopped" in each], self.tail()
        assert self.driver.close() == 0, self.tail()

    def tail(self) -> str:
        return self.driver.log.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.kill_driver()
        self.cluster.stop()


@contextlib.contextmanager
def fleet_run(folder: Path, rules: Mapping[str, float] | None = None) -> Iterator[FleetRun]:
    run = FleetRun(folder, rules)
    try:
        yield run
    finally:
        run.close()
