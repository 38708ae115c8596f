"""The manifest: who may append, and which segments exist. docs/format.md §2."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from cec_store.errors import CorruptLog, NotAQueue, UnsupportedVersion
from cec_store.format.checksum import crc32c

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
