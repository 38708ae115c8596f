"""A lease that is held: a thread of this process gives signs of life until it is released."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType

from cec_store.errors import StorageError
from cec_store.standby.beats import Beats
from cec_store.standby.lease_format import Beat, BeatKind, Tenure
from cec_store.standby.lease_objects import LeaseObjects
from cec_store.storage.forking import OwnProcess
from cec_store.storage.waiting import Bells, start_uninterrupted

_RELEASE_WAIT_S = 5.0


class Lease:
    """Made by :meth:`Leases.hold`; a context manager, which releases it at its end.

    A process that ends without releasing it falls silent, and so does one that is stopped. A child
    of ``fork`` does not hold it, and releases nothing.
    """

    def __init__(
        self,
        name: str,
        tenure: Tenure,
        beats: Beats,
        objects: LeaseObjects,
        is_alive: Callable[[], bool] = lambda: True,
        note: Callable[[], bytes] = bytes,
    ) -> None:
        """``is_alive``: asked before each beat; while it says no, or hangs, there is none.

        ``note`` returns what each beat tells beside it.
        """
        self.name = name
        self.holder = tenure.holder
        self.number = tenure.number
        """Number of this tenure, above those of all earlier holders."""
        self._tenure = tenure
        self._beats = beats
        self._objects = objects
        self._is_alive = is_alive
        self._note = note
        self._process = OwnProcess()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._ended = Bells()
        self._has_ended = False
        self._is_abandoned = False
        self._is_lost = False
        self._failure: Exception | None = None
        self._beaten_s = time.monotonic()
        start_uninterrupted([Thread(target=self._run, name=f"lease-{name}", daemon=True)])

    @property
    def is_lost(self) -> bool:
        """True once a beat has found another holder; :meth:`check` looks now."""
        return self._is_lost

    def check(self) -> None:
        """Read the place, and raise if there is a newer tenure.

        Raises:
            Fenced: there is one; the holder of this lease must stop.
            Forked: in a child of the process that holds it.
            StorageError: the place cannot be asked; or no sign of life has got there for so long
                that others must take this holder for silent.
        """
        self._process.check(f"{self._objects.url}: the lease")
        if self._is_lost or self._objects.is_over(self.number):
            self._is_lost = True
            raise self._objects.fenced(self._tenure)
        late_s = time.monotonic() - self._beaten_s
        if self._failure is not None and late_s > self._timeout_s:
            what = f"no sign of life has got there for {late_s:.1f} s ({self._failure})"
            raise StorageError(f"{self._objects.url}: {what}") from self._failure

    @property
    def _period_s(self) -> float:
        return self._tenure.period_us / 1e6

    @property
    def _timeout_s(self) -> float:
        return self._period_s * self._tenure.misses

    def _run(self) -> None:
        counter, due_s = 1, time.monotonic() + self._period_s
        try:
            while not self._is_asked_to_end(due_s):
                due_s = max(due_s + self._period_s, time.monotonic())
                if self._beats_on(counter + 1):
                    counter += 1
                if self._is_lost:
                    return
            with suppress(StorageError):  # then it falls silent, which others see a little later
                if not self._is_abandoned and not self._objects.is_over(self.number):
                    self._beats.beat(Beat(counter + 1, BeatKind.RELEASED))
        finally:
            self._beats.close()
            self._has_ended = True
            self._ended.ring()

    def _is_asked_to_end(self, due_s: float) -> bool:
        with suppress(Empty):
            self._bell.get(timeout=max(0.0, due_s - time.monotonic()))
            return True
        return False

    def _beats_on(self, counter: int) -> bool:
        """One sign of life. One that fails is tried again with the next, under its own number."""
        try:
            if self._objects.is_over(self.number):
                self._is_lost = True
                return False
            if not self._is_alive():
                return False
            self._beats.beat(Beat(counter, BeatKind.HELD, self._note()))
        except Exception as error:  # told by check()
            self._failure = error
            return False
        self._failure, self._beaten_s = None, time.monotonic()
        return True

    def release(self) -> None:
        """Release the lease, so that watchers learn that the holder has ended as planned."""
        if self._process.is_other():
            return
        self._bell.put(None)
        self._ended.wait_for(lambda: self._has_ended, _RELEASE_WAIT_S)

    def abandon(self) -> None:
        """Stop the signs of life without a release, so that watchers assume a failure."""
        self._is_abandoned = True
        self.release()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
