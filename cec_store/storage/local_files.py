"""Open files of the local file system: regular ones only, each closed with its holder."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cec_store.errors import CorruptLog, DiskFull, ReadOnly, StorageError
from cec_store.storage.forking import Descriptor

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
# A FIFO or a device is opened without waiting for its other end, and then refused.
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NO_FILE = {errno.ELOOP, errno.EISDIR, errno.ENXIO}


@contextmanager
def os_errors_of(path: str) -> Iterator[None]:
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
        if error.errno in _DENIED:
            raise ReadOnly(f"{path}: cannot be written ({error.strerror})") from error
        raise StorageError(f"{path}: {error.strerror or error}") from error


def open_file(path: str, flags: int) -> Descriptor:
    """A regular file; never a link, a folder, or what stands for something else than bytes.

    Raises:
        CorruptLog: something else is in its place.
    """
    try:
        number = os.open(path, flags | _OPEN_FLAGS, 0o600)
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


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """The number of a file that is open for the block; raises as :func:`open_file`."""
    descriptor = open_file(path, flags)
    try:
        yield descriptor.number
    finally:
        descriptor.close()


class LocalFile:
    """Open for writing: at its end, or at any byte."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._path = descriptor.path
        self._descriptor = descriptor

    def write(self, parts: Sequence[bytes]) -> None:
        with os_errors_of(self._path):
            number = self._descriptor.number
            written = os.writev(number, parts)
            rest = memoryview(b"".join(parts))[written:] if written < sum(map(len, parts)) else b""
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
        self._descriptor = descriptor

    def close(self) -> None:
        # No write is lost by an error here: nothing is ever written to this file.
        with suppress(OSError):
            self._descriptor.close()


def created_file(path: str) -> Descriptor:
    """A new file."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.fchmod(descriptor.number, 0o600)  # whatever the umask
    except BaseException:
        descriptor.close()
        raise
    return descriptor


def lock_file(descriptor: Descriptor, shared: bool = False) -> None:
    """Lock or raise ``BlockingIOError``; what could not be locked is closed."""
    try:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor.number, how | fcntl.LOCK_NB)
    except BaseException:
        descriptor.close()
        raise
