"""SIGTERM as a wish to stop: the signal by which service managers end what they run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any


class Sigterm:
    """Calls what stops this process's work, from SIGTERM on. For the main thread.

    It raises nothing, because an exception out of a signal could leave a lease held, or a query
    running: what is called only says that the end is wanted.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._stop: Callable[[], object] | None = None
        self._before: Any = None

    def __enter__(self) -> Sigterm:
        self._before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def calls(self, stop: Callable[[], object]) -> None:
        """Call this from now on, and at once where the signal has come already."""
        self._stop = stop
        if self._is_asked:
            stop()

    def _hear(self, *_: object) -> None:
        self._is_asked = True
        if self._stop is not None:
            self._stop()
