"""The manifest: who may append, and which segments exist. docs/format.md §2."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from cec_store.errors import CorruptLog, NotAQueue, unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc

_MAGIC = b"CECMANI\0"
_VERSION = 1
EPOCH_MAX = 2**32 - 1
_LAYOUT = Struct("<8sHHI16sQQ12xI")
MANIFEST_BYTES = _LAYOUT.size
assert MANIFEST_BYTES == 64


@dataclass(frozen=True)
class Manifest:
    """``first_segment … newest_segment`` exist; the writer of ``epoch`` may append."""

    epoch: int
    log_id: bytes
    first_segment: int
    newest_segment: int

    def encode(self) -> bytes:
        data = _LAYOUT.pack(
            _MAGIC, _VERSION, MANIFEST_BYTES, self.epoch, self.log_id,
            self.first_segment, self.newest_segment, 0,
        )  # fmt: skip
        return with_crc(data)

    @classmethod
    def decode(cls, data: bytes, path: str) -> Manifest:
        """Raises :class:`NotAQueue`, :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        if not data.startswith(_MAGIC):
            if len(data) == MANIFEST_BYTES and data[1:8] == _MAGIC[1:]:
                raise CorruptLog(path, 0, "the manifest's magic is wrong")
            raise NotAQueue(f"{path}: not a manifest of cec-store")
        version = int.from_bytes(data[8:10], "little")
        if len(data) != MANIFEST_BYTES or not crc_is_right(data):
            if len(data) >= 10 and version > _VERSION and len(data) != MANIFEST_BYTES:
                raise upgrade_needed(path, unknown_version(version, _VERSION))
            raise CorruptLog(path, 0, "the manifest fails its checksum")
        if version != _VERSION:
            raise upgrade_needed(path, unknown_version(version, _VERSION))
        epoch, log_id, first, newest = _LAYOUT.unpack(data)[3:7]
        if first > newest:
            raise CorruptLog(path, 32, f"first segment {first} above newest segment {newest}")
        return cls(epoch, log_id, first, newest)
