"""A fleet whose driver has died is started again by whoever watches it."""

import os
import signal
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import NotAFleet
from cec_store.standby.leases import KeepAlive, Sign, leases_of
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
