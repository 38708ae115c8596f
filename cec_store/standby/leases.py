"""Leases: names with at most one live holder, which gives signs of life (the paper's keep-alives).

A lease is a name in a place. Its holder has a *tenure*: a number, taken by creating an object that
only one process can create, and beats, in which a counter moves once a period. A watcher calls the
holder silent when the counter has stood still for ``period_s * misses`` of the watcher's own clock;
no clocks of two machines are compared. The next holder creates the next tenure, which fences the
one before: the old holder finds the new tenure there whenever it wakes up.

Silence proves nothing, because a holder that was stopped may continue at any moment. So each of its
effects has to check the tenure first (:meth:`Lease.check`), or to fail for a reason of its own.
"""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing import current_process
from typing import NamedTuple

from cec_store.errors import StoreUnreachable
from cec_store.standby.beats import Beats
from cec_store.standby.lease import Lease
from cec_store.standby.lease_format import Beat, BeatKind, Cause, Tenure
from cec_store.standby.lease_objects import LeaseObjects
from cec_store.storage.forking import OwnProcess
from cec_store.storage.names import LEASES_FOLDER
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import StorageOptions, folder_at

__all__ = ["KeepAlive", "Lease", "Leases", "Sighting", "Sign", "Watch", "leases_of"]

_FREE_PERIODS = 3
"""Periods without a sign of life after which a lease looks free."""


@dataclass(frozen=True)
class KeepAlive:
    """Period of a holder's signs of life, and how many may be missed; by default as the paper.

    Examples:
        >>> KeepAlive(period_s=0.5, misses=4).timeout_s
        2.0
    """

    period_s: float = 0.1
    misses: int = 3

    def __post_init__(self) -> None:
        is_number = isinstance(self.period_s, int | float) and not isinstance(self.period_s, bool)
        if not is_number or not 0.001 <= self.period_s <= 3600:
            raise ValueError(f"period_s={self.period_s!r}: 0.001 to 3,600 seconds")
        if type(self.misses) is not int or not 1 <= self.misses <= 1000:
            raise ValueError(f"misses={self.misses!r}: a whole number, 1 to 1,000")

    @property
    def timeout_s(self) -> float:
        """Seconds that a holder may be silent."""
        return self.period_s * self.misses


class Sign(Enum):
    """Signs of a holder, as a watcher sees them."""

    NEVER = "never seen"
    """Nobody has held the lease."""
    ALIVE = "alive"
    """The holder gives signs of life, or has not been silent for long enough."""
    SILENT = "silent"
    RELEASED = "released"
    """The holder has let go of it, as it does when it ends as planned."""


class Sighting(NamedTuple):
    """One observation of a lease: the sign of its holder, tenure and holder."""

    sign: Sign
    tenure: int = 0
    """Number of the holder's tenure; 0 where the lease was never held."""
    holder: str = ""
    has_moved: bool = False
    """True if there was a sign of life since the watch began."""

    @property
    def is_alive(self) -> bool:
        """True once the holder has given a sign of life, and has not been silent since."""
        return self.sign is Sign.ALIVE and self.has_moved


