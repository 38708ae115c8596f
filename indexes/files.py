"""The index's files: checked before they are opened, never changed once others may open them.

A file of the index is either the private work of one :class:`LmdbFile`, or it is *published*:
the stamp names it with its size and CRC, and it is never written again. So readers need no lock
beside a live writer, and a crash at any moment leaves the last published file.
"""

from __future__ import annotations

import secrets
import time
from contextlib import closing, suppress
from struct import Struct
from threading import Lock
from typing import NamedTuple

from cec_store.errors import StorageError
from cec_store.format.checksum import crc32c, crc_is_right, with_crc
from cec_store.indexes.entries import VERSION, BadIndex, UnwritableIndex
from cec_store.indexes.lmdb_file import LmdbFile
from cec_store.storage.caches import index_cache
from cec_store.storage.folder import AppendFile, Folder
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import (
    INDEX_FOLDER,
    INDEX_STAMP,
    index_data_name,
    is_index_data,
    temporary_name,
)
from cec_store.storage.retrying import retry_when_changed
from cec_store.storage.stores.folders import local_of

_MAGIC = b"CECINDX\0"
_STAMP = Struct("<8sHHI16sQQI8xI")
assert _STAMP.size == 64
_CHUNK_BYTES = 4 << 20
_SETTLED_NS = 2_000_000_000
_PROVEN_MAX = 4096


def index_folder(folder: Folder, log_id: bytes) -> LocalFolder | None:
    """Return the folder of a queue's index; ``None`` where it can have none."""
    if not folder.appends:
        return index_cache(log_id)
    local = local_of(folder)
    return None if local is None or local.is_remote() else local.folder(INDEX_FOLDER)


class Stamp(NamedTuple):
    """Names the published file and says what its bytes are."""

    log_id: bytes
    token: int
    size: int
    crc: int

    @property
    def name(self) -> str:
        """Name of the index file that the stamp publishes."""
        return index_data_name(self.token)

    def encode(self) -> bytes:
        """Return the stamp's bytes, with their CRC."""
        return with_crc(_STAMP.pack(_MAGIC, VERSION, _STAMP.size, 0, *self, 0))

    @classmethod
    def decode(cls, data: bytes) -> Stamp:
        """Raises :class:`BadIndex`: damaged, or of another version."""
        if len(data) != _STAMP.size or not crc_is_right(data):
            raise BadIndex("the stamp fails its checksum")
        magic, version, _, _, log_id, token, size, crc, _ = _STAMP.unpack(data)
        if magic != _MAGIC or version != VERSION:
            raise BadIndex(f"the stamp is of version {version}, not {VERSION}")
        return cls(log_id, token, size, crc)


