"""SIGTERM as a wish to stop: the signal by which service managers end what they run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Give a function that returns True once this process was sent SIGTERM.

    For the main thread. What is under way is finished before anybody asks, because an exception
    out of a signal could leave a lease held, or a query running.
    """
    event = Event()
    before = signal.signal(signal.SIGTERM, lambda *_: event.set())
    try:
        yield event.is_set
    finally:
        signal.signal(signal.SIGTERM, before)
