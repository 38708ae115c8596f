"""A folder of the local file system. Only this file, `local_files` and `trees` touch that.

A :class:`.folder.Folder` is an argument everywhere, so that tests can hand in one that forgets
unsynced bytes, tears writes or fails calls. What a real folder promises, and no more:

* bytes are safe after :meth:`AppendFile.sync`, names after ``sync_names``;
* a write may be torn at any byte; a file may grow before its content arrives;
* ``rename`` replaces its target at once.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import nullcontext, suppress

from cec_store.errors import NotAQueue, QueueLocked, ReadOnly, StorageError
from cec_store.storage.folder import AppendFile, HeldFile, Lock, check_name
from cec_store.storage.local_files import (
    LocalFile,
    LocalLock,
    closed_on_failure,
    created_file,
    is_locked_here,
    lock_file,
)
from cec_store.storage.mounts import Mount, is_remote, mount_of
from cec_store.storage.names import probe_name
from cec_store.storage.paths import AnyPath, check_local
from cec_store.storage.regular_files import no_file, open_file, opened
from cec_store.storage.system_errors import os_errors_of

_FILE_BYTES_MAX = 2**62
_grown: set[Mount] = set()
"""Network mounts on which this process has seen a file grow."""


class LocalFolder:
    """A directory of the local file system, in which symbolic links are not followed.

    Modes of folders and files are those that the umask leaves, as of the files that Spark makes.
    """

    appends = True

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
        """Create the directory, and those above it, and make their names durable."""
        self.make_absent()

    def make_absent(self) -> list[str]:
        """Do as :meth:`make`, and return the paths that were not there.

        From the top down, each name on disk before anything is made below it. One that is there
        already may have been made by a process that died before its name was on disk.
        """
        with os_errors_of(self.path):
            missing = [self.path]
            while not os.path.isdir(above := os.path.dirname(missing[-1])):
                missing.append(above)
            with suppress(PermissionError):  # of somebody else's folder; it was not made here
                _sync_directory(os.path.dirname(above))
            made = []
            for path in reversed(missing):
                try:
                    os.mkdir(path)
                    made.append(path)
                except FileExistsError:
                    if not os.path.isdir(path):
                        raise NotAQueue(f"{path}: a file is in the way of a folder") from None
                # One that was there may be in somebody else's folder.
                with nullcontext() if path in made else suppress(PermissionError):
                    _sync_directory(os.path.dirname(path))
            return made

    def folder(self, name: str) -> LocalFolder:
        """A folder inside this one."""
        return LocalFolder(self._at(name))

    def folders(self) -> dict[str, LocalFolder]:
        """The folders inside this one, whatever they are called: Spark has names of its own."""
        with os_errors_of(self.path, reading=True), os.scandir(self.path) as entries:
            inside = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            return {entry.name: LocalFolder(entry.path) for entry in inside}

    def above(self) -> LocalFolder:
        """The folder that this one is in, by its path; itself, at the root."""
        return LocalFolder(os.path.dirname(self.path))

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
        """Return True if this is on a network file system, as far as the mounts tell."""
        return is_remote(self.path)

    def note_of_modes(self) -> str | None:
        """Return a note where the mount sets the modes of files, and not those who make them."""
        mount = mount_of(self.path)
        if mount is None or not mount.sets_modes or not self.exists():
            return None
        mode = stat.S_IMODE(os.stat(self.path).st_mode)
        return (
            f"modes are those of {mount}, {mode:04o} here: neither chmod nor the umask says who "
            "may read and write the files"
        )

    def check_mount(self) -> None:
        """See that a queue can grow here, and say once what its mount risks, where it is known.

        Growing is tried on network mounts only, once each: some take the first write of a file that
        is open to append, and refuse the next, or show another file under its name each time.

        Raises:
            ReadOnly: a queue cannot grow; nothing was left behind.
        """
        mount = mount_of(self.path)
        if mount is None:
            return
        if mount.is_remote and mount not in _grown:
            self._require_growth(mount)
        mount.warn(self.path)

    def _require_growth(self, mount: Mount) -> None:
        """See that a file can grow here and be written at any byte; raises :class:`ReadOnly`."""
        folder = self
        while not folder.exists():
            folder = folder.above()
        try:
            why = folder._growth_fault()
        except ReadOnly:
            return  # whoever writes here next is told the same
        except StorageError as error:
            cause = error.__cause__
            why = str(cause.strerror if isinstance(cause, OSError) else error)
        if why:
            raise ReadOnly(
                f"{self.path}: a queue cannot grow on {mount}: {why}. Mount it in another way "
                "(rclone: --vfs-cache-mode full), give the URL of the store, or use a local disk"
            )
        _grown.add(mount)

    def _growth_fault(self) -> str:
        """Return what goes wrong where a file grows in this folder; empty where nothing does."""
        grown, kept = (probe_name(secrets.token_hex(16)) for _ in range(2))
        try:
            file = self.create(grown)
            try:
                file.write([b"a"])
                file.sync()
                first = self.identity(grown)[:2]
                file.write([b"b"])
                file.sync()
            finally:
                file.close()
            held = self.create_held(kept)
            try:
                for byte, data in ((1, b"b"), (0, b"x"), (0, b"a")):
                    held.write_at(byte, data)
                    held.sync()
            finally:
                held.close()
            if self.identity(grown)[:2] != first:
                return "each look shows another file under the same name"
            if self.read(grown, 0, 3) != b"ab" or self.read(kept, 0, 3) != b"ab":
                return "a file has other bytes than were written to it"
            return ""
        finally:
            for name in (grown, kept):
                with suppress(StorageError, OSError):
                    self.unlink(name)

    def require_readable(self, is_checked: Callable[[str], bool]) -> None:
        """Raises :class:`Unreadable` where one of these files may not be read."""
        for name in filter(is_checked, self.names() if self.exists() else ()):
            path = self._at(name)
            if not os.access(path, os.R_OK, effective_ids=True) and os.path.lexists(path):
                if not stat.S_ISREG(mode := os.lstat(path).st_mode):
                    raise no_file(path, mode)
                with os_errors_of(path, reading=True):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def names(self) -> list[str]:
        with os_errors_of(self.path, reading=True):
            return sorted(os.listdir(self.path))

    def size(self, name: str) -> int:
        path = self._at(name)
        with os_errors_of(path, reading=True):
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                raise no_file(path, status.st_mode)
            return status.st_size

    def identity(self, name: str) -> tuple[int, ...]:
        """Changes with every change of the file, but for those within a tick of the clock.

        Its last number is when that was: nanoseconds since 1970 UTC.
        """
        with os_errors_of(self._at(name), reading=True):
            facts = os.stat(self._at(name), follow_symlinks=False)
            return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``byte``; fewer only where the file ends."""
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
        """A new, empty file, of which every write goes to the end that it then has.

        Raises:
            FileExistsError: the name is taken. Two writers can thus never share a segment.
        """
        path = self._at(name)
        with os_errors_of(path):
            return LocalFile(created_file(path, os.O_APPEND))

    def create_held(self, name: str) -> HeldFile:
        """A new, empty file, locked as by :meth:`lock`, under any name that it gets later too.

        Raises:
            FileExistsError: the name is taken.
        """
        path = self._at(name)
        with os_errors_of(path):
            with closed_on_failure(created_file(path)) as descriptor:
                lock_file(descriptor)
            return LocalFile(descriptor)

    def open_shared(self, name: str) -> HeldFile:
        """Open a file for writes at any byte, beside other processes; make it where it is missing.

        Raises:
            FileNotFoundError: the folder is not there.
            CorruptLog: something else is in the place of the file.
        """
        path = self._at(name)
        with os_errors_of(path):
            return LocalFile(open_file(path, os.O_WRONLY | os.O_CREAT))

    def is_held(self, name: str) -> bool:
        """Return True if this file is locked, as by :meth:`create_held`; False if it is gone."""
        path = self._at(name)
        with os_errors_of(path), suppress(FileNotFoundError):
            descriptor = open_file(path, os.O_RDONLY)
            try:
                # Shared, so that two who ask at the same time do not take each other for it.
                lock_file(descriptor, shared=True)
            except BlockingIOError:
                return True
            finally:
                descriptor.close()
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
                return LocalLock(descriptor)
            except BlockingIOError:
                if is_locked_here(path):
                    what = "this process has this queue open for append already; close it first"
                else:
                    what = "another process has this queue open for append; close it, or open "
                    what += "with takeover=True if it hangs"
                raise QueueLocked(f"{self.path}: {what}") from None


def _sync_directory(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
