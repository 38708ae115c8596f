"""What pyarrow would read and a log refuses, as its bytes may come from anyone."""

from __future__ import annotations

import struct

import pyarrow as pa

from cec_store.format.arrow_metadata import field_at, message_header

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

    Those that are would inflate past what the frame header states (codec 3 checks what they claim).
    """
    if message.type != "record batch":
        return False
    data = message.metadata.to_pybytes()
    return not field_at(data, message_header(data), 3)
