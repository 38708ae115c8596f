"""Rounds of a writer at work on a disk whose power is cut, and what must be left of its queue."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cec_store.log.epochs import newest_epoch
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from support.processes.writer_processes import Server, require_frames

SYNC_MODES = ("commit", "group", "interval", "none")
ROUNDS_PER_QUEUE = 20


class Cuttable(Protocol):
    """A disk that forgets, when it is cut, what was not synced."""

    path: Path
    kind: str

    def cut_power(self) -> None: ...

    def restart(self) -> None: ...

    def clear(self) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


def left_of_unsynced(disk: Cuttable) -> bytes:
    """What a cut leaves of a file of which one part was synced and one was not; clears the disk."""
    path = disk.path / "file"
    with open(path, "wb") as file:
        file.write(b"synced")
        file.flush()
        os.fsync(file.fileno())
        file.write(b"not synced")
        file.flush()
    disk.cut_power()
    disk.restart()
    left = path.read_bytes()
    disk.clear()  # whoever uses it next begins with an empty disk
    return left


class Cuts:
    """Cuts of one disk under queues of one sync mode, twenty a queue."""

    def __init__(self, disk: Cuttable, server: Server, sync: str, *, old_folder: bool) -> None:
        """``old_folder``: the queue's folder was there, and durable, long before its first row."""
        self.sync, self._disk, self._server = sync, disk, server
        self._old_folder = old_folder
        self._base_seed = 700_000 + SYNC_MODES.index(sync) * 100_000
        self._random = random.Random(self._base_seed)
        self._number = self._queue = self._known = 0
        self.frames = self.recovered = 0
        """The most that a queue had, and openings that had something to recover."""

    def cut_once(self) -> None:
        """Let a writer write, cut, and look at what is left.

        Raises AssertionError, with the place of a copy, where something that was acknowledged is
        not there, or is something else; the next cut begins a new queue.
        """
        if self._number % ROUNDS_PER_QUEUE == 0:
            self._queue += 1
            self._disk.clear()
            self._known = 0
            if self._old_folder:
                (self._disk.path / str(self._base_seed + self._queue - 1)).mkdir()
                self._disk.settle()
        number, self._number = self._number, self._number + 1
        seed = self._base_seed + self._queue - 1
        path = self._disk.path / str(seed)
        acked = self._write_until_the_cut(path, seed)
        self._disk.restart()
        self._known = max(self._known, acked)
        try:
            self._judge(path, seed)
        except Exception as error:
            self._number += -self._number % ROUNDS_PER_QUEUE
            saved = Path(tempfile.mkdtemp(prefix="cec-power-")) / "queue"
            with suppress(OSError):  # of a mount that is broken itself
                shutil.copytree(path, saved)
            raise AssertionError(
                f"{self.sync}, round {number}, seed {seed}: {error!r}\nits files: {saved}"
            ) from error

    def _write_until_the_cut(self, path: Path, seed: int) -> int:
        """How much was acknowledged by then."""
        child = self._server.send(
            path=str(path), seed=seed, round_seed=self._random.random(), frames_max=400,
            sync=self.sync, segment_bytes=self._random.choice((4_000, 40_000)), takeover=False,
            trims=seed % 2 == 1, quiet=True,
        )  # fmt: skip
        # By what it says and not by the clock, so that a slow machine gets as far. A quarter of
        # them are cut while they are still opening, which is to say in recovery.
        acked, said = 0, "acked 0"
        lines = 0 if self._random.random() < 0.25 else self._random.randrange(1, 8)
        for _ in range(lines):
            said = self._server.line()
            if said.startswith("done"):
                break
            acked = int(said.removeprefix("acked "))
        time.sleep(0.004 * self._random.random())
        self._disk.cut_power()
        with suppress(ProcessLookupError):  # it may have been told already, and ended
            os.kill(child, signal.SIGKILL)
        return acked if said.startswith("done") else max(acked, self._server.finish()[0])

    def _judge(self, path: Path, seed: int) -> None:
        if newest_epoch(LocalFolder(path)) is None:
            assert self._known == 0, (
                f"no queue is left, of which {self._known} frames were acknowledged"
            )
            return
        # Without the last note a reader may see less, until it has been opened for append.
        seen = require_frames(path, seed, 0)
        if self._random.random() < 0.5:
            with AppendableQueue(LocalFolder(path), "a") as queue:
                report = queue.report
                self.recovered += report.carried_frames + report.torn_bytes > 0
            self._known = require_frames(path, seed, max(self._known, seen))
        else:
            self._known = max(self._known, seen)
        self.frames = max(self.frames, self._known)
