"""A mount whose files are on a disk of which the power can be cut: what it did not sync is gone.

Below is an ext4 whose power is cut (:mod:`support.disks.loop_disk`); on it stand the folders that a
mount shows in another way, or the image that a kernel or a program mounts. So an image is a disk
with a cache of its own: what was written and not flushed is lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from cec_store.storage.mounts import mount_of
from support.disks.loop_disk import LoopDisk
from support.disks.mount_kinds import MOUNTS, Served

_BYTES = 1 << 30
_START_S = 60
_REPAIRS = {"fuse2fs": ("e2fsck", "-f", "-y")}
"""What whoever starts the machine again runs on the image; its exit status tells of repairs."""
KINDS = ("btrfs", "bindfs", "gocryptfs", "mergerfs", "overlay", "fuse2fs", "ntfs-3g")


class LayeredDisk:
    """Mounted at ``path`` from the start until ``close``, by the command of a kind of mount."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind, self.path = kind, folder / "mounted"
        self.path.mkdir()
        self._below = LoopDisk(folder / "image", folder / "below", _BYTES)
        self._servers = ExitStack()
        try:
            self._served = Served(self._below.path / "low", self.path, self._servers)
            self._served.low.mkdir()
            self._command = MOUNTS[kind](self._served)
            self._below.settle()
            self._process: subprocess.Popen[bytes] | None = None
            self._mount()
        except BaseException:
            self._below.close()
            raise

    def clear(self) -> None:
        """Remove all that can be, durably: a cut may have left folders that nobody can list."""
        for entry in self.path.iterdir():
            if entry.is_dir() and entry.name != "lost+found":
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.is_file():
                entry.unlink()
        self.settle()

    def settle(self) -> None:
        """Let all that is there be durable, as it is after a while."""
        self._unmount()  # a program may keep what it has written until it ends
        self._below.settle()
        self._mount()

    def cut_power(self) -> None:
        """Only what was synced will be there after :meth:`restart`."""
        self._below.cut_power()

    def restart(self) -> None:
        self._unmount()
        self._below.restart()
        repair = _REPAIRS.get(self.kind)
        if repair is not None:
            image = str(self._served.low / "image")
            subprocess.run([*repair, image], check=False, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)  # fmt: skip
        self._mount()

    def close(self) -> None:
        self._unmount()
        self._servers.close()
        self._below.close()

    def _mount(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if not self._served.stays:
            status = self._process.wait(timeout=_START_S)
            assert status == 0, f"{self._command} ended with {status}"
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            mount = mount_of(str(self.path))
            if mount is not None and mount.point == str(self.path):
                return
            time.sleep(0.01)
        raise TimeoutError(f"{self.kind} does not come up")

    def _unmount(self) -> None:
        """Whoever had files open has been killed, and may not be gone; nor what was served."""
        for _ in range(_START_S * 50):
            done = subprocess.run(["umount", self.path], check=False, capture_output=True)
            if done.returncode == 0 or not os.path.ismount(self.path):
                break
            time.sleep(0.02)
        else:
            raise TimeoutError(f"{self.path} cannot be unmounted: {done.stderr!r}")
        if self._process is not None and self._served.stays:
            self._process.wait(timeout=_START_S)