class Leases:
    """The leases of one place, each by its name. Made by :func:`leases_of`."""

    def __init__(self, place: AnyPath, options: StorageOptions | None) -> None:
        self._place = place
        self._options = options
        self.path = folder_at(place, options).path
        """Path or URL of the place."""

    def hold(
        self,
        name: str,
        *,
        holder: str | None = None,
        keep_alive: KeepAlive | None = None,
        after: int | None = None,
        is_alive: Callable[[], bool] = lambda: True,
        note: Callable[[], bytes] = bytes,
        cause: Cause = Cause.START,
    ) -> Lease:
        """Become the holder, and stay it until released: a thread of this process gives the beats.

        Waits until no other holder can be alive: as long as the last holder may be silent, unless
        that has released it. With ``after`` it does not wait, but takes over from the
        tenure of this number, which a :class:`Watch` has found silent.

        Args:
            name: Of the lease: 1 to 100 of ``A-Z a-z 0-9 . _ -``.
            holder: What people are told of who holds it; by default this machine and process.
            keep_alive: 100 ms and 3 misses by default.
            after: The number of the tenure that is over; 0 where there was none.
            is_alive: Asked before each sign of life, by that thread. There is none while it hangs
                or says no.
            note: Returns at most 4,096 bytes, which the next sign of life tells to watchers.
            cause: Reason of this tenure, for others.

        Raises:
            LeaseHeld: its holder is alive; or, with ``after``, somebody else was quicker.
            StorageError: the place cannot be read or written.
        """
        objects = self.objects(name)
        rule = keep_alive or KeepAlive()
        told = holder or f"{platform.node()}:{current_process().pid}"
        tenure = Tenure(
            (self._over(objects, name) if after is None else after) + 1,
            told,
            secrets.token_hex(16),
            objects.kept_in,
            round(rule.period_s * 1e6),
            rule.misses,
            cause,
        )
        return Lease(name, tenure, objects.claim(tenure), objects, is_alive, note)

    def check_is_free(self, name: str) -> None:
        """Return where the holder gives no sign of life within a few of its periods.

        This claims nothing, so that only :meth:`hold` is sure. Use it before costly preparations.

        Raises:
            LeaseHeld: its holder is alive.
            StorageError: the place cannot be read.
        """
        seen = self.sight(name)
        if seen.is_alive:
            raise self.objects(name).held(seen.holder)

    def sight(self, name: str, *, locks: bool = True, longest_s: float | None = None) -> Sighting:
        """Look until the holder has given a sign of life, or is silent.

        Args:
            name: Of the lease.
            locks: Without them nothing is written, so that a user who may only read can look.
            longest_s: Seconds to look at most; by default a few of the holder's periods.

        Raises:
            StorageError: the place cannot be read.
        """
        watch = self.watch(name, locks=locks)
        try:
            seen = watch.look()
            rule_s = _FREE_PERIODS * watch.keep_alive.period_s
            end_s = time.monotonic() + (rule_s if longest_s is None else longest_s)
            while seen.sign is Sign.ALIVE and not seen.has_moved and time.monotonic() < end_s:
                time.sleep(watch.pause_s)
                seen = watch.look()
            return seen
        finally:
            watch.close()

    def objects(self, name: str) -> LeaseObjects:
        """Return the objects of one lease.

        Raises:
            ValueError: not a lease's name.
        """
        return LeaseObjects(self._place, self._options, name)

    def names(self) -> list[str]:
        """Return the names of the leases that somebody holds or has held, in order."""
        root = store_at(self._place, self._options)
        return sorted(entry.name for entry in root.list(LEASES_FOLDER) if entry.is_folder)

    def _over(self, objects: LeaseObjects, name: str) -> int:
        """Wait until the last tenure is over, and return its number."""
        watch = Watch(objects, name, None)
        try:
            while True:
                seen = watch.look()
                if seen.sign is not Sign.ALIVE:
                    return seen.tenure
                if seen.has_moved:
                    raise objects.held(seen.holder)
                time.sleep(watch.pause_s)
        finally:
            watch.close()

    def watch(self, name: str, keep_alive: KeepAlive | None = None, *, locks: bool = True) -> Watch:
        """Look at the holder from here on. ``keep_alive``: by default the holder's own is used.

        Without ``locks`` nothing is written, so that a user who may only read can look.

        Raises:
            ValueError: not a lease's name.
        """
        objects = self.objects(name)
        return Watch(objects, name, keep_alive, locks=locks)


def leases_of(path_or_url: AnyPath, storage_options: StorageOptions | None = None) -> Leases:
    """The leases of a queue, a checkpoint or any other place: they stand in ``leases/`` inside it.

    Beats are rows in LMDB where the place is on a disk of this machine, and objects elsewhere.

    Raises:
        ValueError: no such path or URL, or options for local files, which have none.
        StoreNotInstalled, CredentialsRefused: a URL whose store cannot be reached.
        NoExclusiveCreate: two could hold a lease there.

    Examples:
        >>> with leases_of("averages").hold("primary", holder="node 1") as lease:
        ...     lease.check()
    """
    return Leases(path_or_url, storage_options)


