"""Opening files that are files: never a link, a folder, a FIFO or a device."""

from __future__ import annotations

import errno
import os
import stat

from cec_store.errors import CorruptLog
from cec_store.storage.forking import Descriptor

# A FIFO or a device is opened without waiting for its other end, and then refused.
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
FILE_MODE = 0o666
"""Mode of a new file before the umask is applied."""
_NO_FILE = {errno.ELOOP, errno.EISDIR, errno.ENXIO}


def open_file(path: str, flags: int) -> Descriptor:
    """A regular file; never a link, a folder, or what stands for something else than bytes.

    Raises:
        CorruptLog: something else is in its place.
    """
    try:
        number = os.open(path, flags | _OPEN_FLAGS, FILE_MODE)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise no_file(path, os.lstat(path).st_mode) from None
        raise
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise no_file(path, mode)
    except BaseException:
        os.close(number)
        raise
    return Descriptor(path, number)  # which closes it from here on


def no_file(path: str, mode: int) -> CorruptLog:
    """The error for what stands in the place of a file."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return CorruptLog(
        path, 0, f"{kind} is in the place of a file",
        "move it away; if the file had been written to, restore it from a copy",
    )  # fmt: skip


class opened:  # noqa: N801 - used as a function; a generator would take longer than a read
    """The number of a file that is open for the block; raises as :func:`open_file`."""

    __slots__ = ("_descriptor", "_flags", "_path")

    def __init__(self, path: str, flags: int) -> None:
        self._path = path
        self._flags = flags

    def __enter__(self) -> int:
        self._descriptor = open_file(self._path, self._flags)
        return self._descriptor.number

    def __exit__(self, *_: object) -> None:
        self._descriptor.close()
