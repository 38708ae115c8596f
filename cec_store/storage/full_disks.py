"""Tells a full disk from a broken one where LMDB does not."""

from __future__ import annotations

import os

_ROOM_BYTES = 1 << 20
"""LMDB writes less at once; a disk with less room than that is full for it."""
_CUT_SHORT = "Input/output error"


def is_full_disk(error: Exception, path: str) -> bool:
    """Return True if an error of LMDB at this file says that its disk is full.

    A write for which there is no room at all fails with ENOSPC. One that is cut short fails as a
    broken disk does, with an input/output error: the room that is left tells which it is.
    """
    if type(error).__name__ == "DiskError":
        return True
    if _CUT_SHORT not in str(error):
        return False
    try:
        found = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM_BYTES