class IndexFiles:
    """Finds and checks the published file of the index, and publishes the next one.

    ``_proving`` guards ``_proven``: by folder, what this process has checked.
    """

    _proven: dict[str, tuple[Stamp, tuple[int, ...]]] = {}  # noqa: RUF012
    _proving = Lock()

    def __init__(self, folder: LocalFolder, log_id: bytes) -> None:
        self._folder = folder
        self._log_id = log_id

    def open_published(self) -> LmdbFile:
        """The published file, for reading.

        Raises:
            BadIndex: there is none, or its bytes are not those that were published.
        """

        def look() -> LmdbFile:
            stamp = self._stamp()
            self._prove(stamp)
            return LmdbFile(self._folder, stamp.name, writable=False)

        try:  # a writer may just have published the next one
            return retry_when_changed(look, FileNotFoundError)
        except FileNotFoundError:
            raise BadIndex("the file that the stamp names is missing") from None
        except StorageError as error:
            raise BadIndex(str(error)) from error

    def _prove(self, stamp: Stamp) -> None:
        """Check all bytes, unless this process has done so and the file is unchanged since.

        Raises:
            BadIndex: they are not those that were published.
        """
        identity = self._folder.identity(stamp.name)
        with self._proving:
            if self._proven.get(self._folder.path) == (stamp, identity):
                return
        if self._copy(stamp.name, None) != (stamp.size, stamp.crc):
            raise BadIndex(f"{stamp.name} is not as it was published")
        if time.time_ns() - identity[-1] < _SETTLED_NS:
            return  # a change within the same tick of the clock would not show
        with self._proving:
            self._proven.pop(self._folder.path, None)
            self._proven[self._folder.path] = (stamp, identity)
            while len(self._proven) > _PROVEN_MAX:
                del self._proven[next(iter(self._proven))]

    def start(self, source: LmdbFile | None) -> LmdbFile:
        """A file of one's own to write to: empty, or with the content of the published ``source``.

        Raises:
            BadIndex: the source is damaged by now.
            UnwritableIndex: the folder cannot be written.
        """
        name = index_data_name(secrets.randbits(64))
        try:
            self._folder.make()
            self._clear()
            with closing(self._folder.create(name)) as file:
                if source is not None:
                    stamp = self._stamp()
                    copied = self._copy(source.name, file)
                    if (source.name, *copied) != (stamp.name, stamp.size, stamp.crc):
                        raise BadIndex(f"{source.name} is not as it was published")
            return LmdbFile(self._folder, name, writable=True)
        except (StorageError, OSError, BadIndex) as error:
            self.discard(name)
            if isinstance(error, BadIndex):
                raise
            raise UnwritableIndex(f"the index cannot be written: {error}") from error

    def publish_copy(self, source: LmdbFile) -> None:
        """Publish a copy of what ``source`` holds; if that fails, the last published one counts."""
        token = secrets.randbits(64)
        try:
            with closing(self._folder.create(index_data_name(token))) as file:
                size, crc = self._copy(source.name, file)
            self._publish(Stamp(self._log_id, token, size, crc))
        except (StorageError, OSError):
            self.discard(index_data_name(token))

    def publish_closed(self, name: str) -> None:
        """Publish a file that was written to and is closed for good; as above."""
        try:
            size, crc = self._copy(name, None)
            token = int(name.partition(".")[0], 16)
            self._publish(Stamp(self._log_id, token, size, crc))
        except (StorageError, OSError):
            self.discard(name)

    def discard(self, name: str) -> None:
        """Remove a file that does not count."""
        with suppress(StorageError, OSError):
            self._folder.unlink(name)

    def _publish(self, stamp: Stamp) -> None:
        try:
            replaced = self._stamp().name
        except BadIndex:
            replaced = stamp.name
        # Nothing is synced: after a power cut the CRC tells whether both files arrived.
        temporary = temporary_name(INDEX_STAMP)
        self.discard(temporary)
        with closing(self._folder.create(temporary)) as file:
            file.write([stamp.encode()])
        self._folder.rename(temporary, INDEX_STAMP)
        if replaced != stamp.name:
            self.discard(replaced)

    def _stamp(self) -> Stamp:
        try:
            stamp = Stamp.decode(self._folder.read(INDEX_STAMP, 0, _STAMP.size + 1))
        except (StorageError, OSError) as error:
            raise BadIndex(f"no stamp: {error}") from error
        if stamp.log_id != self._log_id:
            raise BadIndex("the index belongs to another queue")
        return stamp

    def _clear(self) -> None:
        """Remove what crashes left. An unlinked file stays whole for a process that has it open."""
        try:
            published = self._stamp().name
        except BadIndex:
            published = ""
        for name in self._folder.names():
            if is_index_data(name) and name != published:
                self.discard(name)

    def _copy(self, name: str, target: AppendFile | None) -> tuple[int, int]:
        """Size and CRC-32C of a file, all of it copied to ``target`` on the way."""
        size = crc = 0
        while data := self._folder.read(name, size, _CHUNK_BYTES):
            size += len(data)
            crc = crc32c(data, crc)
            if target is not None:
                target.write([data])
        return size, crc
