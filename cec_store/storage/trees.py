"""Folders with all that is in them: made whole or not at all, sharing files where that can be.

And single files for people, at whatever path they name.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from cec_store.storage.folder import Folder, check_name
from cec_store.storage.local import LocalFolder
from cec_store.storage.paths import AnyPath, check_local
from cec_store.storage.regular_files import opened
from cec_store.storage.system_errors import os_errors_of

_CHUNK_BYTES = 1 << 20
# Another file system, one without links, not one's own file, or as many as a file may have.
_NO_LINK = {
    errno.EXDEV,
    errno.EPERM,
    errno.EACCES,
    errno.EMLINK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
}


def checksums_of(folder: Folder, name: str) -> bytes:
    """Return the bytes of Hadoop's hidden ``.<name>.crc`` beside a file; empty if there is none."""
    if not isinstance(folder, LocalFolder):
        return b""
    path = os.path.join(folder.path, f".{check_name(name)}.crc")
    with os_errors_of(path, reading=True):
        try:
            with opened(path, os.O_RDONLY) as number, open(number, "rb", closefd=False) as file:
                return file.read()
        except FileNotFoundError:
            return b""


def check_new(path: AnyPath) -> LocalFolder:
    """The folder of this path, which is not there yet.

    Raises:
        FileExistsError: something is.
    """
    folder = LocalFolder(path)
    if os.path.lexists(folder.path):
        raise FileExistsError(f"{folder.path}: is there already; name a folder that is not")
    return folder


@contextmanager
def new_tree(path: AnyPath) -> Iterator[LocalFolder]:
    """A folder to be filled; once the block is done it is at ``path``, its name on disk.

    On any failure nothing is left. Killed in the middle, a hidden sibling `.<name>.<random>.tmp`
    is, which is nobody's and can be deleted.

    Raises:
        FileExistsError: there is something at ``path``.
    """
    target = check_new(path)
    parent, name = os.path.split(target.path)
    building = LocalFolder(os.path.join(parent, f".{name}.{secrets.token_hex(4)}.tmp"))
    try:
        building.make()
        yield building
        with os_errors_of(target.path):
            _rename_folder(building.path, target.path)
    except BaseException:
        # Errors of the removal are ignored: they would hide the first one.
        shutil.rmtree(building.path, ignore_errors=True)
        raise
    LocalFolder(parent).sync_names()


def _rename_folder(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOTDIR, errno.EEXIST):
            raise
        raise FileExistsError(f"{target}: somebody else has made it meanwhile") from error


@contextmanager
def new_file(path: AnyPath, replace: bool = False) -> Iterator[BinaryIO]:
    """A file to be written; once the block is done it is at ``path``, on disk and whole.

    On any failure what was there stays, and nothing else. Killed in the middle, a hidden sibling
    `.<name>.<random>.tmp` is left, which is nobody's and can be deleted. Of a symbolic link that is
    to be replaced it is the file that is named.

    Raises:
        FileExistsError: there is something at ``path``, and it is not to be replaced, or no file.
    """
    target = os.path.abspath(check_local(os.fsdecode(path)))
    taken = FileExistsError(f"{target}: is there already; --force replaces it")
    if replace:
        target = os.path.realpath(target)
        if os.path.lexists(target) and not os.path.isfile(target):
            raise FileExistsError(f"{target}: is no file, and is not replaced")
    if os.path.isdir(target) or (os.path.lexists(target) and not replace):
        raise taken
    parent, name = os.path.split(target)
    building = os.path.join(parent, f".{name}.{secrets.token_hex(4)}.tmp")
    with os_errors_of(target):
        file = open(building, "xb")  # noqa: SIM115
    try:
        with os_errors_of(target):
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            if replace:
                os.replace(building, target)
            elif not _link_file(building, target, taken):
                os.rename(building, target)
    finally:
        with suppress(OSError):  # after a failure its buffer cannot be written either
            file.close()
        with suppress(FileNotFoundError):
            os.unlink(building)
    LocalFolder(parent).sync_names()


def _link_file(source: str, target: str, taken: FileExistsError) -> bool:
    """Give a file its name unless that is taken; a rename would replace what is there.

    False where the file system has no links.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise taken from None
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def link(source: LocalFolder, name: str, target: LocalFolder) -> bool:
    """One more name for a file, its bytes on disk; False where the file system has no links.

    Whoever writes to the file then writes to both: only for files that nobody writes to any more.
    """
    old, new = (os.path.join(folder.path, check_name(name)) for folder in (source, target))
    with os_errors_of(old):
        try:
            os.link(old, new, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        # Its writer may never have synced it.
        with opened(new, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)
    return True


def sync_files(folder: LocalFolder) -> None:
    """Return once all files below a folder, and their names, are on disk."""
    inside = folder.folders()
    for name in sorted({*folder.names()} - {*inside}):
        path = os.path.join(folder.path, name)
        with os_errors_of(path), opened(path, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)
    for child in inside.values():
        sync_files(child)
    folder.sync_names()


def copy(source: Folder, name: str, target: Folder, size: int) -> None:
    """The first ``size`` bytes of a file as a new one of the same name, on disk.

    Raises:
        FileNotFoundError: the file is not there, or not that long any more.
    """
    file = target.create(name)
    try:
        for byte in range(0, size, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, size - byte)
            data = source.read(name, byte, length)
            if len(data) < length:
                raise FileNotFoundError(f"{source.path}/{name}: was cut while it was copied")
            file.write([data])
        file.sync()
    finally:
        file.close()
