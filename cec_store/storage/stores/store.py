"""The contract of a store: a tree of objects under one URL, each made once and whole.

Names are relative and slash-separated; each part is a name as :func:`check_name` has it. What every
store promises, and no more:

* an object is made by one caller alone, appears whole, and never changes;
* it is durable when :meth:`Store.create` returns. A local file may be seen a moment before its name
  is on disk; any later object in its folder puts that name on disk as well;
* an object that is there is listed, and one that was deleted is not.

There is no append, truncate, rename or lock here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from cec_store.storage.folder import check_name


class Entry(NamedTuple):
    """An object or a folder, as the folder that it is in lists it."""

    name: str
    """Within its folder."""
    size: int | None
    """Bytes of an object; ``None`` for a folder."""

    @property
    def is_folder(self) -> bool:
        return self.size is None


class Racing(Protocol):
    """A server whose exclusive creates have to be proven."""

    def server(self) -> str:
        """Return its scheme, address and bucket, without credentials; it makes no request."""

    def race(self, name: str, bodies: Sequence[bytes]) -> int:
        """Create one object with each of these bodies at the same moment, each once.

        Returns how many of them were told that they had made it; no answer counts as no.

        Raises:
            StorageError: a create was refused for a reason that does not pass.
        """


class Store(Protocol):
    """Objects under one URL. Its calls may be made by any threads at the same time."""

    @property
    def url(self) -> str:
        """URL of the store; of a local one its path. It names no credentials."""

    @property
    def appends(self) -> bool:
        """Return True if files here can also be appended to and synced, as by ``LocalFolder``."""

    @property
    def creates_exclusively(self) -> bool:
        """Return True if the store itself lets only one create of each name succeed."""

    @property
    def racing(self) -> Racing | None:
        """Way to prove its creates; ``None`` where they need no proof.

        They need none on local files, in memory of this process, and with one writer alone.
        """

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        """A new object of these bytes, one part after the other; durable on return.

        A remote store may have made an object and fail to say so. Then equal bytes are taken for
        those of this call, so that callers put a random id into every object: of two callers with
        the same bytes both may believe to have made it.

        Raises:
            FileExistsError: the name is taken; what is there was not changed.
            StorageError: it was not made, or the message says that this is not known.
        """

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        """Return ``size`` bytes from ``byte`` on (all: ``None``); fewer if the object ends.

        Raises:
            FileNotFoundError: there is no such object.
        """

    def size(self, name: str) -> int:
        """Bytes of an object. Raises ``FileNotFoundError`` where there is none."""

    def modified_us(self, name: str) -> int:
        """Return when an object was made, by the store's clock: microseconds since 1970.

        Raises ``FileNotFoundError`` where there is none.
        """

    def list(self, folder: str = "") -> list[Entry]:
        """Objects and folders right in this folder (the root: ``""``), sorted by name.

        Nothing for a folder that is not there. A folder that is left without objects may be listed
        or not. What no name of this contract can reach is passed over.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Objects that are not there are no error."""


def check_object_name(name: str) -> str:
    """The name itself.

    Raises:
        ValueError: it is empty, absolute, or one of its parts is no name.
    """
    for part in name.split("/"):
        check_name(part)
    return name


def is_object_name(part: str) -> bool:
    """Return True if this can be one part of an object's name."""
    try:
        check_name(part)
    except ValueError:
        return False
    return True


def check_range(byte: int, size: int | None) -> None:
    """Raises ``ValueError`` for a place before the object, or less than nothing."""
    if byte < 0 or (size is not None and size < 0):
        raise ValueError(f"no range of an object: {size} bytes from {byte}")
