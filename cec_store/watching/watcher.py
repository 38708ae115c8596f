"""Looking at a place again and again: what has come since, and who holds its leases."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from cec_store.doctor.held_leases import sighting_of
from cec_store.errors import CecError
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.places.places import Place, place_at
from cec_store.standby.lease_format import check_lease_name
from cec_store.standby.leases import Leases, Sighting, Sign, Watch, leases_of
from cec_store.storage.paths import is_url
from cec_store.storage.stores.folders import StorageOptions
from cec_store.watching.looks import Look, look_at

_SPAN_S = 30.0
"""Rates are over so many seconds, so that a batch every ten seconds does not make them jump."""


@dataclass(frozen=True)
class Holder:
    """The holder of a lease of a place, such as the driver of a query that has a standby."""

    lease: str
    holder: str
    state: str
    """``alive``, ``silent``, ``released``, ``never seen``; ``unknown``: looked at too shortly."""


@dataclass(frozen=True)
class Sight:
    """A look at a place, and what only several looks can say."""

    look: Look
    records_per_s: float | None
    """Records of every kind; ``None`` at the first look, as the next."""
    batches_per_s: float | None
    holders: tuple[Holder, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the place's object in a line of `cec-store watch --json`."""
        fields = asdict(self.look)
        taken_us = fields.pop("taken_us")
        rates = {"records_per_s": self.records_per_s, "batches_per_s": self.batches_per_s}
        holders = [asdict(holder) for holder in self.holders]
        return {
            "path": fields.pop("path"),
            "kind": fields.pop("kind"),
            "sound": self.look.is_sound,
            "timestamp_us": taken_us,
            **rates,
            **fields,
            "leases": holders,
        }


class Watcher:
    """Looks at one place, each time from the beginning: files come and go meanwhile.

    Args:
        place: Found before, so that a wrong path is refused at once.
        rates: Rates of loads for the cost of a restart.
        cores: Cores that load at a restart.
        storage_options: Of a URL's file system.
        clock: Seconds of a clock that does not jump.
    """

    def __init__(
        self,
        place: Place,
        rates: LoadRates,
        cores: int,
        storage_options: StorageOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._rates, self._cores = rates, cores
        self._options = storage_options if is_url(place.path) else None
        self._clock = clock
        self._seen: deque[tuple[float, Look]] = deque()
        self._watches: dict[str, Watch] = {}

    def look(self, *, is_only: bool = False) -> Sight:
        """Return what there is now; a place that is gone or damaged is told, and raises nothing.

        ``is_only``: no other look follows, so holders of leases are looked at until they have given
        a sign of life, for some seconds at most.
        """
        now_s = self._clock()
        look = self._look()
        before_s, before = self._before(now_s, look)
        passed_s = now_s - before_s
        return Sight(
            look,
            _rate(before.records, look.records, passed_s),
            _rate(before.batches, look.batches, passed_s),
            self._holders(is_only),
        )

    def _look(self) -> Look:
        place = self._place
        try:
            return look_at(place_at(place.folder), self._rates, self._cores)
        except (CecError, FileNotFoundError) as error:
            now_us = time.time_ns() // 1000
            return Look(place.path, place.kind.value, now_us, problems=(str(error),))

    def _before(self, now_s: float, look: Look) -> tuple[float, Look]:
        """Return the look that rates are counted from; ``look`` itself where there is none."""
        if look.records is None and look.batches is None:
            return now_s, look
        if self._seen and _is_behind(look, self._seen[-1][1]):  # made anew under the same path
            self._seen.clear()
        self._seen.append((now_s, look))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= _SPAN_S:
            self._seen.popleft()
        return self._seen[0]

    def _holders(self, is_only: bool) -> tuple[Holder, ...]:
        """Return the holders of the leases; without those that cannot be looked at."""
        holders = []
        with suppress(CecError, FileNotFoundError):
            leases = leases_of(self._place.path, self._options)
            for name in leases.names():
                with suppress(ValueError, CecError):
                    check_lease_name(name)
                    seen = sighting_of(leases, name) if is_only else self._seen_of(leases, name)
                    holders.append(Holder(name, seen.holder, _state(seen)))
        return tuple(holders)

    def _seen_of(self, leases: Leases, name: str) -> Sighting:
        if name not in self._watches:
            self._watches[name] = leases.watch(name, locks=False)
        return self._watches[name].look()

    def close(self) -> None:
        """Let go of the leases' files."""
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()


def _state(seen: Sighting) -> str:
    is_unknown = seen.sign is Sign.ALIVE and not seen.is_alive
    return "unknown" if is_unknown else seen.sign.value


def _is_behind(look: Look, before: Look) -> bool:
    if look.kind != before.kind:
        return True
    pairs = ((look.records, before.records), (look.batches, before.batches))
    return any(now is not None and then is not None and now < then for now, then in pairs)


def _rate(before: int | None, now: int | None, passed_s: float) -> float | None:
    if before is None or now is None or passed_s <= 0:
        return None
    return (now - before) / passed_s
