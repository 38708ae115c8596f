"""Executors under a fleet with files and a function among its members: killed, and taken away."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cec_store import NotAQueue, read_queue
from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.fleet.notes import Notes
from support.fleets import diamond
from support.fleets.members import COSTS
from support.spark.killed_runs import Driver
from support.spark.standalone import wait_for

pytest.importorskip("pyspark")
LIFE_S_MAX = 1800.0
EXECUTORS = 3
CONF = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.excludeOnFailure.enabled": "false",
}


class MembersRun:
    def __init__(self, folder: Path, **conf: str) -> None:
        self.folder, self.rows = folder, 0
        self.fleet = FleetFolder(folder / "fleet")
        (folder / "in").mkdir()
        order = {
            "folder": str(folder), "fleet": "members", "costs": COSTS,
            "master": f"local-cluster[{EXECUTORS},1,700]",
            "rules": {"checkpoint_s": 1000.0, "wait_first_s": 0.2}, "conf": {**CONF, **conf},
        }  # fmt: skip
        self.feed()
        self.driver = Driver("fleet_job", order, folder / "driver.log", LIFE_S_MAX)
        self._events = self.driver.events()
        assert "started" in next(self._events), self.tail()

    def feed(self) -> None:
        """A file with two rows more."""
        new = self.folder / f"{self.rows}.new"
        rows = [self.rows, self.rows + 1]
        pq.write_table(pa.table({"v": pa.array(rows, pa.int64())}), new)
        new.rename(self.folder / "in" / f"{self.rows}.parquet")
        self.rows += 2

    def executors(self) -> list[int]:
        """Their process ids; those of this driver's session alone."""
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
                words = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            is_executor = any(word.endswith("CoarseGrainedExecutorBackend") for word in words)
            if int(stat[3]) == self.driver.process.pid and is_executor:
                pids.append(int(folder.name))
        return pids

    def kill(self, count: int) -> None:
        for pid in self.executors()[:count]:
            os.kill(pid, signal.SIGKILL)

    def outputs(self) -> dict[str, list[int]]:
        try:
            landed = read_queue(self.folder / "landed").read_all()["v"].to_pylist()
        except NotAQueue:
            landed = []
        told = [v for path in self.folder.glob("told-*.json") for v in json.loads(path.read_text())]
        return {"landed": sorted(landed), "told": sorted(told), "saved": self.saved()}

    def saved(self) -> list[int]:
        """Rows of the files that Spark's sink has noted."""
        lines = [
            json.loads(line)
            for path in (self.folder / "saved" / "_spark_metadata").glob("[0-9]*")
            for line in path.read_text().splitlines()[1:]
        ]
        paths = {line["path"].removeprefix("file://") for line in lines}
        return sorted(v for path in paths for v in pq.read_table(path)["v"].to_pylist())

    def await_rows(self) -> None:
        wanted = {name: list(range(self.rows)) for name in ("landed", "told", "saved")}
        wait_for(lambda: self.outputs() == wanted, lambda: f"{self.outputs()} {self.tail()}",
                 diamond.DEADLINE_S)  # fmt: skip

    def await_notes(self, is_so: Callable[[Notes], bool]) -> Notes:
        wait_for(lambda: is_so(self.fleet.read()), lambda: f"{self.fleet.read()} {self.tail()}",
                 diamond.DEADLINE_S)  # fmt: skip
        return self.fleet.read()

    def stop(self) -> None:
        self.fleet.ask(STOP)
        assert [event for event in self._events if "stopped" in event], self.tail()
        assert self.driver.close() == 0, self.tail()

    def tail(self) -> str:
        return self.driver.log.read_text(errors="replace")[-3000:]


@contextmanager
def members_run(folder: Path, **conf: str) -> Iterator[MembersRun]:
    run = MembersRun(folder, **conf)
    try:
        yield run
    finally:
        run.driver.kill()
        run.driver.close()


def is_whole(notes: Notes) -> bool:
    return notes.situation.outage is None and len(notes.situation.executors) == EXECUTORS


@pytest.mark.crash
def test_members_are_held_back_when_executors_are_killed_and_all_rows_are_right_at_the_end(
    tmp_path: Path, crash_count: Callable[[int, int], int], tally: Callable[[int], None]
) -> None:
    count = crash_count(1, 30)
    with members_run(tmp_path) as run:
        run.await_rows()
        for number in range(count):
            run.await_notes(is_whole)
            run.feed()
            run.kill(EXECUTORS - (number + 1) % 2)
            run.feed()
            notes = run.await_notes(lambda notes: notes.situation.outage is not None)
            assert notes.situation.outage is not None
            assert "saved" not in notes.situation.outage.running
            run.feed()
            run.await_notes(is_whole)
            if number % 10 == 9:
                run.await_rows()
        run.await_rows()
        assert run.fleet.read().missing.expected == EXECUTORS
        run.stop()
    tally(count)
    asked = (tmp_path / "asked").read_text().split()
    assert asked, "it was not asked for what was missing"
    assert {*map(int, asked)} <= {*range(1, EXECUTORS + 1)}


def test_executors_that_dynamic_allocation_takes_away_are_no_failure(
    tmp_path: Path,
) -> None:
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": str(EXECUTORS),
    }
    with members_run(tmp_path, **conf) as run:
        run.await_rows()
        run.await_notes(lambda notes: len(notes.situation.executors) == 1)
        notes = run.fleet.read()
        assert (notes.situation.outage, notes.situation.lost) == (None, 0)
        assert notes.missing.since_s is None
        run.feed()
        run.await_rows()
        run.kill(1)
        run.await_notes(lambda notes: notes.situation.lost > 0)
        run.feed()
        run.await_rows()
        run.stop()
