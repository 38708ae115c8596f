"""What the system says about a file, in the store's own errors and words."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from cec_store.errors import DiskFull, ReadOnly, StorageError, Unreadable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def os_errors_of(path: str, *, reading: bool = False) -> Iterator[None]:
    """Turn what the system says about ``path`` into the store's own errors."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                f"{path}: no space left ({error.strerror}); free some and reopen"
            ) from error
        if error.errno in _DENIED and reading:
            what = f"may not be read by {_me()} ({error.strerror}); {_whose(path)}"
            raise Unreadable(f"{path}: {what}") from error
        if error.errno in _DENIED:
            what = f"cannot be written by {_me()} ({error.strerror}); {_whose(path)}"
            raise ReadOnly(f"{path}: {what}") from error
        raise StorageError(f"{path}: {error.strerror or error}") from error


def _me() -> str:
    return _user(os.geteuid())


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _whose(path: str) -> str:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return _whose(os.path.dirname(path))
    except OSError:
        return "a folder above it may not be entered"
    return f"{path} belongs to {_user(found.st_uid)}, mode {stat.S_IMODE(found.st_mode):04o}"
