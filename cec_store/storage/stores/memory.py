"""``memory://``: objects in this process, for tests and trials."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from cec_store.storage.stores.file_system import FileSystem
from cec_store.storage.stores.store import Entry

_calling = Lock()
"""fsspec looks and then writes, or reads what it saw; its objects are shared by the process."""


class MemoryFileSystem(FileSystem):
    """Gone with the process: durable is nothing here."""

    creates_exclusively = True
    needs_proof = False

    def create(self, path: str, data: bytes) -> None:
        with _calling:
            self.calls.pipe_file(path, data, mode="create")

    def size(self, path: str) -> int:
        with _calling:
            return super().size(path)

    def modified_us(self, path: str) -> int:
        with _calling:
            return int(self.calls.modified(path).timestamp() * 1_000_000)

    def list(self, path: str) -> list[Entry]:
        with _calling:
            return super().list(path)

    def delete(self, paths: Iterable[str]) -> None:
        with _calling:
            super().delete(paths)
