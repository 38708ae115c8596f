"""A folder of the local file system. Only this file and `trees` touch the file system.

A :class:`Folder` is an argument everywhere, so that tests can hand in one that forgets unsynced
bytes, tears writes or fails calls. What a real folder promises, and no more:

* bytes are safe after :meth:`AppendFile.sync`, names after :meth:`Folder.sync_names`;
* a write may be torn at any byte; a file may grow before its content arrives;
* :meth:`Folder.rename` replaces its target at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cec_store.errors import CorruptLog, NotAQueue, QueueLocked
from cec_store.storage.folder import AppendFile, HeldFile, Lock, check_name
from cec_store.storage.forking import Descriptor
from cec_store.storage.mounts import is_on_remote_mount
from cec_store.storage.system_errors import os_errors_of

_FILE_BYTES_MAX = 2**62
# A FIFO or a device is opened without waiting for its other end, and then refused.
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NO_FILE = {errno.ELOOP, errno.EISDIR, errno.ENXIO}
_MOUNTS = "/proc/self/mountinfo"


def open_file(path: str, flags: int) -> Descriptor:
    """A regular file; never a link, a folder, or what stands for something else than bytes.

    Raises:
        CorruptLog: something else is in its place.
    """
    try:
        number = os.open(path, flags | _OPEN_FLAGS, 0o600)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _no_file(path, os.lstat(path).st_mode) from None
        raise
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise _no_file(path, mode)
    except BaseException:
        os.close(number)
        raise
    return Descriptor(path, number)  # which closes it from here on


def _no_file(path: str, mode: int) -> CorruptLog:
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


class _LocalFile:
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

    def hold(self) -> None:
        """Lock it until it is closed."""
        fcntl.flock(self._descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def sync(self) -> None:
        with os_errors_of(self._path):
            os.fdatasync(self._descriptor.number)

    def close(self) -> None:
        # Some network file systems report a lost write only here.
        with os_errors_of(self._path):
            self._descriptor.close()


class _LocalLock:
    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        # No write is lost by an error here: nothing is ever written to this file.
        with suppress(OSError):
            self._descriptor.close()


class LocalFolder:
    """A directory of the local file system: 0700, files 0600, symbolic links not followed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))

    def _at(self, name: str) -> str:
        return os.path.join(self.path, check_name(name))

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Create the directory, and those above it, and make their names durable.

        From the top down, each name on disk before anything is made below it. One that is there
        already may have been made by a process that died before its name was on disk.
        """
        with os_errors_of(self.path):
            missing = [self.path]
            while not os.path.isdir(above := os.path.dirname(missing[-1])):
                missing.append(above)
            with suppress(PermissionError):  # of somebody else's folder; it was not made here
                _sync_directory(os.path.dirname(above))
            for path in reversed(missing):
                try:
                    os.mkdir(path, 0o700 if path == self.path else 0o777)
                except FileExistsError:
                    if not os.path.isdir(path):
                        raise NotAQueue(f"{path}: a file is in the way of a folder") from None
                _sync_directory(os.path.dirname(path))

    def folder(self, name: str) -> LocalFolder:
        """A folder inside this one."""
        return LocalFolder(self._at(name))

    def remove(self) -> None:
        """Remove this folder with the files in it, as far as nobody makes new ones meanwhile."""
        with os_errors_of(self.path), suppress(FileNotFoundError):
            for name in os.listdir(self.path):
                with suppress(FileNotFoundError):
                    os.unlink(self._at(name))
            try:
                os.rmdir(self.path)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def is_remote(self) -> bool:
        """Whether this is on a network file system, as far as the list of mounts can tell."""
        try:
            with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
                return is_on_remote_mount(os.path.realpath(self.path), lines)
        except OSError:
            return False

    def names(self) -> list[str]:
        with os_errors_of(self.path):
            return sorted(os.listdir(self.path))

    def size(self, name: str) -> int:
        path = self._at(name)
        with os_errors_of(path):
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode):
                raise _no_file(path, found.st_mode)
            return found.st_size

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``byte``; fewer only where the file ends."""
        path = self._at(name)
        with os_errors_of(path), opened(path, os.O_RDONLY) as descriptor:
            # A place that a hostile header names may be none that the system can express.
            data = os.pread(descriptor, size, byte) if byte < _FILE_BYTES_MAX else b""
            while 0 < len(data) < size:
                more = os.pread(descriptor, size - len(data), byte + len(data))
                if not more:
                    break
                data += more
            return data

    def create(self, name: str) -> AppendFile:
        """A new, empty file.

        Raises:
            FileExistsError: the name is taken. Two writers can thus never share a segment.
        """
        path = self._at(name)
        with os_errors_of(path):
            return _created(path)

    def create_held(self, name: str) -> HeldFile:
        """A new, empty file, locked as by :meth:`lock`, under any name that it gets later too.

        Raises:
            FileExistsError: the name is taken.
        """
        path = self._at(name)
        with os_errors_of(path):
            file = _created(path)
            file.hold()  # where it fails, nobody refers to the file any more, which closes it
            return file

    def is_held(self, name: str) -> bool:
        """Whether somebody has this file open from :meth:`create_held`; not where it is gone."""
        path = self._at(name)
        with (
            os_errors_of(path),
            suppress(FileNotFoundError),
            opened(path, os.O_RDONLY) as descriptor,
        ):
            try:
                # Shared, so that two who ask at the same time do not take each other for it.
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def truncate(self, name: str, size: int) -> None:
        """Cut the file to ``size`` bytes, durably."""
        path = self._at(name)
        with os_errors_of(path), opened(path, os.O_WRONLY) as descriptor:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)

    def rename(self, source: str, target: str) -> None:
        with os_errors_of(self._at(target)):
            os.replace(self._at(source), self._at(target))

    def unlink(self, name: str) -> None:
        with os_errors_of(self._at(name)):
            os.unlink(self._at(name))

    def sync_names(self) -> None:
        """Return once names created, renamed and removed here are on disk."""
        with os_errors_of(self.path):
            _sync_directory(self.path)

    def lock(self, name: str) -> Lock:
        """An exclusive lock between processes, gone when its holder dies.

        Raises:
            QueueLocked: somebody else holds it.
        """
        path = self._at(name)
        with os_errors_of(path):
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException as error:
                descriptor.close()
                if not isinstance(error, BlockingIOError):
                    raise
                raise QueueLocked(
                    f"{self.path}: another process has this queue open for append; close it, "
                    "or open with takeover=True if it hangs"
                ) from None
            return _LocalLock(descriptor)


def _created(path: str) -> _LocalFile:
    """A new file."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.fchmod(descriptor.number, 0o600)  # whatever the umask
    return _LocalFile(descriptor)


def _sync_directory(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
