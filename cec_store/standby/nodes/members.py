"""Nodes of a lease, as anybody who can read the place sees them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.standby.leases import Leases, Sighting, Sign, Watch
from cec_store.standby.nodes.election import Member
from cec_store.standby.nodes.notes import NodeNote, decode_note, node_of
from cec_store.standby.nodes.orders import Order, Orders

_log = logging.getLogger(__name__)
_LISTED_EVERY_S = 1.0
_LOOKED_AT_S = 5.0


class Members:
    """Nodes of one lease that run, or have run. For one thread."""

    def __init__(
        self,
        leases: Leases,
        lease: str,
        *,
        locks: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch the nodes of a lease; without ``locks`` nothing is written.

        Then a user who may only read can look.
        """
        self._leases = leases
        self._lease = lease
        self._locks = locks
        self._clock = clock
        self._watches: dict[str, Watch] = {}
        self._listed_s: float | None = None
        self._unsure = True
        self._heard: frozenset[str] = frozenset()
        self._unreadable: set[str] = set()

    def look(self) -> list[Member]:
        """Return the nodes by name; each is alive until it has been silent for long enough.

        Raises:
            StorageError: the place cannot be read.
        """
        self._list()
        members, heard, self._unsure = [], set(), False
        for name, watch in sorted(self._watches.items()):
            seen = self._seen_of(name, watch)
            if seen is None:
                members.append(Member(name, Sign.SILENT, NodeNote()))
                continue
            if seen.sign is Sign.NEVER:  # the folder of a lease that was deleted, or is just begun
                continue
            self._unsure |= seen.sign is Sign.ALIVE and not (seen.has_moved and watch.note)
            if seen.is_alive:
                heard.add(name)
            note = decode_note(watch.note) or NodeNote()
            members.append(Member(name, seen.sign, note))
        self._heard = frozenset(heard)
        return members

    def _seen_of(self, name: str, watch: Watch) -> Sighting | None:
        """Look at a node; ``None`` where its lease cannot be read, which must end no other node."""
        try:
            seen = watch.look()
        except (CorruptLog, UnsupportedVersion) as error:
            if name not in self._unreadable:
                _log.warning("node %s counts as silent: %s", name, error)
            self._unreadable.add(name)
            return None
        self._unreadable.discard(name)
        return seen

    def _list(self) -> None:
        now_s = self._clock()
        if self._listed_s is not None and now_s - self._listed_s < _LISTED_EVERY_S:
            return
        self._listed_s = now_s
        for name in self._leases.names():
            pair = node_of(name)
            if pair is not None and pair[0] == self._lease and pair[1] not in self._watches:
                with suppress(ValueError):  # a folder that no lease could have made
                    self._watches[pair[1]] = self._leases.watch(name, locks=self._locks)

    @property
    def are_unsure(self) -> bool:
        """True until each node has given a sign of life with a note, or is known to be silent."""
        return self._unsure

    @property
    def heard(self) -> frozenset[str]:
        """Names of the nodes that live and have given a sign of life since the watch began.

        Any other note may be what a node left that was killed long ago.
        """
        return self._heard

    @property
    def pause_s(self) -> float:
        """Seconds between two looks: half of the shortest period."""
        return min((watch.pause_s for watch in self._watches.values()), default=0.05)

    def close(self) -> None:
        """Let go of what is open."""
        for watch in self._watches.values():
            watch.close()


class SeenLease(NamedTuple):
    """A lease, its nodes, and what they have been told."""

    name: str
    holder: Sighting
    nodes: list[Member]
    order: Order


def seen_leases(
    leases: Leases,
    *,
    only: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[SeenLease]:
    """Return the leases of a place with their nodes, after a look of a few periods.

    With ``only`` that lease alone is looked at. Nothing is written.

    Raises:
        StorageError, CorruptLog: the place cannot be read.
    """
    names = leases.names()
    own = [name for name in names if node_of(name) is None]
    # A lease whose nodes wait for each other has no holder yet.
    own += sorted({pair[0] for pair in map(node_of, names) if pair} - {*own})
    seen = [_seen(leases, name, clock, sleep) for name in own if only in (None, name)]
    return [lease for lease in seen if lease.nodes or lease.holder.sign is not Sign.NEVER]


def _seen(
    leases: Leases, name: str, clock: Callable[[], float], sleep: Callable[[float], None]
) -> SeenLease:
    members = Members(leases, name, locks=False, clock=clock)
    watch = leases.watch(name, locks=False)
    end_s = clock() + _LOOKED_AT_S
    try:
        while True:
            holder, nodes = watch.look(), members.look()
            waits = holder.sign is Sign.ALIVE and not holder.has_moved
            if not (waits or members.are_unsure) or clock() >= end_s:
                break
            sleep(min(watch.pause_s, members.pause_s))
        return SeenLease(name, holder, nodes, Orders(leases.objects(name)).newest())
    finally:
        members.close()
        watch.close()
