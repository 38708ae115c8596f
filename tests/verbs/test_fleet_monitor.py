"""A fleet whose driver has died is started again by whoever watches it."""

import os
import signal
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.fleet.rules import KEEP_ALIVE
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import NotAFleet
from cec_store.standby.leases import KeepAlive, Leases, Sighting, Sign, leases_of
from cec_store.verbs.fleet import monitor as monitor_module
from cec_store.verbs.fleet.monitor import FleetMonitor
from support.fleets import diamond
from support.spark.standalone import wait_for

RULE = KeepAlive(0.1, 10)
"""A driver on a busy machine is not silent for that long."""
DRIVER = f"""
import os, sys, time
from pathlib import Path
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.standby.leases import KeepAlive, leases_of
folder, how = Path(sys.argv[1]), sys.argv[2]
with (folder / "pids").open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
if how == "fails":
    sys.exit(3)
with leases_of(folder).hold(LEASE, keep_alive=KeepAlive({RULE.period_s}, {RULE.misses})):
    while not (folder / "stop").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    """Of a fleet that was declared, and whose driver has failed."""
    diamond.make_input(tmp_path)
    fleet = diamond.declared(tmp_path, wait_first_s=0.05)
    fleet.folder.write(fleet.noted(fleet.checked()))
    leases_of(fleet.folder.path).hold(LEASE, keep_alive=RULE).abandon()
    return fleet.folder


def command(folder: FleetFolder, how: str) -> list[str]:
    return [sys.executable, "-c", DRIVER, folder.path, how]


def pids(folder: FleetFolder) -> list[int]:
    file = Path(folder.path) / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def sign_of(folder: FleetFolder) -> Sign:
    watch = leases_of(folder.path).watch(LEASE)
    try:
        return watch.wait((Sign.RELEASED, Sign.SILENT), 2 * RULE.timeout_s).sign
    finally:
        watch.close()


def test_a_driver_that_dies_is_started_again_and_one_that_was_stopped_is_not(
    folder: FleetFolder,
) -> None:
    ended = Event()
    monitor = FleetMonitor(folder, command(folder, "drives"))
    thread = Thread(target=monitor.watch, args=(ended,))
    thread.start()
    try:
        for times in (1, 2):
            wait_for(lambda times=times: len(pids(folder)) == times, lambda: "it was not started")
            wait_for(lambda: sign_of(folder) is Sign.ALIVE, lambda: "it does not drive")
            os.kill(pids(folder)[-1], signal.SIGKILL)
        wait_for(lambda: len(pids(folder)) == 3, lambda: "it was not started again")
        wait_for(lambda: sign_of(folder) is Sign.ALIVE, lambda: "it does not drive")
        (Path(folder.path) / "stop").touch()
        wait_for(lambda: sign_of(folder) is Sign.RELEASED, lambda: "it does not stop")
    finally:
        ended.set()
        thread.join()
    assert len(pids(folder)) == monitor.starts == 3


def test_a_command_that_fails_is_tried_again_after_twice_as_long(folder: FleetFolder) -> None:
    ended = Event()
    monitor = FleetMonitor(folder, command(folder, "fails"))
    thread = Thread(target=monitor.watch, args=(ended,))
    thread.start()
    try:
        wait_for(lambda: monitor.starts >= 3, lambda: "it was given up")
    finally:
        ended.set()
        thread.join()
    assert monitor.failures.count >= 2
    assert "status 3" in monitor.failures.reason


@dataclass
class DriverDouble:
    """A driver that dies a while after each start, in simulated time; also its watch."""

    lives_s: float
    now_s: float = 1e9
    silent_at_s: float = 1e9
    has_lived: bool = False
    keep_alive = KEEP_ALIVE
    returncode: int | None = None

    def start(self, _command: Sequence[str]) -> "DriverDouble":
        self.silent_at_s = self.now_s + self.lives_s + KEEP_ALIVE.timeout_s
        self.has_lived = True
        return self

    def poll(self) -> int | None:
        return None

    def wait(self, until: Collection[Sign] = (), timeout_s: float = 0.0) -> Sighting:
        sign = Sign.ALIVE if self.now_s < self.silent_at_s else Sign.SILENT
        if sign not in until:
            self.now_s += timeout_s
        return Sighting(sign, has_moved=self.has_lived)

    def close(self) -> None:
        pass


def watched(
    driver: DriverDouble, folder: FleetFolder, monkeypatch: pytest.MonkeyPatch
) -> FleetMonitor:
    """Watch this driver for an hour; return the monitor."""
    end_s = driver.now_s + 3600.0

    class Ended(Event):
        def is_set(self) -> bool:
            return driver.now_s >= end_s

        def wait(self, timeout: float | None = None) -> bool:
            driver.now_s += timeout or 0.0
            return self.is_set()

    def now_s() -> float:
        return driver.now_s

    monkeypatch.setattr(monitor_module, "time", SimpleNamespace(time=now_s, monotonic=now_s))
    monkeypatch.setattr(monitor_module, "start", driver.start)
    monkeypatch.setattr(Leases, "watch", lambda *_: driver)
    monitor = FleetMonitor(folder, ["true"])
    monitor.watch(Ended())
    return monitor


def test_a_driver_that_lives_for_a_moment_is_started_after_ever_longer_waits(
    folder: FleetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = watched(DriverDouble(lives_s=1.0), folder, monkeypatch)
    assert 10 < monitor.starts < 30
    assert "after 6 s" in monitor.failures.reason


def test_a_driver_that_has_lasted_is_started_again_at_once(
    folder: FleetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = watched(DriverDouble(lives_s=60.0), folder, monkeypatch)
    assert monitor.starts > 50
    assert monitor.failures.count == 0


def test_what_cannot_be_watched_is_refused(folder: FleetFolder, tmp_path: Path) -> None:
    with pytest.raises(NotAFleet):
        FleetMonitor(FleetFolder(tmp_path / "none"), ["true"])
    with pytest.raises(ValueError, match="give the command"):
        FleetMonitor(folder, [])
    with pytest.raises(ValueError, match="cannot be started"):
        FleetMonitor(folder, ["/no/such/program"]).watch(Event())


def test_a_fleet_that_was_to_stop_when_its_driver_died_is_left_alone(folder: FleetFolder) -> None:
    lease = folder.leases().hold(LEASE, keep_alive=KeepAlive(0.05, 3))
    folder.ask(STOP)
    lease.abandon()
    monitor, ended = FleetMonitor(folder, ["true"]), Event()
    watching = Thread(target=monitor.watch, args=(ended,))
    watching.start()
    time.sleep(2.0)
    assert monitor.starts == 0
    folder.withdraw(STOP)
    until_s = time.monotonic() + 60
    while not monitor.starts:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    ended.set()
    watching.join()
