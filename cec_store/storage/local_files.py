"""Local files that are open for writing or locked: each is closed with its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from weakref import WeakSet

from cec_store.errors import Forked, QueueReplaced
from cec_store.storage.forking import Descriptor
from cec_store.storage.regular_files import open_file
from cec_store.storage.system_errors import os_errors_of


class LocalFile:
    """Open for writing: at its end, or at any byte."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._path = descriptor.path
        self._descriptor = descriptor
        self._bytes = 0
        """Written at the end."""

    def write(self, parts: Sequence[bytes]) -> None:
        """See :class:`.folder.AppendFile`; raises `QueueReplaced` where others wrote to the file.

        An older copy that is written over the file would be damaged by what comes behind it.
        """
        with os_errors_of(self._path):
            number = self._descriptor.number
            if os.fstat(number).st_size != self._bytes:
                raise QueueReplaced(
                    f"{self._path}: was overwritten while it was open here, as by an older copy. "
                    "Nothing was added to it; open the queue again"
                )
            size = sum(map(len, parts))
            self._bytes += size
            written = os.writev(number, parts)
            rest = memoryview(b"".join(parts))[written:] if written < size else b""
            while rest:
                rest = rest[os.write(number, rest) :]

    def write_at(self, byte: int, data: bytes) -> None:
        with os_errors_of(self._path):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor.number, rest, byte + len(data) - len(rest))
                rest = rest[written:]

    def sync(self) -> None:
        with os_errors_of(self._path):
            os.fdatasync(self._descriptor.number)

    def close(self) -> None:
        # Some network file systems report a lost write only here.
        with os_errors_of(self._path):
            self._descriptor.close()


class LocalLock:
    """A file that is locked for as long as it is open."""

    def __init__(self, descriptor: Descriptor) -> None:
        """Raises ``BlockingIOError`` where somebody else has locked it."""
        with closed_on_failure(descriptor):
            lock_file(descriptor)
            self._file = _identity(os.fstat(descriptor.number))
        self._descriptor = descriptor
        _locks.add(self)

    def is_on(self, file: tuple[int, int]) -> bool:
        """Return True if this process holds, by this lock, the file of that device and inode."""
        try:
            return self._file == file and self._descriptor.number >= 0
        except Forked:
            return False

    def close(self) -> None:
        # No write is lost by an error here: nothing is ever written to this file.
        with suppress(OSError):
            self._descriptor.close()


_locks: WeakSet[LocalLock] = WeakSet()
"""Locks that this process has taken."""


def is_locked_here(path: str) -> bool:
    """Return True if this process holds a :class:`LocalLock` on the file; False if it is gone."""
    try:
        file = _identity(os.stat(path))
    except FileNotFoundError:
        return False
    return any(lock.is_on(file) for lock in list(_locks))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def closed_on_failure(descriptor: Descriptor) -> Iterator[Descriptor]:
    """Yield ``descriptor``, and close it if the block raises: nobody else would."""
    try:
        yield descriptor
    except BaseException:
        descriptor.close()
        raise


def created_file(path: str, more: int = 0) -> Descriptor:
    """Open a new file for writing, with ``more`` flags."""
    return open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | more)


def set_size(path: str, size: int) -> None:
    """Give a file this size, by zeros at its end where it is shorter."""
    os.truncate(path, size)


def lock_file(descriptor: Descriptor, shared: bool = False) -> None:
    """Lock or raise ``BlockingIOError``."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor.number, how | fcntl.LOCK_NB)
