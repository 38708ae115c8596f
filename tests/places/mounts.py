"""Queues on mounts, with a writer that is killed: rows that were acknowledged are there afterwards.

Run by hand as root, with /dev/fuse, loop devices and the Debian packages that serve each mount:
`PYTHONPATH=tests .venv/bin/python -m places.mounts NAME`; without a name all mounts, one after the
other. Prints a line a mount for docs/where.md, and fails where rows were lost. Mounts are made
below a temporary folder and taken away again (support.disks.mount_kinds).
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa

import cec_store
from cec_store.errors import CecError
from cec_store.storage.mounts import mount_of
from support.disks.mount_kinds import MOUNTS, Made, Served

SCHEMA = pa.schema([("n", pa.int64())])
KILLS = 5
ROWS_A_KILL = 40


@contextmanager
def mounted(made: Made) -> Iterator[Path]:
    """A folder that is mounted."""
    with tempfile.TemporaryDirectory() as work, ExitStack() as servers:
        low, point = Path(work) / "low", Path(work) / "point"
        low.mkdir()
        point.mkdir()
        served = Served(low, point, servers)
        command = made(served)
        process = subprocess.Popen(command, cwd=work)
        try:
            wait_for(point, process, served.stays)
            yield point
        finally:
            unmount(point)
            process.wait(timeout=30)


def unmount(point: Path) -> None:
    """Take a mount away; one that was served may be in use for a moment longer."""
    for _ in range(50):
        if subprocess.run(["umount", str(point)], check=False).returncode == 0:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{point} cannot be unmounted")


def wait_for(point: Path, process: subprocess.Popen[bytes], stays: bool) -> None:
    if not stays:
        assert process.wait(timeout=60) == 0, f"{process.args} ended with {process.returncode}"
    for _ in range(100):
        mount = mount_of(str(point))
        if mount is not None and mount.point == str(point):
            return
        time.sleep(0.1)
    raise TimeoutError(str(point))


def append_until_killed(path: str, partitions: int, first: int) -> None:
    """Append rows one by one, and print each that was acknowledged."""
    given = {"partitions": partitions} if partitions else {}
    with cec_store.open_queue(path, "a", schema=SCHEMA, **given) as queue:
        for number in range(first, first + 1_000_000):
            if partitions:
                queue.append(pa.table({"n": [number]}))
            else:
                queue.append(pa.table({"n": [number]}), sync=True)
            print(number, flush=True)


def killed(path: Path, partitions: int, first: int) -> list[int]:
    """Rows that a writer was told are kept, before it was killed."""
    words = [sys.executable, "-m", "places.mounts", "--append", str(path), str(partitions)]
    process = subprocess.Popen(
        [*words, str(first)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(int(line))
        if len(told) == ROWS_A_KILL:
            process.send_signal(signal.SIGKILL)
    process.wait()
    return told


def tried(folder: Path, partitions: int) -> tuple[bool, str]:
    """Return whether a queue there holds what it must, or is refused; and what was seen."""
    given = {"partitions": partitions} if partitions else {}
    before = set(folder.iterdir())
    try:
        cec_store.open_queue(folder / "q", "a", schema=SCHEMA, **given).close()
    except CecError as error:
        left = ", leaves files" if set(folder.iterdir()) - before else ""
        return True, f"refused ({type(error).__name__}{left})"
    told = []
    for kill in range(KILLS):
        told += killed(folder / "q", partitions, kill * 1_000_000)
    with cec_store.open_queue(folder / "q", "a", schema=SCHEMA, **given):
        pass  # what a writer was not told yet may be there, once a writer has opened it again
    found = cec_store.read_queue(folder / "q").read_all()["n"].to_pylist()
    lost = set(told) - set(found)
    return not lost, f"{len(told)} acknowledged, {KILLS} kills, {len(lost)} lost"


def main(names: list[str]) -> int:
    if names[:1] == ["--append"]:
        append_until_killed(names[1], int(names[2]), int(names[3]))
        return 0
    logging.basicConfig(format="  told: %(message)s")
    held = []
    for name in names or MOUNTS:
        for partitions in (0, 1):
            with mounted(MOUNTS[name]) as folder:
                is_right, said = tried(folder, partitions)
                held.append(is_right)
                kind = "partitions" if partitions else "plain"
                print(f"{name} ({mount_of(str(folder))}), {kind}, {date.today()}: {said}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
