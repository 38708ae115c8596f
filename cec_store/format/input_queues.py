"""Queues that an operator's input positions are of, as stored on disk. docs/format.md §6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from cec_store.errors import CorruptLog, unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc

_MAGIC = b"CECINPU\0"
_VERSION = 1
_LAYOUT = Struct("<8sHHI16s")
_CRC_BYTES = 4
_ID_BYTES = 16
INPUTS_MAX = (2**16 - 1 - _LAYOUT.size - _CRC_BYTES) // _ID_BYTES
INPUT_QUEUES_BYTES_MAX = _LAYOUT.size + INPUTS_MAX * _ID_BYTES + _CRC_BYTES


@dataclass(frozen=True)
class InputQueues:
    """The file's content."""

    log_id: bytes
    """Id of the queue that the operator writes."""
    queues: tuple[str, ...]
    """Id of the queue that each input is, 32 hex digits; empty where it is none."""

    @classmethod
    def of(cls, log_id: bytes, queues: Sequence[str]) -> InputQueues:
        """Raises ``ValueError`` for more inputs than there is room for."""
        if len(queues) > INPUTS_MAX:
            raise ValueError(f"{len(queues)} inputs of one operator; {INPUTS_MAX} at most")
        return cls(log_id, tuple(queues))

    def encode(self) -> bytes:
        ids = [bytes.fromhex(queue) or bytes(_ID_BYTES) for queue in self.queues]
        size = _LAYOUT.size + len(ids) * _ID_BYTES + _CRC_BYTES
        head = _LAYOUT.pack(_MAGIC, _VERSION, size, len(ids), self.log_id)
        return with_crc(b"".join([head, *ids, bytes(_CRC_BYTES)]))

    @classmethod
    def decode(cls, data: bytes, path: str) -> InputQueues:
        """Raises :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        is_ours = data.startswith(_MAGIC) and len(data) >= _LAYOUT.size + _CRC_BYTES
        is_sound = is_ours and crc_is_right(data)
        version = int.from_bytes(data[8:10], "little")
        if is_sound and version > _VERSION:
            raise upgrade_needed(path, unknown_version(version, _VERSION))
        _, _, size, inputs, log_id = _LAYOUT.unpack_from(data) if is_ours else (0, 0, -1, -1, b"")
        due = _LAYOUT.size + inputs * _ID_BYTES + _CRC_BYTES
        if not is_sound or version != _VERSION or not size == due == len(data):
            raise damaged_input_queues(path, 0, "what the inputs are fails its checksum")
        at = range(_LAYOUT.size, due - _CRC_BYTES, _ID_BYTES)
        ids = [data[byte : byte + _ID_BYTES] for byte in at]
        return cls(log_id, tuple(queue_id.hex() if any(queue_id) else "" for queue_id in ids))


def damaged_input_queues(path: str, byte: int, reason: str) -> CorruptLog:
    """Return the error for a file that cannot be believed."""
    advice = (
        "restore the file from a copy; where the inputs are certainly the ones that the log was "
        "made from, remove it, and it is written anew"
    )
    return CorruptLog(path, byte, reason, advice)
