"""Small files, whole or not there at all."""

from __future__ import annotations

from contextlib import suppress

from cec_store.errors import StorageError
from cec_store.storage.folder import Folder
from cec_store.storage.names import temporary_name


def publish_file(folder: Folder, name: str, data: bytes) -> None:
    """Put a small file under its name, durably; a reader finds the old one or the new one."""
    temporary = temporary_name(name)
    if temporary in folder.names():
        folder.unlink(temporary)
    write_file(folder, temporary, data)
    folder.rename(temporary, name)
    folder.sync_names()


def write_file(folder: Folder, name: str, data: bytes) -> None:
    """A whole new file with its bytes on disk (its name is not yet); none of it on failure."""
    file = folder.create(name)
    try:
        file.write([data])
        file.sync()
        file.close()
    except StorageError:
        file.close()
        folder.unlink(name)
        raise


def remove(folder: Folder, name: str) -> None:
    """Unlink; nothing where another writer has done so already."""
    with suppress(FileNotFoundError):
        folder.unlink(name)
