"""Signs of life that the holder of a lease gives, and that watchers look for.

On this machine's disks a beat is a row in LMDB, in a file that only this holder writes: a holder
that is stopped in the middle of a write blocks no other process. On file systems of a network,
where LMDB must not be used, and in stores, a beat is an object under the next number. The holder
deletes old ones, so that there are never more than a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import lmdb

from cec_store.errors import DiskFull, StorageError
from cec_store.standby.lease_format import (
    Beat,
    BeatKind,
    KeptIn,
    Tenure,
    beat_name,
    beat_of,
    decode_beat,
    encode_beat,
    rows_name,
)
from cec_store.storage.local import LocalFolder
from cec_store.storage.local_files import set_size
from cec_store.storage.opened_once import OpenedOnce, Shared
from cec_store.storage.regular_files import FILE_MODE
from cec_store.storage.stores.store import Store
from cec_store.storage.system_errors import is_full_disk

_ROW = b"beat"
_MAP_BYTES = 1 << 20
_LEFT_OVER = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)
_READERS_MAX = 126
_KEPT_BEATS = 32
_DELETED_AT_ONCE = 16


class Beats(Protocol):
    """Beats of one tenure. One thread at a time."""

    def beat(self, beat: Beat) -> None:
        """Give a sign of life; only the holder may. Raises :class:`StorageError` where it fails."""

    def newest(self, thoroughly: bool = False) -> Beat | None:
        """Return the last beat that a watcher can see; ``None`` before the first.

        With ``thoroughly`` no beat is missed, which matters after a pause, and before the holder is
        said to be silent.
        """

    def close(self) -> None:
        """Let go."""


class ObjectBeats:
    """A beat is an object, its counter in its name: the next one is looked for, none is listed."""

    def __init__(self, store: Store, tenure: Tenure) -> None:
        """``store`` is rooted where the lease's objects are."""
        self._store = store
        self._tenure = tenure
        self._newest: Beat | None = None
        self._deleted_below = 1

    def beat(self, beat: Beat) -> None:
        name = beat_name(self._tenure.number, beat.counter)
        try:
            self._store.create(name, [encode_beat(self._tenure.token, beat)])
        except FileExistsError:
            # Of this counter an earlier one got there after all, although its answer was lost.
            earlier = self._read(beat.counter)
            if earlier is None:
                raise
            if earlier.kind is not beat.kind:
                self.beat(beat._replace(counter=beat.counter + 1))
                return
        kept_from = beat.counter - _KEPT_BEATS
        if kept_from - self._deleted_below >= _DELETED_AT_ONCE:
            counters = range(self._deleted_below, kept_from)
            self._store.delete(beat_name(self._tenure.number, counter) for counter in counters)
            self._deleted_below = kept_from

    def newest(self, thoroughly: bool = False) -> Beat | None:
        following = (self._newest.counter if self._newest else 0) + 1
        # While a watcher was away for long, the holder may have deleted the next beat.
        if thoroughly or self._newest is None:
            following = max(following, *self._listed(), 0)
        while (beat := self._read(following)) is not None:
            self._newest = beat
            if beat.kind is BeatKind.RELEASED:
                break
            following += 1
        return self._newest

    def _listed(self) -> list[int]:
        pairs = (beat_of(entry.name) for entry in self._store.list())
        return [0, *(pair[1] for pair in pairs if pair and pair[0] == self._tenure.number)]

    def _read(self, counter: int) -> Beat | None:
        with suppress(FileNotFoundError):
            data = self._store.read(beat_name(self._tenure.number, counter))
            return decode_beat(data, self._tenure.token)
        return None

    def close(self) -> None:
        """Nothing is held."""


_OPEN: OpenedOnce[lmdb.Environment] = OpenedOnce()


class LmdbBeats:
    """A beat is the one row of an LMDB file, which only the holder writes."""

    def __init__(
        self, folder: LocalFolder, tenure: Tenure, *, create: bool = False, locks: bool = True
    ) -> None:
        """Open the file, or make it: then for the holder. Without ``locks`` nothing is written.

        Raises:
            FileNotFoundError: it is not there, or not whole: a power cut takes rows that were not
                synced, and leaves no holder that could be alive.
            StorageError: LMDB cannot open it.
        """
        name = rows_name(tenure.token)
        self._path = f"{folder.path}/{name}"
        self._token = tenure.token
        if not create and folder.size(name) < _MAP_BYTES:
            raise FileNotFoundError(f"{self._path}: is not whole, as its holder had made it")
        self._shared: Shared[lmdb.Environment] | None = _OPEN.share(
            folder, name, lambda: _environment(self._path, create, locks)
        )

    @property
    def _calls(self) -> lmdb.Environment:
        if self._shared is None:
            raise ValueError(f"{self._path}: was closed")
        return self._shared.opened

    def beat(self, beat: Beat) -> None:
        with _lmdb_errors(self._path), self._calls.begin(write=True) as transaction:
            transaction.put(_ROW, encode_beat(self._token, beat))

    def newest(self, thoroughly: bool = False) -> Beat | None:
        try:
            with _lmdb_errors(self._path), self._calls.begin() as transaction:
                data = transaction.get(_ROW)
        except _Unreadable:
            return None
        return None if data is None else decode_beat(data, self._token)

    def put_on_disk(self) -> None:
        """Have what the file has now survive a power cut; only the holder may."""
        with _lmdb_errors(self._path):
            self._calls.sync(True)

    def close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            _OPEN.release(shared)


class _Unreadable(StorageError):
    """Rows that were not synced, as a power cut has left them."""


def _environment(path: str, create: bool, locks: bool) -> lmdb.Environment:
    try:
        with _lmdb_errors(path):
            # A reader without locks may see a page that is just written again: the row has a
            # checksum. Not synced but once: after a power cut no holder is alive, so a lost beat
            # does not matter.
            opened = lmdb.open(
                path, subdir=False, create=create, readonly=not create, mode=FILE_MODE,
                map_size=_MAP_BYTES, max_readers=_READERS_MAX, sync=False, metasync=False,
                readahead=False, lock=locks,
            )  # fmt: skip
    except _Unreadable:
        raise FileNotFoundError(path) from None
    if create:
        # As long as it will ever be: to read a page behind the end of a file kills a process.
        set_size(path, _MAP_BYTES)
    return opened


def beats_of(store: Store, tenure: Tenure, *, create: bool = False, locks: bool = True) -> Beats:
    """Return the beats of a tenure; ``create`` makes them, for its holder.

    Without ``locks`` a watcher writes nothing, and may be a user who may not write there.
    """
    if tenure.kept_in is KeptIn.LMDB:
        assert store.appends, "LMDB is for this machine's disks"
        return LmdbBeats(LocalFolder(store.url), tenure, create=create, locks=locks)
    return ObjectBeats(store, tenure)


@contextmanager
def _lmdb_errors(path: str) -> Iterator[None]:
    try:
        yield
    except lmdb.Error as error:
        if isinstance(error, _LEFT_OVER):
            raise _Unreadable(f"{path}: {error}") from error
        if is_full_disk(error, path):
            raise DiskFull(f"{path}: no space left ({error}); free some") from error
        raise StorageError(f"{path}: LMDB cannot use it: {error}") from error
