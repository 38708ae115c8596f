"""Owners and modes of files, and the umask by which new ones get theirs."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_STATUS = "/proc/self/status"
_FILES_MAX = 50_000


@dataclass(frozen=True)
class Ownership:
    """Files and folders at a path and below it, as far as they were looked at."""

    files: int
    owners: tuple[str, ...]
    """Names of the users to whom they belong, in order."""
    unreadable: str | None
    """The first one that this user may not read, or not enter."""
    unwritable: str | None
    """The first one that this user may not write to."""
    newest_s: float
    """Newest time at which one of them was changed, in seconds since 1970."""


def ownership_of(path: str) -> Ownership:
    """Look at a path and at the files below it, at 50,000 of them at most."""
    owners: set[str] = set()
    unreadable = unwritable = None
    files, newest_s = 0, 0.0
    for file, status in _statuses(path):
        files += 1
        owners.add(user_name(status.st_uid))
        newest_s = max(newest_s, status.st_mtime)
        if unreadable is None and not _may(file, os.R_OK):
            unreadable = file
        if unwritable is None and not _may(file, os.W_OK):
            unwritable = file
        if files == _FILES_MAX:
            break
    return Ownership(files, tuple(sorted(owners)), unreadable, unwritable, newest_s)


def may_be_written(path: str) -> bool:
    """Return True if this user may write to a path, or make it where it is missing."""
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    is_folder_above = above == os.path.abspath(path) or os.path.isdir(above)
    return is_folder_above and _may(above, os.W_OK)


def user_name(number: int) -> str:
    """Return the name of a user, and the number where the system knows no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def this_user() -> str:
    """Return the name of the user as whom this process acts."""
    return user_name(os.geteuid())


def umask() -> int:
    """Return the umask of this process, which stays as it is."""
    with suppress(OSError), open(_STATUS, encoding="ascii", errors="replace") as status:
        if match := re.search(r"^Umask:\s*([0-7]+)$", status.read(), re.MULTILINE):
            return int(match[1], 8)
    mask = os.umask(0o077)  # it cannot be asked for without setting it
    os.umask(mask)
    return mask


def _may(path: str, how: int) -> bool:
    return os.access(path, how, effective_ids=os.access in os.supports_effective_ids)


def _statuses(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a path and those below it, each with its status; one that is gone is left out."""
    with suppress(OSError):
        yield path, os.stat(path)
    for folder, folders, names in os.walk(path):
        for name in sorted((*folders, *names)):
            file = os.path.join(folder, name)
            with suppress(OSError):
                yield file, os.lstat(file)
