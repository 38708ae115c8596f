"""Starts a fleet again whose driver has failed: the paper's section 6, complete failure.

It runs where the cluster does not. All that recovery needs is in the fleet's folder, its queues and
its queries' checkpoints; a driver that begins with few executors starts what has room, and the rest
as they come.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from threading import Event, Thread

from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.setup.environment import start
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import StorageError
from cec_store.standby.leases import KeepAlive, Sighting, Sign, Watch

_LOOK_S = 0.5
_log = logging.getLogger(__name__)


class FleetMonitor:
    """Looks at a fleet's driver, and runs a command whenever it has failed.

    One that was stopped as asked is left alone, until somebody starts it again.

    Raises:
        NotAFleet: there is none in the folder.
        ValueError: no command.
    """

    def __init__(self, folder: FleetFolder, command: Sequence[str]) -> None:
        if not command:
            raise ValueError("give the command that starts the fleet's driver")
        self._folder = folder
        self._command = list(command)
        self.failures = Failures()
        """Failures of the command since a driver has lasted."""
        self._rules = folder.read().rules
        self._driven_since_s: float | None = None
        """Time at which the driver was first seen alive, monotonic."""
        self.starts = 0
        """Number of times it has started the command."""

    def watch(self, ended: Event) -> None:
        """Stay until ``ended`` is set; the started command is not stopped then.

        Raises:
            ValueError: the command cannot be started.
        """
        with closing(self._folder.leases().watch(LEASE)) as watch:
            while not ended.is_set():
                seen = watch.wait((Sign.SILENT,), _LOOK_S)
                if seen.sign is Sign.SILENT:
                    self._count_death(watch.keep_alive)
                    is_due = self.failures.may_start(time.time(), self._rules)
                    if is_due and not self._is_stopped():
                        self._start(watch, seen, ended)
                    else:
                        ended.wait(_LOOK_S)
                elif not seen.is_alive:
                    self._driven_since_s = None
                elif self._driven_since_s is None:
                    self._driven_since_s = time.monotonic()

    def _count_death(self, keep_alive: KeepAlive) -> None:
        """Count a driver that has died soon as a failure; forgive all after one that has lasted.

        A driver that dies again and again is started ever more rarely: each start takes what a
        session takes, and its queries' batches are run again.
        """
        since_s, self._driven_since_s = self._driven_since_s, None
        if since_s is None:
            return
        lived_s = time.monotonic() - since_s
        # It counts as alive until it has been silent for the timeout.
        if lived_s > max(2 * keep_alive.timeout_s, self.failures.wait_s(self._rules)):
            self.failures = self.failures.forgiven()
            return
        reason = f"its driver was silent after {lived_s:.0f} s"
        self.failures = self.failures.after(reason, time.time(), self._rules)

    def _is_stopped(self) -> bool:
        """Return True if the fleet was to stop when its driver fell silent, or nobody can tell."""
        try:
            return self._folder.requests().is_stop_asked
        except StorageError as error:
            _log.warning("%s: %s", self._folder.path, error)
            return True

    def _start(self, watch: Watch, seen: Sighting, ended: Event) -> None:
        """Run the command, and wait until it drives the fleet, or has ended without that."""
        told = f"{self._folder.path}: its driver is silent ({seen.holder})"
        _log.warning("%s: %s", told, " ".join(self._command))
        self.starts += 1
        process = start(self._command)
        # A thread waits for the command, so that it does not stay as a zombie.
        Thread(target=process.wait, name="cec-fleet-command", daemon=True).start()
        while process.poll() is None and not ended.is_set():
            if watch.wait((Sign.ALIVE, Sign.RELEASED), _LOOK_S).sign is not Sign.SILENT:
                return
        if process.poll() is not None:
            reason = f"{self._command[0]} has ended with status {process.returncode}"
            self.failures = self.failures.after(reason, time.time(), self._rules)
            wait_s = self.failures.until_s - time.time()
            _log.warning("%s: %s; again in %.0f s", self._folder.path, reason, wait_s)
