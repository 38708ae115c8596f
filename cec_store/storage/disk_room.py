"""Room that is left on the disk of a path."""

from __future__ import annotations

import os
from dataclasses import dataclass

from cec_store.storage.system_errors import os_errors_of


@dataclass(frozen=True)
class DiskRoom:
    """Bytes and files for which a user without special rights has room, and for which there is."""

    free_bytes: int
    total_bytes: int
    free_files: int
    total_files: int
    """0 where the file system does not count them."""


def room_at(path: str) -> DiskRoom:
    """Return the room on the disk of a path, or of the folder in which it would be.

    Raises:
        StorageError: the system does not say.
    """
    with os_errors_of(path, reading=True):
        while True:
            try:
                disk = os.statvfs(path)
            except FileNotFoundError:
                path = os.path.dirname(os.path.abspath(path))
                continue
            return DiskRoom(
                disk.f_bavail * disk.f_frsize,
                disk.f_blocks * disk.f_frsize,
                disk.f_favail,
                disk.f_files,
            )
