"""A store that counts the calls made of it, for tests of how many a piece of work may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cec_store.storage.stores.store import Entry, Racing, Store


class CountingStore:
    """Any store; ``calls`` has each call by kind with its name, in order.

    What a call costs below it (a size may be one request or two) is the proxy's to count.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[tuple[str, str]] = []

    def counts(self) -> dict[str, int]:
        """Calls by kind; of objects deleted, each counts."""
        return dict(Counter(kind for kind, _ in self.calls))

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def appends(self) -> bool:
        return self.store.appends

    @property
    def creates_exclusively(self) -> bool:
        return self.store.creates_exclusively

    @property
    def racing(self) -> Racing | None:
        return self.store.racing

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        self.calls.append(("create", name))
        self.store.create(name, parts)

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        self.calls.append(("read", name))
        return self.store.read(name, byte, size)

    def size(self, name: str) -> int:
        self.calls.append(("size", name))
        return self.store.size(name)

    def modified_us(self, name: str) -> int:
        self.calls.append(("modified", name))
        return self.store.modified_us(name)

    def list(self, folder: str = "") -> list[Entry]:
        self.calls.append(("list", folder))
        return self.store.list(folder)

    def delete(self, names: Iterable[str]) -> None:
        names = [*names]
        self.calls += [("delete", name) for name in names]
        self.store.delete(names)
