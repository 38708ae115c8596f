"""What pyarrow would read and a log refuses, as its bytes may come from anyone."""

from __future__ import annotations

import struct
from functools import lru_cache

import pyarrow as pa

from cec_store.format.arrow_metadata import field_at, message_header

# What pyarrow raises on bytes that are not what they claim.
ARROW_ERRORS = (
    pa.ArrowException, OSError, ValueError, TypeError, LookupError, EOFError, OverflowError,
    struct.error,
)  # fmt: skip


def is_plain_batch(message: pa.ipc.Message) -> bool:
    """Whether this is a record batch whose buffers are not compressed one by one.

    Those that are would inflate past what the frame header states (codec 3 checks what they claim).
    """
    if message.type != "record batch":
        return False
    return _is_uncompressed(message.metadata.to_pybytes())


@lru_cache(maxsize=16)
def _is_uncompressed(metadata: bytes) -> bool:
    """True if a batch's metadata names no compression. Small frames often share theirs."""
    return not field_at(metadata, message_header(metadata), 3)
