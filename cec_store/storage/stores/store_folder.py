"""A folder of a store, for all that reads folders. What a store cannot do is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import NamedTuple

from cec_store.errors import ReadOnly
from cec_store.storage.folder import AppendFile, HeldFile, check_name
from cec_store.storage.folder import Lock as FolderLock
from cec_store.storage.names import segment_id_of
from cec_store.storage.stores.read_ahead import ReadAhead
from cec_store.storage.stores.store import Entry, Store

_SMALL_BYTES = 64 << 10
_FILE_BYTES_MAX = 2**62
_ADVICE = "do it where the queue is on local files, or use a queue of many partitions"


class _Asked(NamedTuple):
    """An answer of the store that the next call is likely to ask for."""

    what: str
    """The name of an object, or ``/``: the names of all."""
    data: bytes
    names: tuple[str, ...]


class StoreFolder:
    """Objects and folders below a place in a store, read as the files of a directory are.

    Segments are read by blocks (:class:`ReadAhead`), which are forgotten at each listing; whatever
    else is asked for is asked of the store. Only ``size`` reads a small object, and hands it on to
    a ``read`` that is the very next call: ``_lock`` guards what is handed on.
    """

    appends = False

    def __init__(
        self,
        store: Store,
        outer: Callable[[], StoreFolder] | None = None,
        *,
        inside: str = "",
        blocks: ReadAhead | None = None,
    ) -> None:
        """``outer`` makes the folder that the store's root is in; ``None``: it is in none."""
        self.path = f"{store.url}/{inside}" if inside else store.url
        self._store = store
        self._outer = outer
        self._inside = inside
        self._blocks = blocks or ReadAhead(store)
        self._is_there = False
        self._asked: _Asked | None = None
        self._lock = Lock()

    @property
    def root(self) -> Store | None:
        """The store that this folder is the root of."""
        return None if self._inside else self._store

    def _name_of(self, name: str) -> str:
        return f"{self._inside}/{check_name(name)}" if self._inside else check_name(name)

    def _handed_on(self, asked: _Asked | None = None) -> _Asked | None:
        """Return what the last call has left for this one, if any; keep ``asked`` for the next."""
        with self._lock:
            before, self._asked = self._asked, asked
        return before

    # -- reading ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Return True if the folder has entries, or had any when this object listed it earlier."""
        if not self._is_there:
            names = tuple(self._list())
            self._handed_on(_Asked("/", b"", names))
        return self._is_there

    def names(self) -> list[str]:
        """Return the names of objects and folders, sorted; none if the folder is missing."""
        before = self._handed_on()
        if before is not None and before.what == "/":
            return [*before.names]
        return [*self._list()]

    def _list(self) -> dict[str, Entry]:
        entries = {entry.name: entry for entry in self._listed()}
        self._is_there = self._is_there or bool(entries)
        return entries

    def _listed(self) -> list[Entry]:
        # Before the request: what is read from here on is at least as new as the listing.
        self._blocks.forget(self._inside)
        return self._store.list(self._inside)

    def size(self, name: str) -> int:
        """Bytes of an object. Raises ``FileNotFoundError`` where there is none."""
        self._handed_on()
        whole = self._name_of(name)
        if segment_id_of(name) is not None:
            known = self._blocks.end_of(whole)
            return self._store.size(whole) if known is None else known
        data = self._store.read(whole, 0, _SMALL_BYTES)
        if len(data) == _SMALL_BYTES:
            return self._store.size(whole)
        self._handed_on(_Asked(name, data, ()))
        return len(data)

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``byte``; fewer only where the object ends."""
        before = self._handed_on()
        if before is not None and before.what == name:
            return before.data[byte : byte + size]
        if byte >= _FILE_BYTES_MAX:  # a place that a hostile header names
            return b""
        whole = self._name_of(name)
        if segment_id_of(name) is None or size <= 0:
            return self._store.read(whole, byte, size)
        return self._blocks.read(whole, byte, size)

    def folder(self, name: str) -> StoreFolder:
        """A folder inside this one, there or not."""
        return StoreFolder(
            self._store, self._outer, inside=self._name_of(name), blocks=self._blocks
        )

    def folders(self) -> dict[str, StoreFolder]:
        """Return the folders inside this one that exist, by their names."""
        self._handed_on()
        return {entry.name: self.folder(entry.name) for entry in self._listed() if entry.is_folder}

    def above(self) -> StoreFolder:
        """The folder that this one is in, by its path; itself, at the store's own root."""
        if not self._inside:
            return self if self._outer is None else self._outer()
        inside = self._inside.rpartition("/")[0]
        return StoreFolder(self._store, self._outer, inside=inside, blocks=self._blocks)

    def require_readable(self, is_checked: Callable[[str], bool]) -> None:
        """Nothing: only a read shows that it is not allowed."""

    # -- writing ------------------------------------------------------------------------------

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """A new object, whole and durable; errors as for :meth:`Store.create`."""
        self._handed_on()
        self._store.create(self._name_of(name), parts)

    def make(self) -> None:
        """Nothing: a folder is there once there is something in it."""

    def sync_names(self) -> None:
        """Nothing: a name is durable once its object is made."""

    def delete(self, names: Iterable[str]) -> None:
        """Objects in this folder; those that are not there are no error."""
        self._handed_on()
        self._store.delete([self._name_of(name) for name in names])

    def _refused(self, what: str, name: str = "") -> ReadOnly:
        place = f"{self.path}/{name}" if name else self.path
        return ReadOnly(f"{place}: a store of objects has no {what}; {_ADVICE}")

    def create(self, name: str) -> AppendFile:
        raise self._refused("files that are appended to", check_name(name))

    def create_held(self, name: str) -> HeldFile:
        raise self._refused("files that are held open", check_name(name))

    def is_held(self, name: str) -> bool:
        raise self._refused("files that are held open", check_name(name))

    def truncate(self, name: str, size: int) -> None:
        raise self._refused("files that are cut", check_name(name))

    def rename(self, source: str, target: str) -> None:
        raise self._refused("names that are changed", check_name(target))

    def unlink(self, name: str) -> None:
        raise self._refused("files that are removed one by one", check_name(name))

    def remove(self) -> None:
        raise self._refused("folders that are removed")

    def lock(self, name: str) -> FolderLock:
        raise self._refused("locks, which appending, trimming and consumers need", check_name(name))
