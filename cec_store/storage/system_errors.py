"""Errors of the system about a file, turned into the store's own errors."""

from __future__ import annotations

import errno
import os
import pwd
import stat

from cec_store.errors import CecError, DiskFull, ReadOnly, StorageError, Unreadable

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


_LMDB_ROOM_BYTES = 1 << 20
"""LMDB writes less at once; a disk with less room than that is full for it."""


class os_errors_of:  # noqa: N801 - used as a function; a generator would take longer than a read
    """Turn what the system says about ``path`` into the store's own errors."""

    __slots__ = ("_path", "_reading")

    def __init__(self, path: str, *, reading: bool = False) -> None:
        self._path = path
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and not isinstance(
            error, (CecError, FileNotFoundError, FileExistsError)
        ):
            raise _own_error(self._path, error, self._reading) from error


def is_full_disk(error: Exception, path: str) -> bool:
    """Return True if an error of LMDB at this file says that its disk is full.

    A write for which there is no room at all fails with ENOSPC. One that is cut short fails as a
    broken disk does, with an input/output error: the room that is left tells which it is.
    """
    if type(error).__name__ == "DiskError":
        return True
    if "Input/output error" not in str(error):
        return False
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LMDB_ROOM_BYTES


def _own_error(path: str, error: OSError, reading: bool) -> StorageError:
    if error.errno == errno.ENOSPC:
        return DiskFull(f"{path}: no space left ({error.strerror}); free some and reopen")
    if error.errno == errno.EDQUOT:
        what = f"the quota of {_me()} is used up ({error.strerror})"
        return DiskFull(
            f"{path}: {what}; delete files of that user, or raise the quota, and reopen"
        )
    if error.errno == errno.EFBIG:
        what = f"the file may not grow any more ({error.strerror})"
        advice = "raise that limit (ulimit -f; a FAT disk takes 4 GiB), or make segments smaller"
        return DiskFull(f"{path}: {what}; {advice}, and reopen")
    if error.errno in _DENIED and reading:
        what = f"may not be read by {_me()} ({error.strerror}); {_whose(path)}"
        return Unreadable(f"{path}: {what}")
    if error.errno in _DENIED:
        what = f"cannot be written by {_me()} ({error.strerror}); {_whose(path)}"
        return ReadOnly(f"{path}: {what}")
    return StorageError(f"{path}: {error.strerror or error}")


def _me() -> str:
    return _user(os.geteuid())


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _whose(path: str) -> str:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return _whose(os.path.dirname(path))
    except OSError:
        return "a folder above it may not be entered"
    return f"{path} belongs to {_user(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}"
