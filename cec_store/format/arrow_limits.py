"""Checks of Arrow data that pyarrow would read and a log refuses, as bytes may come from anyone."""

from __future__ import annotations

import struct
from functools import lru_cache

import pyarrow as pa

from cec_store.format.arrow_metadata import field_at, integer_at, message_header

# What pyarrow raises on bytes that are not what they claim.
ARROW_ERRORS = (
    pa.ArrowException, OSError, ValueError, TypeError, LookupError, EOFError, OverflowError,
    struct.error,
)  # fmt: skip


_PREFIX = struct.Struct("<II")
_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH = 3
"""The number of a record batch among the kinds of messages."""


def is_plain_batch(message: pa.ipc.Message) -> bool:
    """Return whether this is a record batch whose buffers are not compressed one by one.

    Those that are would inflate past what the frame header states (codec 3 checks what they claim).
    """
    if message.type != "record batch":
        return False
    return _is_uncompressed(message.metadata.to_pybytes())


@lru_cache(maxsize=16)
def _is_uncompressed(metadata: bytes) -> bool:
    """True if a batch's metadata names no compression. Small frames often share theirs."""
    return not field_at(metadata, message_header(metadata), 3)


def is_lone_batch(raw: bytes) -> bool:
    """Return True if the bytes are one message with a plain record batch, and nothing behind.

    Such messages can be read one after the other, as a stream.
    """
    marker, metadata_bytes = _PREFIX.unpack_from(raw)
    body: int = _PREFIX.size + metadata_bytes
    if marker != _CONTINUATION or len(raw) % 8:
        return False
    return body + _plain_body_bytes(raw[_PREFIX.size : body]) == len(raw)


@lru_cache(maxsize=16)
def _plain_body_bytes(metadata: bytes) -> int:
    """Bytes of the buffers of a record batch; -1 of another message, or with compressed ones."""
    message = int.from_bytes(metadata[:4], "little")
    kind = integer_at(metadata, field_at(metadata, message, 1), "<B")
    if kind != _RECORD_BATCH or not _is_uncompressed(metadata):
        return -1
    return max(-1, integer_at(metadata, field_at(metadata, message, 3), "<q"))
