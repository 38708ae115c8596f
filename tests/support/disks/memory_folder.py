"""A folder in memory: quick to copy, to compare and to damage. It forgets nothing by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from cec_store.errors import QueueLocked
from cec_store.storage.folder import check_name
from cec_store.storage.names import WRITER_LOCK

Before = Callable[[str, str], None]
"""Called with the call's and the file's name before each call; raises what the call should."""


class MemoryFile:
    def __init__(self, folder: MemoryFolder, name: str) -> None:
        self._folder = folder
        self.name = name
        self.closed = False
        # As an inode: who writes on to a file that was removed writes to no other of its name.
        self._content = folder.files.get(name)

    def write(self, parts: Sequence[bytes]) -> None:
        assert not self.closed
        self._folder.before("write", self.name)
        content = self._content
        if content is None:
            content = self._folder.files.setdefault(self.name, bytearray())
        content.extend(b"".join(parts))

    def sync(self) -> None:
        assert not self.closed
        self._folder.before("sync", self.name)

    def close(self) -> None:
        self._folder.before("close", self.name)
        self.closed = True


class MemoryHeldFile(MemoryFile):
    def write_at(self, byte: int, data: bytes) -> None:
        assert not self.closed
        self._folder.before("write", self.name)
        content = self._folder.held[self]
        content.extend(bytes(max(0, byte + len(data) - len(content))))
        content[byte : byte + len(data)] = data

    def close(self) -> None:
        super().close()
        self._folder.held.pop(self, None)


class MemoryLock:
    def __init__(self, folder: MemoryFolder, name: str) -> None:
        self._folder = folder
        self._name = name

    def close(self) -> None:
        self._folder.locks.discard(self._name)


class MemoryFolder:
    """What :class:`cec_store.storage.folder.Folder` asks for."""

    appends = True

    def __init__(self, files: dict[str, bytes] | None = None, path: str = "/memory") -> None:
        self.path = path
        self.made = files is not None
        self.files: dict[str, bytearray] = {n: bytearray(d) for n, d in (files or {}).items()}
        self.locks: set[str] = set()
        self.opened: list[MemoryFile] = []
        self.held: dict[MemoryHeldFile, bytearray] = {}
        self.before: Before = lambda call, name: None

    @property
    def locked(self) -> bool:
        return bool(self.locks)

    def copy(self) -> MemoryFolder:
        return MemoryFolder({name: bytes(data) for name, data in self.files.items()}, self.path)

    def snapshot(self) -> dict[str, str]:
        """A digest of each file but the lock."""
        return {
            name: hashlib.sha256(data).hexdigest()
            for name, data in self.files.items()
            if name != WRITER_LOCK
        }

    def flip(self, name: str, bit: int) -> None:
        self.files[name][bit // 8] ^= 1 << bit % 8

    def _data(self, call: str, name: str) -> bytearray:
        self.before(call, check_name(name))
        if name not in self.files:
            raise FileNotFoundError(f"{self.path}/{name}")
        return self.files[name]

    def exists(self) -> bool:
        return self.made

    def make(self) -> None:
        self.before("make", "")
        self.made = True

    def names(self) -> list[str]:
        self.before("names", "")
        return sorted(self.files)

    def size(self, name: str) -> int:
        return len(self._data("size", name))

    def read(self, name: str, byte: int, size: int) -> bytes:
        # A copy at once: a view would keep a writer's thread from making the file longer.
        return bytes(self._data("read", name)[byte : byte + size])

    def create(self, name: str) -> MemoryFile:
        self.before("create", check_name(name))
        if name in self.files:
            raise FileExistsError(f"{self.path}/{name}")
        self.files[name] = bytearray()
        self.opened.append(MemoryFile(self, name))
        return self.opened[-1]

    def create_held(self, name: str) -> MemoryHeldFile:
        self.before("create", check_name(name))
        if name in self.files:
            raise FileExistsError(f"{self.path}/{name}")
        self.files[name] = bytearray()
        file = MemoryHeldFile(self, name)
        self.held[file] = self.files[name]
        self.opened.append(file)
        return file

    def is_held(self, name: str) -> bool:
        return any(content is self.files.get(name) for content in self.held.values())

    def truncate(self, name: str, size: int) -> None:
        # Not in place: a reader may be looking at the bytes.
        self.files[name] = self._data("truncate", name)[:size]

    def rename(self, source: str, target: str) -> None:
        self.files[check_name(target)] = self._data("rename", source)
        del self.files[source]

    def unlink(self, name: str) -> None:
        self._data("unlink", name)
        del self.files[name]

    def sync_names(self) -> None:
        self.before("sync_names", "")

    def lock(self, name: str) -> MemoryLock:
        self.before("lock", check_name(name))
        if name in self.locks:
            raise QueueLocked(f"{self.path}: locked")
        self.files.setdefault(name, bytearray())
        self.locks.add(name)
        return MemoryLock(self, name)
