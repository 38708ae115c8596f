"""What a consumer has acknowledged, as it stands on disk. docs/format.md §10."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.checksum import crc32c

_MAGIC = b"CECACKS\0"
_VERSION = 1
_LAYOUT = Struct("<8sHHI16sQQQqII")
assert _LAYOUT.size == 72


@dataclass(frozen=True)
class Acknowledgement:
    """Offsets are next-unread ones."""

    log_id: bytes
    start: int
    received: int
    effects_saved: int
    acknowledged_us: int

    def encode(self) -> bytes:
        body = _LAYOUT.pack(
            _MAGIC, _VERSION, _LAYOUT.size, 0, self.log_id, self.start, self.received,
            self.effects_saved, self.acknowledged_us, 0, 0,
        )[:-4]  # fmt: skip
        return body + crc32c(body).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, path: str) -> Acknowledgement:
        """Raises :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        version = int.from_bytes(data[8:10], "little")
        is_ours, is_long = data.startswith(_MAGIC), len(data) == _LAYOUT.size
        is_sound = is_ours and is_long and crc32c(data[:-4]) == int.from_bytes(data[-4:], "little")
        if is_ours and version > _VERSION and (is_sound or not is_long):
            raise UnsupportedVersion(
                f"{path}: format version {version}; this release reads {_VERSION}: "
                "upgrade cec-store"
            )
        if not is_sound or version != _VERSION:
            raise damaged(path, 0, "the acknowledgement fails its checksum")
        fields = _LAYOUT.unpack(data)
        return cls(*fields[4:9])


def damaged(path: str, byte: int, reason: str) -> CorruptLog:
    """The error for an acknowledgement that cannot be believed."""
    advice = (
        "restore the file from a copy, or drop the consumer by its name; until then nothing is "
        "trimmed, as nobody knows what it needs"
    )
    return CorruptLog(path, byte, reason, advice)
