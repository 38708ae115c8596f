"""The contract of a folder and its files, which each kind of store keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,126}")


class AppendFile(Protocol):
    """A file open for writing at its end."""

    def write(self, parts: Sequence[bytes]) -> None:
        """Hand all parts to the kernel, in order."""

    def sync(self) -> None:
        """Return once everything written is on disk."""

    def close(self) -> None:
        """Close; errors of the close are raised."""


class HeldFile(Protocol):
    """A file that is written at any place of it, and locked until closed or the process ends."""

    def write_at(self, byte: int, data: bytes) -> None:
        """Hand the bytes to the kernel."""

    def sync(self) -> None:
        """Return once everything written is on disk."""

    def close(self) -> None:
        """Close and let go of it; errors of the close are raised."""


class Lock(Protocol):
    """Held until closed, until nobody refers to it, or until the process ends."""

    def close(self) -> None:
        """Let go."""


class Folder(Protocol):
    """One directory; names are plain file names within it."""

    path: str

    @property
    def appends(self) -> bool:
        """Return True if files here can be appended to, renamed and locked; False in a store."""

    def exists(self) -> bool: ...
    def make(self) -> None: ...
    def names(self) -> list[str]: ...
    def size(self, name: str) -> int: ...
    def read(self, name: str, byte: int, size: int) -> bytes: ...
    def create(self, name: str) -> AppendFile: ...
    def create_held(self, name: str) -> HeldFile: ...
    def is_held(self, name: str) -> bool: ...
    def truncate(self, name: str, size: int) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def unlink(self, name: str) -> None: ...
    def sync_names(self) -> None: ...
    def lock(self, name: str) -> Lock: ...


class FolderTree(Folder, Protocol):
    """A directory with directories in it, on a local disk or in a store."""

    def folder(self, name: str) -> FolderTree:
        """A folder inside this one, there or not."""

    def folders(self) -> Mapping[str, FolderTree]:
        """Return the folders inside this one that exist, by their names."""

    def above(self) -> FolderTree:
        """The folder that this one is in, by its path; itself, at the root."""

    def require_readable(self, is_checked: Callable[[str], bool]) -> None:
        """Raises :class:`Unreadable` where it is known that one of these may not be read."""

    def remove(self) -> None: ...


def check_name(name: str) -> str:
    """A name that cannot leave its folder.

    Raises:
        ValueError: anything but 1 to 127 of ``A-Z a-z 0-9 . _ -``, neither a dot nor a dash first,
            and no dot last.
    """
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ValueError(f"not a file name of this store: {name!r}")
    return name
