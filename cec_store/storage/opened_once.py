"""Files that a process must not open twice, such as LMDB's: those who use one share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import Generic, Protocol, TypeVar

from cec_store.storage.forking import run_in_children
from cec_store.storage.local import LocalFolder


class _Closable(Protocol):
    def close(self) -> None: ...


_Opened = TypeVar("_Opened", bound=_Closable)
_File = tuple[int, ...]


class Shared(Generic[_Opened]):
    """An open file, and how many use it."""

    def __init__(self, opened: _Opened, file: _File) -> None:
        self.opened = opened
        self.file = file
        self.users = 0


class OpenedOnce(Generic[_Opened]):
    """The files of one kind that this process has open.

    A file is known by its device and inode, because paths to it may differ. A child of ``fork``
    closes what its parent has open, which leaves it open there.
    """

    def __init__(self) -> None:
        self._forget()
        run_in_children(self._begin_child)

    def _forget(self) -> None:
        self._shared: dict[_File, Shared[_Opened]] = {}
        # A collector that runs while it is held may release another file.
        self._lock = RLock()

    def _begin_child(self) -> None:
        inherited = self._shared
        self._forget()
        for shared in inherited.values():
            shared.opened.close()

    def share(
        self, folder: LocalFolder, name: str, open_: Callable[[], _Opened]
    ) -> Shared[_Opened]:
        """Return the file, opened by ``open_`` unless it is open, for one more user.

        Raises:
            FileNotFoundError: ``open_`` has left none.
        """
        with self._lock:
            file: _File | None = None
            with suppress(FileNotFoundError):  # where `open_` is to make it
                file = folder.identity(name)[:2]
            shared = self._shared.get(file) if file else None
            if shared is None:
                opened = open_()
                shared = Shared(opened, file or folder.identity(name)[:2])
                self._shared[shared.file] = shared
            shared.users += 1
            return shared

    def release(self, shared: Shared[_Opened]) -> None:
        """Close the file when its last user is gone."""
        with self._lock:
            shared.users -= 1
            if shared.users == 0:
                if self._shared.get(shared.file) is shared:  # a child has forgotten it
                    del self._shared[shared.file]
                shared.opened.close()
