"""Durable end of a log, as its writer notes it apart from the log. docs/format.md §2."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from cec_store.errors import unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc

_MAGIC = b"CECDURA\0"
_VERSION = 1
_LAYOUT = Struct("<8sHHI16s7QI32xI")
DURABLE_END_BYTES = _LAYOUT.size
assert DURABLE_END_BYTES == 128
SLOTS_AT = (0, 4096)
"""First bytes of the file's two slots, which are in sectors and pages of their own."""
NOTE_BYTES = SLOTS_AT[-1] + DURABLE_END_BYTES


class DurableEnd(NamedTuple):
    """Everything below ``byte`` of the segment is on disk; fields as in docs/format.md §2."""

    epoch: int
    log_id: bytes
    segment_id: int
    salt: int
    byte: int
    seq: int
    offset: int
    last_segment: int
    last_byte: int
    running_crc: int

    def encode(self) -> bytes:
        return with_crc(_LAYOUT.pack(_MAGIC, _VERSION, DURABLE_END_BYTES, *self, 0))


def decode_durable_ends(data: bytes, path: str) -> list[DurableEnd]:
    """Return the records of the sound slots; one that is torn, lost or was never written is absent.

    Raises:
        UnsupportedVersion: a later format wrote one of them.
    """
    slots = [data[at : at + DURABLE_END_BYTES] for at in SLOTS_AT]
    return [end for slot in slots if (end := _decode(slot, path)) is not None]


def _decode(slot: bytes, path: str) -> DurableEnd | None:
    if len(slot) < DURABLE_END_BYTES or not slot.startswith(_MAGIC) or not crc_is_right(slot):
        return None
    fields = _LAYOUT.unpack(slot)
    if fields[1] != _VERSION:
        raise upgrade_needed(path, unknown_version(fields[1], _VERSION))
    return DurableEnd._make(fields[3:13])
