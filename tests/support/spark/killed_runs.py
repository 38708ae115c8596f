"""Drivers that are killed, or kill parts of themselves, and what they leave: output and state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

from cec_store import open_queue
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.drivers.killed_queries import QUERIES, faults_of


class Driver:
    """A Spark driver in a process group of its own."""

    def __init__(
        self, program: str, order: Mapping[str, object], log: Path, life_s_max: float
    ) -> None:
        """Of a module of `support.drivers`; it is killed when it takes longer than that."""
        command = [sys.executable, "-m", f"support.drivers.{program}", json.dumps(order)]
        self.log = log
        self.life_s_max = life_s_max
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )

    def events(self) -> Iterator[dict[str, Any]]:
        watchdog = threading.Timer(self.life_s_max, self.kill)
        watchdog.start()
        try:
            assert self.process.stdout is not None
            yield from map(json.loads, self.process.stdout)
        finally:
            watchdog.cancel()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> int:
        """Its exit status, when it and what it left behind are gone."""
        status = self.process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


def whole_life(
    program: str, order: Mapping[str, object], folder: Path, life_s_max: float
) -> list[dict[str, Any]]:
    """What a driver has said by its end; each word is printed when it is said, so that a run which
    is ended early counts."""
    driver = Driver(program, order, folder / "driver.log", life_s_max)
    said: list[dict[str, Any]] = []
    try:
        for event in driver.events():
            print(json.dumps(event), flush=True)
            said.append(event)
    finally:
        driver.kill()
        status = driver.close()
    if status != 0:
        tail = driver.log.read_text(errors="replace")[-6000:]
        raise AssertionError(f"status {status}, after {said}; its log ends:\n{tail}")
    return said


def output(folder: Path) -> tuple[pa.Table, int]:
    """All rows with their batch, and how many batches there are."""
    paths = sorted((folder / "out").glob("*.arrow"))
    assert [int(path.stem) for path in paths] == list(range(len(paths))), "a batch is missing"
    tables = []
    for batch, path in enumerate(paths):
        table = pyarrow.feather.read_table(path)
        tables.append(table.append_column("batch", pa.array([batch] * len(table), pa.int64())))
    return pa.concat_tables(tables), len(paths)


def check(folder: Path, query: str, partitions: int, provider: str = "cec") -> int:
    """Output and state as they must be; how many batches there are."""
    came, batches = output(folder)
    committed = [int(path.name) for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    assert max(committed) < batches, "a batch is committed whose rows are not there"
    faults = faults_of(QUERIES[query], came, batches)
    assert not faults, "\n".join(faults)
    if provider == "cec":
        check_state(folder / "checkpoint", max(committed), partitions)
    return batches


def check_state(checkpoint: Path, batch: int, partitions: int) -> None:
    """Everything is sound, and every log holds what a restart after this batch needs."""
    stores = {path.parent for path in checkpoint.rglob("*.seg")}
    assert len(stores) >= partitions, "hardly any state was written: the test proves nothing"
    found = verify_place(place_at(checkpoint), deep=True)
    assert found.is_sound, found.faults
    assert {entry.log.folder.path for entry in found.logs} == {str(store) for store in stores}
    for store in stores:
        with open_queue(store) as log:
            assert log.rebuild(at=batch + 1).extent == log.extent(at=batch + 1)
