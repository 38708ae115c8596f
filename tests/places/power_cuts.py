"""The power of a disk is cut under mounts that lie on it, with a writer at work in a queue there.

Run by hand as root, with /dev/fuse, loop devices and the Debian packages of each mount:
`PYTHONPATH=tests .venv/bin/python -m places.power_cuts NAME … [--cuts 300]`; without a name all
mounts, one after the other; `--old-folder` where a queue's folder is there long before. Prints a
line for each mount and sync mode, for docs/where.md: cuts after which something was lost that had
been acknowledged, and the first of these.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from support.disks.layered_disk import KINDS, LayeredDisk
from support.disks.loop_disk import folder_in_memory
from support.disks.power_cuts import SYNC_MODES, Cuts, left_of_unsynced
from support.processes.writer_processes import Server


def tried(kind: str, cuts_each: int, old_folder: bool) -> bool:
    """Return whether all that was acknowledged was there after each cut."""
    held, server = True, Server()
    try:
        for sync in SYNC_MODES:
            with tempfile.TemporaryDirectory() as other, folder_in_memory(Path(other)) as folder:
                disk = LayeredDisk(folder, kind)
                try:
                    left = left_of_unsynced(disk)
                    assert left == b"synced", f"{kind}: a cut takes nothing, {left!r} is left"
                    held = cut_often(disk, server, sync, cuts_each, old_folder) and held
                finally:
                    disk.close()
    finally:
        server.close()
    return held


def cut_often(disk: LayeredDisk, server: Server, sync: str, count: int, old_folder: bool) -> bool:
    cuts, faults, started = Cuts(disk, server, sync, old_folder=old_folder), [], time.monotonic()
    for _ in range(count):
        try:
            cuts.cut_once()
        except AssertionError as error:
            faults.append(str(error))
    print(f"{disk.kind}, {date.today()}, {sync}: {count} cuts, {len(faults)} lost something, "
          f"{cuts.recovered} recoveries had something to do, {cuts.frames} frames at most, "
          f"{time.monotonic() - started:.0f} s", flush=True)  # fmt: skip
    for fault in faults[:2]:
        print(f"  {fault}", flush=True)
    return not faults


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(KINDS))
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--old-folder", action="store_true")
    asked = parser.parse_args(words)
    held = [
        tried(name, -(-asked.cuts // len(SYNC_MODES)), asked.old_folder) for name in asked.names
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
