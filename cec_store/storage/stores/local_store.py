"""A tree of local files, each made whole under a hidden name and then linked to its own."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cec_store.errors import DurabilityLost, NoExclusiveCreate, StorageError
from cec_store.storage.forking import Descriptor
from cec_store.storage.local import LocalFolder
from cec_store.storage.local_files import LocalFile, created_file
from cec_store.storage.mounts import is_remote
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.store import Entry, check_object_name, check_range, is_object_name
from cec_store.storage.system_errors import os_errors_of

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
# A broken disk says EIO as well, but not on a mount whose program may lack the call.
_NO_LINKS_REMOTELY = {errno.EIO, errno.ERANGE}


class LocalStore:
    """Objects are files, in folders that are made as they are needed.

    A process that dies in the middle of a create may leave ``.<name>.<random>.tmp`` beside it,
    which no call lists or reads, is nobody's and can be deleted.
    """

    appends = True
    creates_exclusively = True
    racing = None

    def __init__(self, path: AnyPath) -> None:
        """Raises ``ValueError`` for a path that is empty or of another file system."""
        self._root = LocalFolder(path)
        self._durable_folders: set[str] = set()

    @property
    def url(self) -> str:
        return self._root.path

    def _folder_of(self, name: str) -> tuple[LocalFolder, str]:
        folder, _, last = check_object_name(name).rpartition("/")
        return self._at(folder), last

    def _at(self, folder: str) -> LocalFolder:
        return LocalFolder(os.path.join(self._root.path, folder)) if folder else self._root

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        """Make an object as :meth:`Store.create` does, by a hidden file that is linked to its name.

        Raises:
            DurabilityLost: it is there, but a power cut may take its name.
            NoExclusiveCreate: this file system has no hard links; folders that were made for it
                are gone again.
        """
        folder, last = self._folder_of(name)
        path = os.path.join(folder.path, last)
        # Most losers learn it here. What decides is the link.
        if os.path.lexists(path):
            raise _taken(path)
        hidden = os.path.join(folder.path, f".{last}.{secrets.token_hex(8)}.tmp")
        made: list[str] = []
        try:
            try:
                made = self._write(folder, hidden, parts)
                _link(hidden, path)
            finally:
                with suppress(OSError):
                    os.unlink(hidden)
        except NoExclusiveCreate:
            with suppress(OSError):
                for empty in reversed(made):
                    os.rmdir(empty)
            self._durable_folders.difference_update(made)
            raise
        try:
            folder.sync_names()
        except StorageError as error:
            what = "is there, but its name could not be put on disk and may go with the power"
            raise DurabilityLost(f"{path}: {what}; read it again before relying on it") from error

    def _write(self, folder: LocalFolder, path: str, parts: Sequence[bytes]) -> list[str]:
        """Write a file, and return the folders that were made for it."""
        # Once for each folder: whoever has made it may not have put its name on disk yet.
        made = []
        if folder.path not in self._durable_folders:
            made = folder.make_absent()
            self._durable_folders.add(folder.path)
        try:
            descriptor = _created(path)
        except FileNotFoundError:  # somebody has removed it
            made = folder.make_absent()
            descriptor = _created(path)
        file = LocalFile(descriptor)
        try:
            if data := b"".join(parts):
                file.write([data])
            file.sync()
        finally:
            file.close()
        return made

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        check_range(byte, size)
        folder, last = self._folder_of(name)
        with self._files_only(name):
            rest = folder.size(last) - byte
            count = rest if size is None else min(size, rest)
            return folder.read(last, byte, count) if count > 0 else b""

    def size(self, name: str) -> int:
        folder, last = self._folder_of(name)
        with self._files_only(name):
            return folder.size(last)

    def modified_us(self, name: str) -> int:
        path = os.path.join(self._root.path, check_object_name(name))
        with os_errors_of(path, reading=True):
            return os.lstat(path).st_mtime_ns // 1000

    @contextmanager
    def _files_only(self, name: str) -> Iterator[None]:
        """A folder is no object, and nothing is below a file. Other things are refused by name."""
        path = os.path.join(self._root.path, name)
        try:
            yield
        except StorageError as error:
            cause = error.__cause__
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if isinstance(cause, NotADirectoryError) or is_folder:
                raise FileNotFoundError(errno.ENOENT, "no such object", path) from None
            raise

    def list(self, folder: str = "") -> list[Entry]:
        path = self._at(check_object_name(folder) if folder else "").path
        listed = []
        absent = suppress(FileNotFoundError, NotADirectoryError)
        with os_errors_of(path, reading=True), absent, os.scandir(path) as entries:
            for entry in entries:
                if is_object_name(entry.name):
                    listed += _entries_of(entry)
        return sorted(listed)

    def delete(self, names: Iterable[str]) -> None:
        touched = {}
        for name in names:
            folder, last = self._folder_of(name)
            path = os.path.join(folder.path, last)
            nothing = suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError)
            with os_errors_of(path), nothing:
                os.unlink(path)
                touched[folder.path] = folder
        for folder in touched.values():
            folder.sync_names()


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "is there already", path)


def _entries_of(entry: os.DirEntry[str]) -> list[Entry]:
    """Return one entry; none where it has been deleted meanwhile.

    A link, a FIFO or a device is listed as the object in whose place it is: reading refuses it.
    """
    with suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        return [Entry(entry.name, None if stat.S_ISDIR(status.st_mode) else status.st_size)]
    return []


def _created(path: str) -> Descriptor:
    with os_errors_of(path):
        return created_file(path)


def _link(hidden: str, path: str) -> None:
    with os_errors_of(path):
        try:
            os.link(hidden, path)
        except FileExistsError:
            # A network file system that lost its reply answers its own second try so.
            if not _is_same(hidden, path):
                raise _taken(path) from None
        except OSError as error:
            is_lacking = error.errno in _NO_LINKS_REMOTELY and is_remote(path)
            if error.errno not in _NO_LINKS and not is_lacking:
                raise
            what = "this file system has no hard links, by which a file is made once and whole"
            raise NoExclusiveCreate(f"{path}: {what}; use another ({error.strerror})") from error


def _is_same(hidden: str, path: str) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(hidden), os.lstat(path))
    return False
