"""Who hears how a demo goes on."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Hears how the demo goes on."""

    def advance(self, run: str, done: int, total: int) -> None:
        """One of the demo's runs has come so far."""

    def tell(self, text: str) -> None:
        """Something happened."""
