"""Lists of mounts that say what a folder is on."""

import os
from pathlib import Path


def list_mount(folder: Path, kind: str, source: str = "source", options: str = "rw") -> Path:
    """A list, in the folder, by which that is on a file system of this kind."""
    device = os.stat(folder).st_dev
    table = folder / "mountinfo"
    table.write_text(
        "22 1 0:1 / / rw - ext4 /dev/a rw\n"
        f"23 22 {os.major(device)}:{os.minor(device)} / {folder.resolve()} rw shared:1 - "
        f"{kind} {source} {options}\n"
    )
    return table
