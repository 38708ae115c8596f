"""The objects of one lease: its tenures, each created once, and what is deleted of them when."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from cec_store.errors import Fenced, LeaseHeld, NoExclusiveCreate, StorageError
from cec_store.ledger.ages import store_now_us
from cec_store.standby.beats import Beats, LmdbBeats, beats_of
from cec_store.standby.lease_format import (
    Beat,
    BeatKind,
    KeptIn,
    Tenure,
    beat_of,
    check_lease_name,
    decode_tenure,
    encode_document,
    rows_name,
    tenure_name,
    tenure_of,
)
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import LEASES_FOLDER
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import StorageOptions
from cec_store.storage.stores.proving import prove_exclusive_creates
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Store

_RETRIES = Retries(attempts=2, first_pause_s=0.05, last_start_s=1.0)
"""A beat that comes late is worth nothing: the next one is about to come."""
_KEPT_TENURES = 8


class LeaseObjects:
    """Objects in the folder ``leases/<name>`` of a place."""

    def __init__(self, place: AnyPath, options: StorageOptions | None, name: str) -> None:
        """Raises as :func:`.by_url.store_at`."""
        root = store_at(place, options)
        url = f"{root.url}/{LEASES_FOLDER}/{check_lease_name(name)}"
        self._store = store_at(url, options, retries=_RETRIES)
        self.url = url
        if not self._store.creates_exclusively:
            what = "two could hold a lease where nothing is created exclusively"
            raise NoExclusiveCreate(f"{url}: {what}; leave out single_writer, or use another store")

    @property
    def kept_in(self) -> KeptIn:
        """Storage that beats can have here."""
        is_local = self._store.appends and not LocalFolder(self.url).is_remote()
        return KeptIn.LMDB if is_local else KeptIn.OBJECTS

    def tenure(self, number: int) -> Tenure | None:
        """The tenure of this number, if there is one."""
        name = tenure_name(number)
        with suppress(FileNotFoundError):
            return decode_tenure(self._store.read(name), f"{self.url}/{name}")
        return None

    @property
    def store(self) -> Store:
        """Store that is rooted where the lease's objects are."""
        return self._store

    def kept_tenures(self) -> list[Tenure]:
        """Return the tenures that have not been deleted yet, the newest first."""
        tenures = (self.tenure(number) for number in reversed(self._numbers()))
        return [tenure for tenure in tenures if tenure is not None]

    def age_us(self, number: int) -> int | None:
        """Return the microseconds since a tenure began, by the store's clock, never below 0.

        ``None`` where the tenure has been deleted.
        """
        with suppress(FileNotFoundError):
            began_us = self._store.modified_us(tenure_name(number))
            return max(0, store_now_us(self._store) - began_us)
        return None

    def newest(self) -> Tenure | None:
        """Return the newest tenure, found by a listing; ``None`` where the lease was never held."""
        number = max(self._numbers(), default=None)
        return None if number is None else self.tenure(number)

    def _numbers(self) -> list[int]:
        numbers = (tenure_of(entry.name) for entry in self._store.list())
        return sorted(number for number in numbers if number is not None)

    def is_over(self, number: int) -> bool:
        """Return True if somebody has taken over this tenure.

        Old tenures are deleted from the first one on. So a tenure that is gone is over, and one
        whose successor exists is over as well.
        """
        return self._is_there(number + 1) or not self._is_there(number)

    def _is_there(self, number: int) -> bool:
        with suppress(FileNotFoundError):
            self._store.size(tenure_name(number))
            return True
        return False

    def claim(self, tenure: Tenure) -> Beats:
        """Make it the newest tenure, with its first beat.

        Raises:
            LeaseHeld: somebody else has taken this number, or a later one.
        """
        if self._store.appends:
            LocalFolder(self.url).make()
        else:
            prove_exclusive_creates(self._store)
        beats = beats_of(self._store, tenure, create=True)
        try:
            # Write an LMDB row first, so that no watcher misses it. Beats that are objects come
            # after the tenure, so that a loser leaves none.
            if isinstance(beats, LmdbBeats):
                beats.beat(Beat(1, BeatKind.HELD))
                # The tenure names them, and is on disk: a power cut must not take them alone.
                beats.put_on_disk()
            self._create(tenure)
            if tenure.kept_in is KeptIn.OBJECTS:
                beats.beat(Beat(1, BeatKind.HELD))
        except BaseException:
            beats.close()
            raise
        self._clean(tenure.number)
        return beats

    def _create(self, tenure: Tenure) -> None:
        name = tenure_name(tenure.number)
        try:
            self._store.create(name, [encode_document(tenure)])
        except FileExistsError:
            self._store.delete(_row_files(tenure))
            winner = self.tenure(tenure.number)
            raise self.held(winner.holder if winner else "somebody else") from None
        # Tenures of this number may have been deleted long ago; then a newer one exists.
        if (newest := max(self._numbers())) > tenure.number:
            self._store.delete([name, *_row_files(tenure)])
            raise self.held(f"tenure {newest}")

    def held(self, holder: str) -> LeaseHeld:
        """The error for a lease that somebody has."""
        return LeaseHeld(f"{self.url}: is held by {holder}; end that first, or wait until it has")

    def _clean(self, newest: int) -> None:
        """Delete what earlier tenures have left: a few are kept for those who are still in them."""
        listed = self._store.list()
        beats = [e.name for e in listed if (beat := beat_of(e.name)) and beat[0] < newest]
        self._store.delete(beats)
        numbers = sorted(n for e in listed if (n := tenure_of(e.name)) is not None)
        for number in (n for n in numbers if n <= newest - _KEPT_TENURES):
            tenure = self.tenure(number)
            self._store.delete([*(_row_files(tenure) if tenure else ()), tenure_name(number)])

    def names(self) -> list[str]:
        """Return the names of all objects of the lease."""
        return [entry.name for entry in self._store.list()]

    def delete(self, names: Sequence[str]) -> None:
        """Delete these objects of a lease that is over, and its folder where no others are left."""
        self._store.delete(names)
        if self._store.appends and not self._store.list():
            LocalFolder(self.url).remove()

    def beats(self, tenure: Tenure, *, locks: bool = True) -> Beats | None:
        """Return the beats of a tenure for a watcher; ``None`` where they are gone.

        Without ``locks`` nothing is written.

        Raises:
            StorageError: they are in LMDB on a machine that is not this one.
        """
        if tenure.kept_in is KeptIn.LMDB and self.kept_in is not KeptIn.LMDB:
            raise StorageError(
                f"{self.url}: {tenure.holder} keeps its signs of life in LMDB on its own disk, "
                "which must not be read over a network; let both reach the place in the same way"
            )
        with suppress(FileNotFoundError):
            return beats_of(self._store, tenure, locks=locks)
        return None

    def fenced(self, tenure: Tenure) -> Fenced:
        """The error for a holder that has been replaced."""
        following = self.tenure(tenure.number + 1)
        who = following.holder if following else "somebody else"
        return Fenced(f"{self.url}: {who} has taken over from {tenure.holder}; stop here")


def _row_files(tenure: Tenure) -> list[str]:
    name = rows_name(tenure.token)
    return [name, f"{name}-lock"] if tenure.kept_in is KeptIn.LMDB else []
