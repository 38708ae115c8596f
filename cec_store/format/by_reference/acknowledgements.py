"""Progress of a consumer of a queue of many partitions, as an object. docs/format.md §11."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from cec_store.errors import CorruptLog, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc

_MAGIC = b"CECACKP\0"
_VERSION = 1
_HEADER = struct.Struct("<8sHHI16sQq16s")
_CRC_BYTES = 4


@dataclass(frozen=True)
class PartitionsAcknowledged:
    """Next-unread offsets, one of each partition: ``effects_saved`` ≤ ``received``."""

    log_id: bytes
    number: int
    """Number of this object among the consumer's."""
    holder: bytes
    """16 random bytes of whoever acts under the name."""
    acknowledged_us: int
    received: tuple[int, ...]
    effects_saved: tuple[int, ...]

    def encode(self) -> bytes:
        """The object's bytes."""
        header = _HEADER.pack(
            _MAGIC, _VERSION, _HEADER.size, len(self.received), self.log_id, self.number,
            self.acknowledged_us, self.holder,
        )  # fmt: skip
        offsets = np.array([*self.received, *self.effects_saved], "<u8").tobytes()
        return with_crc(header + offsets + bytes(_CRC_BYTES))

    @classmethod
    def decode(cls, data: bytes, path: str) -> PartitionsAcknowledged:
        """Back from bytes that were read from ``path``.

        Raises:
            CorruptLog: they are damaged.
            UnsupportedVersion: a later format wrote them.
        """
        if len(data) < _HEADER.size + _CRC_BYTES or data[:8] != _MAGIC:
            raise CorruptLog(path, 0, "no acknowledgement of a consumer")
        if not crc_is_right(data):
            raise CorruptLog(path, 0, "the acknowledgement fails its checksum")
        _, version, size, count, log_id, number, when_us, holder = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise upgrade_needed(path, f"an acknowledgement of version {version}")
        if size != _HEADER.size or len(data) != size + 16 * count + _CRC_BYTES:
            raise CorruptLog(path, 12, f"{len(data)} bytes for {count} partitions")
        offsets = np.frombuffer(data, "<u8", 2 * count, size)
        received, saved = offsets[:count], offsets[count:]
        if (saved > received).any() or (received >> 63).any():
            raise CorruptLog(path, size, "an acknowledgement that says what cannot be")
        return cls(log_id, number, holder, when_us, tuple(received.tolist()), tuple(saved.tolist()))
