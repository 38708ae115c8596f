"""A store whose own clock a test sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cec_store.storage.stores.store import Store
from support.stores.counting import CountingStore


class ClockedStore(CountingStore):
    """Any store; several of these share what ``made`` says of the times of its objects."""

    def __init__(self, store: Store, clock_us: Callable[[], int], made: dict[str, int]) -> None:
        super().__init__(store)
        self.clock_us = clock_us
        self.made = made

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        super().create(name, parts)
        self.made[name] = self.clock_us()

    def modified_us(self, name: str) -> int:
        self.size(name)
        return self.made[name]
