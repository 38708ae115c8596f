"""One LMDB file. Nothing else of the index uses LMDB; its errors become :class:`BadIndex` here.

LMDB keeps no checksums and maps the file into memory: one that was overwritten gives wrong answers,
one that was cut kills the process. So :mod:`.files` checks all bytes before a file is opened, only
its owner writes to it, and each row that is read is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from weakref import finalize

import lmdb

from cec_store.indexes.entries import COVERAGE_KEY, BadIndex, Row
from cec_store.storage.local import LocalFolder
from cec_store.storage.opened_once import OpenedOnce
from cec_store.storage.regular_files import FILE_MODE
from cec_store.storage.system_errors import is_full_disk

_MAP_BYTES_MIN = 1 << 24
_PAGES_MIN = 2
ABOVE_ALL_KEYS = b"\xff" * 9


class _Opened:
    """An open file."""

    def __init__(self, path: str, size: int, writable: bool) -> None:
        self.map_bytes = _MAP_BYTES_MIN
        while self.map_bytes < 2 * size:
            self.map_bytes *= 2
        with _lmdb_errors(path):
            self.environment = lmdb.open(
                path, subdir=False, lock=False, readonly=not writable, mode=FILE_MODE,
                map_size=self.map_bytes, max_dbs=2, sync=False, metasync=False, readahead=False,
            )  # fmt: skip
            try:
                if size and size < self.bytes_needed():
                    raise BadIndex(f"{path} has {size} bytes and needs {self.bytes_needed()}")
                self.frames = self.environment.open_db(b"frames", create=writable)
                self.timestamps = self.environment.open_db(b"timestamps", create=writable)
            except BaseException:
                self.environment.close()
                raise

    def bytes_needed(self) -> int:
        """Pages beyond the end of the file would kill who touches them."""
        pages: int = max(_PAGES_MIN, self.environment.info()["last_pgno"] + 1)
        return pages * int(self.environment.stat()["psize"])

    def close(self) -> None:
        self.environment.close()


_READ: OpenedOnce[_Opened] = OpenedOnce()
"""Files that are open for reading. One that is written belongs to its writer alone."""


class LmdbFile:
    """Two ordered maps, and the row that says what they cover. One thread at a time may use it.

    The file must belong to this object alone if ``writable`` (and not be used after a fork); and
    must never change otherwise. So no lock file is needed, and reading writes nothing at all.
    """

    def __init__(self, folder: LocalFolder, name: str, writable: bool) -> None:
        """Open the file ``name``, which may be empty if ``writable``.

        Raises:
            BadIndex: it is no LMDB file, or shorter than it says.
        """
        self.name = name
        self.writable = writable
        self._folder = folder
        path, size = f"{folder.path}/{name}", folder.size(name)
        self._path = path
        if not writable and not size:
            raise BadIndex(f"{path} is empty")
        # Close it also if the caller forgets: otherwise a descriptor and a mapping would leak.
        if writable:
            self._opened = _Opened(path, size, writable=True)
            self._release = finalize(self, self._opened.close)
        else:
            shared = _READ.share(folder, name, lambda: _Opened(path, size, writable=False))
            self._opened = shared.opened
            self._release = finalize(self, partial(_READ.release, shared))
        self._release.atexit = False
        self._bytes_needed = self._opened.bytes_needed()

    def _guard(self) -> None:
        try:
            size = self._folder.size(self.name)
        except FileNotFoundError:
            return  # unlinked, but whole for as long as it is open
        if size < self._bytes_needed:
            raise BadIndex(f"{self.name} has {size} bytes and needs {self._bytes_needed}")

    def coverage(self) -> bytes | None:
        """The row :class:`.entries.Coverage`."""
        self._guard()
        with _lmdb_errors(self._path), self._opened.environment.begin() as transaction:
            return transaction.get(COVERAGE_KEY)

    @contextmanager
    def frames(self) -> Iterator[Callable[[bytes], bytes | None]]:
        """Looks up rows of ``frames`` by key, in one transaction."""
        self._guard()
        with (
            _lmdb_errors(self._path),
            self._opened.environment.begin(self._opened.frames) as reading,
        ):
            yield reading.get

    def first_frame(self) -> Row | None:
        """The first row of ``frames``."""
        return self._at_or_above(self._opened.frames, b"\0")

    def timestamp(self, key: bytes) -> Row | None:
        """The first row of ``timestamps`` at or above ``key``."""
        return self._at_or_above(self._opened.timestamps, key)

    def _at_or_above(self, database: lmdb._Database, key: bytes) -> Row | None:
        self._guard()
        environment = self._opened.environment
        with (
            _lmdb_errors(self._path),
            environment.begin(database) as reading,
            reading.cursor() as cursor,
        ):
            return cursor.item() if cursor.set_range(key) else None

    def append(self, frames: Sequence[Row], timestamps: Sequence[Row], coverage: bytes) -> None:
        """Add rows behind all others, and the row that says what they cover, in one transaction."""

        def work(transaction: lmdb.Transaction) -> None:
            for database, rows in (
                (self._opened.frames, frames), (self._opened.timestamps, timestamps)
            ):  # fmt: skip
                with transaction.cursor(database) as cursor:
                    if cursor.putmulti(rows, append=True)[1] != len(rows):
                        raise BadIndex("the index has rows beyond its end")
            transaction.put(COVERAGE_KEY, coverage)

        self._write(work)

    def trim(
        self, frames_from: bytes, timestamps_from: bytes, timestamps: Sequence[Row], coverage: bytes
    ) -> None:
        """Remove rows below the two keys, then put others in, in one transaction."""

        def work(transaction: lmdb.Transaction) -> None:
            _remove_below(transaction, self._opened.frames, frames_from)
            _remove_below(transaction, self._opened.timestamps, timestamps_from)
            with transaction.cursor(self._opened.timestamps) as cursor:
                cursor.putmulti(timestamps)
            transaction.put(COVERAGE_KEY, coverage)

        self._write(work)

    def _write(self, work: Callable[[lmdb.Transaction], None]) -> None:
        self._guard()
        opened = self._opened
        with _lmdb_errors(self._path):
            while True:
                try:
                    with opened.environment.begin(write=True) as transaction:
                        work(transaction)
                    break
                except lmdb.MapFullError:
                    opened.map_bytes *= 2
                    opened.environment.set_mapsize(opened.map_bytes)
            self._bytes_needed = opened.bytes_needed()

    def close(self) -> None:
        """Let go; the file is closed with its last user."""
        self._release()


def _remove_below(transaction: lmdb.Transaction, database: lmdb._Database, limit: bytes) -> None:
    with transaction.cursor(database) as cursor:
        more = cursor.first()
        while more and bytes(cursor.key()) < limit:
            cursor.delete()
            more = bool(cursor.key())


@contextmanager
def _lmdb_errors(path: str) -> Iterator[None]:
    try:
        yield
    except lmdb.Error as error:
        if is_full_disk(error, path):
            raise BadIndex(f"no space left for {path} ({error}); free some") from error
        raise BadIndex(f"LMDB: {error}") from error
