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
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar
from weakref import WeakSet

from cec_store.errors import Forked, NotAQueue, QueueLocked, StorageError
from cec_store.storage.folder import AppendFile, Folder, Lock, SlotFile, check_name
from cec_store.storage.forking import Descriptor
from cec_store.storage.mounts import is_remote
from cec_store.storage.paths import AnyPath, check_local
from cec_store.storage.regular_files import no_file, open_file, opened
from cec_store.storage.system_errors import os_errors_of

_FILE_BYTES_MAX = 2**62


class _LocalFile:
    """Open for writing: at its end, or at any byte."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._path = descriptor.path
        self._descriptor = descriptor
        self._resting: tuple[int, int, int] | None = None
        """Which file it was and how long, while it has no descriptor."""

    def write(self, parts: Sequence[bytes]) -> None:
        with os_errors_of(self._path):
            self._wake()
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
            self._wake()
            os.fdatasync(self._descriptor.number)

    def rest(self) -> None:
        with os_errors_of(self._path):
            if self._descriptor.number >= 0:
                self._resting = _identity(self._descriptor)
                self._descriptor.close()

    def _wake(self) -> None:
        # A closed one too says here whether this is a child of the process that opened it.
        if self._descriptor.number >= 0 or self._resting is None:
            return
        descriptor = open_file(self._path, os.O_WRONLY)
        if _identity(descriptor) != self._resting:
            descriptor.close()
            raise StorageError(f"{self._path}: is not as its writer left it")
        os.lseek(descriptor.number, 0, os.SEEK_END)
        self._descriptor, self._resting = descriptor, None

    def close(self) -> None:
        self._resting = None
        # Some network file systems report a lost write only here.
        with os_errors_of(self._path):
            self._descriptor.close()


def _identity(descriptor: Descriptor) -> tuple[int, int, int]:
    found = os.fstat(descriptor.number)
    return found.st_dev, found.st_ino, found.st_size


class _LocalLock:
    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._file = _file_of(descriptor)
        _locks.add(self)

    def is_on(self, file: tuple[int, int]) -> bool:
        """Whether this process holds this file's lock by it."""
        try:
            return self._file == file and self._descriptor.number >= 0
        except Forked:
            return False

    def close(self) -> None:
        # No write is lost by an error here: nothing is ever written to this file.
        with suppress(OSError):
            self._descriptor.close()


_Folder = TypeVar("_Folder", bound=Folder)
_locks: WeakSet[_LocalLock] = WeakSet()
"""Those that this process has taken."""


def _file_of(descriptor: Descriptor) -> tuple[int, int]:
    found = os.fstat(descriptor.number)
    return found.st_dev, found.st_ino


class LocalFolder:
    """A directory of the local file system: 0700, files 0600, symbolic links not followed."""

    def __init__(self, path: AnyPath) -> None:
        """Raises ``ValueError`` for a path that is empty or of another file system."""
        self.path = os.path.abspath(check_local(os.fsdecode(path)))

    def _at(self, name: str) -> str:
        return os.path.join(self.path, check_name(name))

    def exists(self) -> bool:
        """Raises :class:`Unreadable` where this user may not look."""
        absent = suppress(FileNotFoundError, NotADirectoryError, ValueError)
        with os_errors_of(self.path, reading=True), absent:
            return stat.S_ISDIR(os.stat(self.path).st_mode)
        return False

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
        return is_remote(self.path)

    def require_readable(self, names: Iterable[str]) -> None:
        """Raises :class:`Unreadable` where one of these files may not be read."""
        for name in names:
            path = self._at(name)
            if not os.access(path, os.R_OK, effective_ids=True) and os.path.lexists(path):
                with os_errors_of(path, reading=True):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def names(self) -> list[str]:
        with os_errors_of(self.path, reading=True):
            return sorted(os.listdir(self.path))

    def size(self, name: str) -> int:
        path = self._at(name)
        with os_errors_of(path, reading=True):
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode):
                raise no_file(path, found.st_mode)
            return found.st_size

    def identity(self, name: str) -> tuple[int, ...]:
        """Changes with every change of the file, but for those within a tick of the clock.

        Its last number is when that was: nanoseconds since 1970 UTC.
        """
        with os_errors_of(self._at(name), reading=True):
            found = os.stat(self._at(name), follow_symlinks=False)
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``byte``; fewer only where the file ends."""
        path = self._at(name)
        with os_errors_of(path, reading=True), opened(path, os.O_RDONLY) as descriptor:
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
        return self._create(name)

    def create_slots(self, name: str) -> SlotFile:
        """A new, empty file to be written to in place; raises as :meth:`create`."""
        return self._create(name)

    def _create(self, name: str) -> _LocalFile:
        path = self._at(name)
        with os_errors_of(path):
            descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.fchmod(descriptor.number, 0o600)  # whatever the umask
            return _LocalFile(descriptor)

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
                file = _file_of(descriptor)
                descriptor.close()
                if not isinstance(error, BlockingIOError):
                    raise
                if any(lock.is_on(file) for lock in list(_locks)):
                    what = "this process has this queue open for append already; close it first"
                else:
                    what = "another process has this queue open for append; close it, or open "
                    what += "with takeover=True if it hangs"
                raise QueueLocked(f"{self.path}: {what}") from None
            return _LocalLock(descriptor)


def folder_at(path: AnyPath | _Folder) -> LocalFolder | _Folder:
    """The folder of a path; one that is open already as it is."""
    return LocalFolder(path) if isinstance(path, (str, bytes, os.PathLike)) else path


def _sync_directory(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
