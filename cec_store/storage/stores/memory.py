"""``memory://``: objects in this process, for tests and trials."""

from __future__ import annotations

from threading import Lock

from cec_store.storage.stores.file_system import FileSystem

_creating = Lock()
"""fsspec looks and then writes; its objects are shared by the whole process."""


class MemoryFileSystem(FileSystem):
    """Gone with the process: durable is nothing here."""

    creates_exclusively = True

    def create(self, path: str, data: bytes) -> None:
        with _creating:
            self.calls.pipe_file(path, data, mode="create")