class Watch:
    """Watch for the signs of life of a holder. For one thread."""

    def __init__(
        self,
        objects: LeaseObjects,
        name: str,
        keep_alive: KeepAlive | None,
        *,
        locks: bool = True,
    ) -> None:
        self.name = name
        self._objects = objects
        self._locks = locks
        self._given = keep_alive
        self._process = OwnProcess()
        self._tenure: Tenure | None = None
        self._beats: Beats | None = None
        self._beat: Beat | None = None
        self._has_moved = False
        self._silent_s = 0.0
        self._looked_s = time.monotonic()

    @property
    def keep_alive(self) -> KeepAlive:
        """The rule that is followed: the one given here, or else the holder's own."""
        if self._given is None and self._tenure is not None:
            return KeepAlive(self._tenure.period_us / 1e6, self._tenure.misses)
        return self._given or KeepAlive()

    @property
    def note(self) -> bytes:
        """Bytes that the last sign of life told; empty before there was one."""
        return b"" if self._beat is None else self._beat.note

    @property
    def pause_s(self) -> float:
        """Seconds between two looks, for callers with a loop of their own."""
        return self.keep_alive.period_s / 2

    def look(self) -> Sighting:
        """Return what can be seen now; call it about twice in a period.

        However long ago the last look was, it adds no more than a period to the silence: a watcher
        that was stopped itself must not take that for the holder's silence.

        Raises:
            Forked: in a child of the process that watches.
            StorageError: nothing could be seen.
        """
        self._process.check(f"{self._objects.url}: the watch")
        now_s = time.monotonic()
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if self._tenure is None:
            newest = self._objects.newest()
            if newest is None:
                return Sighting(Sign.NEVER)
            self._adopt(newest)
        elif passed_s > self.keep_alive.timeout_s and self._follows_newer(self._objects.newest()):
            # After a pause, beats of an earlier holder may be new to this watcher as well.
            pass
        elif not self._moves(thoroughly=False):
            self._silent_s += min(passed_s, self.keep_alive.period_s)
            if self._is_silent:
                self._moves(thoroughly=True)
        return self._seen()

    def wait(
        self,
        until: Collection[Sign] = (Sign.SILENT, Sign.RELEASED),
        timeout_s: float | None = None,
    ) -> Sighting:
        """Look until it is one of these, or ``timeout_s`` have passed: the last sighting.

        A store that cannot be reached for a while says nothing about the holder, and is asked on.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        seen = Sighting(Sign.NEVER)
        while True:
            with suppress(StoreUnreachable):
                seen = self.look()
                if seen.sign in until:
                    return seen
            if end_s is not None and time.monotonic() >= end_s:
                return seen
            time.sleep(self.pause_s)

    @property
    def _is_silent(self) -> bool:
        return self._silent_s >= self.keep_alive.timeout_s - 1e-9

    def _seen(self) -> Sighting:
        assert self._tenure is not None
        sign = Sign.SILENT if self._is_silent else Sign.ALIVE
        if self._beat is not None and self._beat.kind is BeatKind.RELEASED:
            sign = Sign.RELEASED
        return Sighting(sign, self._tenure.number, self._tenure.holder, self._has_moved)

    def _moves(self, thoroughly: bool) -> bool:
        """Return True if there is a sign of life that was not there before."""
        assert self._tenure is not None
        newest = self._beats.newest(thoroughly) if self._beats else None
        if newest is not None and newest != self._beat:
            self._beat, self._silent_s, self._has_moved = newest, 0.0, True
            return True
        # A takeover counts as the first sign of life of the new holder.
        number = self._tenure.number
        return self._follows_newer(
            self._objects.newest() if thoroughly else self._objects.tenure(number + 1)
        )

    def _follows_newer(self, tenure: Tenure | None) -> bool:
        """Watch this tenure from here on, if it is newer; return True if it is."""
        assert self._tenure is not None
        if tenure is None or tenure.number <= self._tenure.number:
            return False
        self._adopt(tenure)
        self._has_moved = True
        return True

    def _adopt(self, tenure: Tenure) -> None:
        """Watch this tenure from here on."""
        self.close()
        self._beats = self._objects.beats(tenure, locks=self._locks)
        self._beat = self._beats.newest(thoroughly=True) if self._beats else None
        self._tenure, self._silent_s = tenure, 0.0

    def close(self) -> None:
        """Let go of what is open; the next look begins anew."""
        beats, self._beats, self._tenure = self._beats, None, None
        if beats is not None and not self._process.is_other():
            beats.close()
