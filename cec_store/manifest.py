"""The manifest: who may append, and which segments exist. docs/format.md §2."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from struct import Struct

from cec_store.checksum import crc32c
from cec_store.errors import CorruptLog, NotAQueue, StorageError, UnsupportedVersion
from cec_store.files import Folder, FolderTree, write_file
from cec_store.layout import (
    COMMITS_FOLDER,
    claim_name,
    claimed_epoch_of,
    manifest_epoch_of,
    manifest_name,
    partition_name,
    temporary_name,
)

_MAGIC = b"CECMANI\0"
_VERSION = 1
EPOCH_MAX = 2**32 - 1
_LAYOUT = Struct("<8sHHI16sQQ12xI")
assert _LAYOUT.size == 64


@dataclass(frozen=True)
class Manifest:
    """``first_segment … newest_segment`` exist; the writer of ``epoch`` may append."""

    epoch: int
    log_id: bytes
    first_segment: int
    newest_segment: int

    def encode(self) -> bytes:
        body = _LAYOUT.pack(
            _MAGIC, _VERSION, _LAYOUT.size, self.epoch, self.log_id,
            self.first_segment, self.newest_segment, 0,
        )[:-4]  # fmt: skip
        return body + crc32c(body).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, path: str) -> Manifest:
        """Raises :class:`NotAQueue`, :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        if not data.startswith(_MAGIC):
            if len(data) == _LAYOUT.size and data[1:8] == _MAGIC[1:]:
                raise CorruptLog(path, 0, "the manifest's magic is wrong")
            raise NotAQueue(f"{path}: not a manifest of cec-store")
        version = int.from_bytes(data[8:10], "little")
        if len(data) != _LAYOUT.size or crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            if len(data) >= 10 and version > _VERSION and len(data) != _LAYOUT.size:
                raise _too_new(path, version)
            raise CorruptLog(path, 0, "the manifest fails its checksum")
        if version != _VERSION:
            raise _too_new(path, version)
        fields = _LAYOUT.unpack(data)
        return cls(
            epoch=fields[3], log_id=fields[4], first_segment=fields[5], newest_segment=fields[6]
        )


def _too_new(path: str, version: int) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"{path}: format version {version}; this release reads {_VERSION}: upgrade cec-store"
    )


def newest_epoch(folder: Folder) -> int | None:
    """The epoch of the writer that may append; ``None`` where there is no manifest."""
    if not folder.exists():
        return None
    epochs = [manifest_epoch_of(name) for name in folder.names()]
    return max((epoch for epoch in epochs if epoch is not None), default=None)


def is_partitioned(folder: FolderTree) -> bool:
    """Whether there is a queue of many partitions here (docs/format.md §11)."""
    return newest_epoch(folder.folder(COMMITS_FOLDER)) is not None


def newest_claim(names: list[str]) -> int:
    """The newest epoch in a listing, of a manifest or of a writer that is taking over; or -1."""
    epochs = [manifest_epoch_of(name) for name in names] + [claimed_epoch_of(n) for n in names]
    return max((epoch for epoch in epochs if epoch is not None), default=-1)


def claim_epoch(folder: Folder) -> int:
    """Announce a writer of a new epoch and return it: those before acknowledge nothing more.

    A manifest would not do. It has to say what the last writer acknowledged, and as long as that
    one is not stopped it may acknowledge more than was read.

    Raises:
        StorageError: the epochs are used up.
    """
    while True:
        epoch = newest_claim(folder.names()) + 1
        if epoch > EPOCH_MAX:
            raise StorageError(f"{folder.path}: opened for append 2^32 times, and never again")
        with suppress(FileExistsError):
            folder.create(claim_name(epoch)).close()
            return epoch


def read_manifest(folder: Folder) -> Manifest:
    """The manifest of the newest epoch.

    Raises:
        NotAQueue: there is none.
        CorruptLog: it is damaged.
        UnsupportedVersion: a later format wrote it.
    """
    while (epoch := newest_epoch(folder)) is not None:
        name = manifest_name(epoch)
        path = f"{folder.path}/{name}"
        try:
            data = folder.read(name, 0, _LAYOUT.size + 1)
        except FileNotFoundError:
            continue  # a new writer has just published its own and removed this one
        manifest = Manifest.decode(data, path)
        if manifest.epoch != epoch:
            raise CorruptLog(path, 12, f"the manifest is of epoch {manifest.epoch}")
        return manifest
    if folder.exists() and COMMITS_FOLDER in folder.names():
        raise NotAQueue(
            f"{folder.path}: a queue of many partitions; read it by read_queue, or name one of "
            f"them, such as {folder.path}/{partition_name(0)}"
        )
    raise NotAQueue(f"{folder.path}: no queue here (there is no file {manifest_name(0)[:9]}…)")


def publish_manifest(folder: Folder, manifest: Manifest) -> None:
    """Put the manifest under its epoch's name, durably and at once."""
    publish_file(folder, manifest_name(manifest.epoch), manifest.encode())


def publish_file(folder: Folder, name: str, data: bytes) -> None:
    """Put a small file under its name, durably; a reader finds the old one or the new one."""
    temporary = temporary_name(name)
    if temporary in folder.names():
        folder.unlink(temporary)
    write_file(folder, temporary, data)
    folder.rename(temporary, name)
    folder.sync_names()
