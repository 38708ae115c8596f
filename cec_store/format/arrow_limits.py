"""What pyarrow would read and a log refuses, as its bytes may come from anyone."""

from __future__ import annotations

import struct

import pyarrow as pa

# What pyarrow raises on bytes that are not what they claim.
ARROW_ERRORS = (
    pa.ArrowException, OSError, ValueError, TypeError, LookupError, EOFError, OverflowError,
    struct.error,
)  # fmt: skip


def holds_dictionary(kind: pa.DataType) -> bool:
    """Whether a dictionary stands anywhere in the type: its values would not be in the body."""
    if pa.types.is_dictionary(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return holds_dictionary(kind.storage_type)
    if pa.types.is_map(kind):
        return holds_dictionary(kind.key_type) or holds_dictionary(kind.item_type)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return any(holds_dictionary(kind.field(i).type) for i in range(kind.num_fields))
    return hasattr(kind, "value_type") and holds_dictionary(kind.value_type)


def is_plain_batch(message: pa.ipc.Message) -> bool:
    """Whether this is a record batch whose buffers are not compressed one by one.

    Those that are would inflate past what the frame header states. Arrow's ``Message.fbs``: the
    message's third field is the batch, whose fourth says how it is compressed.
    """
    if message.type != "record batch":
        return False
    data = message.metadata.to_pybytes()
    batch = _field(data, int.from_bytes(data[:4], "little"), 2)
    return not _field(data, batch + struct.unpack_from("<i", data, batch)[0], 3)


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table stands; 0 where it is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0
