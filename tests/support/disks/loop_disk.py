"""An ext4 or XFS on a file, whose power can be cut: what was not synced is gone."""

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN: from here on nothing reaches the disk, not even what the journal holds."""
_NO_LOG_FLUSH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)
_JOURNAL_BYTES = 4 << 20
_MAKE = {
    "ext4": (
        *("mkfs.ext4", "-q", "-F", "-b", "4096", "-N", "256"),
        *("-J", f"size={_JOURNAL_BYTES >> 20}"),
    ),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
XFS_BYTES_MIN = 300 << 20


def require_rig(kind: str = "ext4") -> None:
    """Skips, and says why, where the machine cannot do this."""
    cutting = f"cutting the power of a real {kind} takes"
    if os.geteuid() != 0:
        pytest.skip(f"{cutting} root, for a loop device and a mount")
    tools = (_MAKE["ext4"][0], _MAKE.get(kind, [f"mkfs.{kind}"])[0], "losetup")
    missing = [tool for tool in tools if tool_path(tool) is None]
    if missing:
        pytest.skip(f"{cutting} {' and '.join(missing)}")
    if not os.path.exists("/dev/loop-control"):
        pytest.skip(f"{cutting} loop devices, and there are none here")


@contextmanager
def folder_in_memory(otherwise: Path) -> Iterator[Path]:
    """For files whose way to a real disk is not the matter, and would only take time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="cec-test-") as made:
        yield Path(made)


def tool_path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def run(tool: str, *words: str | Path) -> str:
    command = [tool_path(tool) or tool, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{tool} does not work here: {done.stderr.strip()}")
    return done.stdout.strip()


def mount(source: str, target: Path, kind: str, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    if _LIBC.mount(*words, 0, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def unmount(target: Path) -> None:
    """Whoever had files open there has been killed, and may not be all gone yet."""
    for _ in range(500):
        if not _LIBC.umount2(os.fsencode(target), 0):
            return
        number = ctypes.get_errno()
        time.sleep(0.002)
    raise OSError(number, f"unmount {target}: {os.strerror(number)}")


class LoopDisk:
    """Mounted at ``path`` from the start until ``close``."""

    def __init__(self, image: Path, path: Path, size_bytes: int, kind: str = "ext4") -> None:
        self.path = path
        self.kind = kind
        with open(image, "wb") as file:
            file.truncate(size_bytes)
        run(*_MAKE[kind], image)
        self._device = run("losetup", "--find", "--show", image)
        # The loop driver takes a short write for a whole one; of a single page there is none.
        queue = Path("/sys/block", Path(self._device).name, "queue", "max_sectors_kb")
        queue.write_text("4")
        path.mkdir(exist_ok=True)
        self._mounted = False
        try:
            self.mount()
        except OSError as error:
            self.close()
            pytest.skip(f"no {kind} can be mounted here: {error}")

    def mount(self) -> None:
        mount(self._device, self.path, self.kind)
        self._mounted = True

    def unmount(self) -> None:
        unmount(self.path)
        self._mounted = False

    def clear(self) -> None:
        """Remove all that is there, durably: a power cut must not bring it back."""
        for each in self.path.iterdir():
            if each.is_dir() and each.name != "lost+found":
                shutil.rmtree(each)
            elif each.is_file():
                each.unlink()
        self._sync_names()

    def settle(self) -> None:
        """Let all that is there be durable, as it is after a while."""
        run("sync", "--file-system", self.path)

    def write_once_around_the_journal(self) -> None:
        """So that all its blocks have their place below, where the image is a thin one."""
        file = self.path / "around"
        with open(file, "wb", buffering=0) as opened:
            for _ in range(_JOURNAL_BYTES // 4096 // 2):
                opened.write(b"x")
                os.fsync(opened.fileno())
        file.unlink()
        self.restart()

    def _sync_names(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def cut_power(self) -> None:
        """Only what was synced will be there after :meth:`restart`."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def restart(self) -> None:
        """The file system forgets what it had in memory, and replays its journal."""
        self.unmount()
        self.mount()

    def close(self) -> None:
        if self._mounted:
            self.unmount()
        subprocess.run([tool_path("losetup") or "", "--detach", self._device], check=True)
