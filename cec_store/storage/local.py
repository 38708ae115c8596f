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
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cec_store.errors import DiskFull, NotAQueue, QueueLocked, ReadOnly, StorageError
from cec_store.storage.folder import AppendFile, Lock, check_name

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FILE_BYTES_MAX = 2**62
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_MOUNTS = "/proc/self/mountinfo"
# A FUSE file system may be remote or not, and does not say: taken as remote, but for fuseblk.
_REMOTE = re.compile(r"nfs|cifs|smb|fuse\.|9p|afs|ceph|glusterfs|gpfs|lustre|beegfs|virtiofs")


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


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """A file descriptor for the block."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _LocalAppendFile:
    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._resting: tuple[int, int, int] | None = None
        """Which file it was and how long, while it has no descriptor."""

    def write(self, parts: Sequence[bytes]) -> None:
        with os_errors_of(self._path):
            self._wake()
            written = os.writev(self._descriptor, parts)
            rest = memoryview(b"".join(parts))[written:] if written < sum(map(len, parts)) else b""
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        with os_errors_of(self._path):
            self._wake()
            os.fdatasync(self._descriptor)

    def rest(self) -> None:
        with os_errors_of(self._path):
            if self._descriptor >= 0:
                self._resting = _identity(self._descriptor)
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)

    def _wake(self) -> None:
        if self._resting is None:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if _identity(descriptor) != self._resting:
            os.close(descriptor)
            raise StorageError(f"{self._path}: is not as its writer left it")
        os.lseek(descriptor, 0, os.SEEK_END)
        self._descriptor, self._resting = descriptor, None

    def close(self) -> None:
        self._resting = None
        # Only the first call closes: later the number may stand for another open file.
        descriptor, self._descriptor = self._descriptor, -1
        # Some network file systems report a lost write only here.
        with os_errors_of(self._path):
            if descriptor >= 0:
                os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size


class _LocalLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        # No write is lost by an error here: nothing is ever written to this file.
        with suppress(OSError):
            os.close(self._descriptor)


class LocalFolder:
    """A directory of the local file system: 0700, files 0600, symbolic links not followed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))

    def _at(self, name: str) -> str:
        return os.path.join(self.path, check_name(name))

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Create the directory and make its name durable; nothing if it is there."""
        with os_errors_of(self.path):
            try:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                os.mkdir(self.path, 0o700)
            except FileExistsError:
                if not os.path.isdir(self.path):
                    raise NotAQueue(f"{self.path}: a file is in the way of a folder") from None
                return
            _sync_directory(os.path.dirname(self.path))

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
                return _is_on_remote_mount(os.path.realpath(self.path), lines)
        except OSError:
            return False

    def names(self) -> list[str]:
        with os_errors_of(self.path):
            return sorted(os.listdir(self.path))

    def size(self, name: str) -> int:
        with os_errors_of(self._at(name)):
            return os.stat(self._at(name), follow_symlinks=False).st_size

    def identity(self, name: str) -> tuple[int, ...]:
        """Changes with every change of the file, but for those within a tick of the clock.

        Its last number is when that was: nanoseconds since 1970 UTC.
        """
        with os_errors_of(self._at(name)):
            found = os.stat(self._at(name), follow_symlinks=False)
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``byte``; fewer only where the file ends."""
        path = self._at(name)
        with os_errors_of(path), opened(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
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
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os_errors_of(path):
            descriptor = os.open(path, flags, 0o600)
            try:
                os.fchmod(descriptor, 0o600)  # whatever the umask
            except OSError:
                os.close(descriptor)
                raise
            return _LocalAppendFile(path, descriptor)

    def truncate(self, name: str, size: int) -> None:
        """Cut the file to ``size`` bytes, durably."""
        path = self._at(name)
        with os_errors_of(path), opened(path, os.O_WRONLY | os.O_NOFOLLOW) as descriptor:
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
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise QueueLocked(
                    f"{self.path}: another process has this queue open for append; close it, "
                    "or open with takeover=True if it hangs"
                ) from None
            return _LocalLock(descriptor)


def _sync_directory(path: str) -> None:
    with opened(path or ".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def _is_on_remote_mount(path: str, mounts: Iterable[str]) -> bool:
    """Whether ``path``, without symbolic links, is below a network mount (lines of mountinfo)."""
    path = os.path.join(path, "")
    longest, kind = 0, ""
    for fields in (line.split() for line in mounts):
        # A blank in a path is written as \\040.
        point = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
        point = os.path.join(point, "")
        if path.startswith(point) and len(point) >= longest:
            longest, kind = len(point), fields[fields.index("-") + 1]
    return _REMOTE.match(kind) is not None
