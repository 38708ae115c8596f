"""Waiting for another thread, which an interrupt may end at any moment and do no harm.

A KeyboardInterrupt comes between any two steps of the main thread. The locks of Python that are
written in Python (Condition, Event, Semaphore, Future, and Thread.start and join with them) stay
held when it comes in the middle of their own code, and whoever takes them next waits for ever. Here
nothing is held while a thread waits, and all that it shares with others is changed by single calls
of built-in types, which nothing can interrupt.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

_Result = TypeVar("_Result", covariant=True)


class Bells:
    """Any threads wait here for what one other thread brings about. That one rings."""

    def __init__(self) -> None:
        self._waiting: deque[Lock] = deque()

    def wait_for(self, is_met: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Return once ``is_met`` says so, or with ``False`` after ``timeout_s``."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not is_met():
            bell = Lock()
            bell.acquire()
            self._waiting.append(bell)
            # Asked again: what came about before the bell hung there did not ring it.
            if is_met():
                return True
            left_s = -1 if until_s is None else max(0.0, until_s - time.monotonic())
            if not bell.acquire(timeout=left_s):
                return is_met()
        return True

    def ring(self) -> None:
        """Let everybody who waits ask again. For one thread, and not one that is interrupted."""
        for _ in range(len(self._waiting)):
            self._waiting.popleft().release()


def start_uninterrupted(threads: Sequence[Thread]) -> None:
    """Start threads in one step: none of them is started, or all will be."""

    def start() -> None:
        for thread in threads:
            thread.start()

    start_new_thread(start, ())


class Call(Generic[_Result]):
    """A call that another thread makes, and what came of it."""

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work
        self._results: list[_Result] = []
        self._error: BaseException | None = None
        self._is_open = Lock()
        self._is_open.acquire()

    def make(self, on_error: Callable[[BaseException], None] | None = None) -> None:
        """Make the call, by the other thread and once; :meth:`result` raises what the work raises.

        ``on_error`` is called with it before anybody learns of it.
        """
        assert self._work is not None
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
            if on_error is not None:
                on_error(error)
        self._work = None  # with what it was to work on
        self._is_open.release()

    @property
    def is_made(self) -> bool:
        return self._work is None

    def result(self) -> _Result:
        """Wait for the call to be made, and return or raise what the work returned or raised."""
        with self._is_open:
            if self._error is not None:
                raise self._error
            return self._results[0]


class Workers:
    """Threads that make the calls put to them, in that order."""

    def __init__(self, count: int, name: str) -> None:
        """They are to be started by :func:`start_uninterrupted`."""
        self._calls: SimpleQueue[Call[object] | None] = SimpleQueue()
        self.threads = [
            Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]

    def put(self, call: Call[object]) -> None:
        self._calls.put(call)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()

    def stop(self) -> None:
        """Return once all have ended. Not for a thread that may be interrupted."""
        for _ in self.threads:
            self._calls.put(None)
        for thread in self.threads:
            thread.join()
