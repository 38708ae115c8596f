"""Which files this process has open."""

import os
from pathlib import Path


def open_below(folder: str | Path) -> list[str]:
    """Paths below `folder` of this process's descriptors, one for each descriptor, sorted.

    Only below a folder: what other tests of the same process left to the garbage collector
    may be closed at any moment.
    """
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing's own descriptor, or one closed since
            continue
    above = os.path.realpath(folder)
    return sorted(path for path in found if path == above or path.startswith(above + "/"))
