"""A consumer's acknowledgement as it stands on disk. docs/format.md §10."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from cec_store.errors import CorruptLog, unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc

_MAGIC = b"CECACKS\0"
_VERSION = 1
_LAYOUT = Struct("<8sHHI16sQQQqII")
ACKNOWLEDGEMENT_BYTES = _LAYOUT.size
assert ACKNOWLEDGEMENT_BYTES == 72


@dataclass(frozen=True)
class Acknowledgement:
    """Offsets are next-unread ones."""

    log_id: bytes
    start: int
    received: int
    effects_saved: int
    acknowledged_us: int

    def encode(self) -> bytes:
        data = _LAYOUT.pack(
            _MAGIC, _VERSION, ACKNOWLEDGEMENT_BYTES, 0, self.log_id, self.start, self.received,
            self.effects_saved, self.acknowledged_us, 0, 0,
        )  # fmt: skip
        return with_crc(data)

    @classmethod
    def decode(cls, data: bytes, path: str) -> Acknowledgement:
        """Raises :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        version = int.from_bytes(data[8:10], "little")
        is_ours, is_whole = data.startswith(_MAGIC), len(data) == ACKNOWLEDGEMENT_BYTES
        is_sound = is_ours and is_whole and crc_is_right(data)
        if is_ours and version > _VERSION and (is_sound or not is_whole):
            raise upgrade_needed(path, unknown_version(version, _VERSION))
        if not is_sound or version != _VERSION:
            raise damaged(path, 0, "the acknowledgement fails its checksum")
        return cls(*_LAYOUT.unpack(data)[4:9])


def damaged(path: str, byte: int, reason: str) -> CorruptLog:
    """The error for an acknowledgement that cannot be believed."""
    advice = (
        "restore the file from a copy, or drop the consumer by its name; until then nothing is "
        "trimmed, as nobody knows what it needs"
    )
    return CorruptLog(path, byte, reason, advice)
