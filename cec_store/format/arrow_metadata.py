"""The headers of Arrow's messages: fields of flatbuffers tables. Arrow's ``Message.fbs``."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray


def message_header(metadata: bytes) -> int:
    """Return the first byte of the table of the batch, or of the dictionary, of a message."""
    return table_at(metadata, field_at(metadata, int.from_bytes(metadata[:4], "little"), 2))


def field_at(data: bytes, table: int, number: int) -> int:
    """Return the first byte of a field of a table; 0 where the field is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0


def table_at(data: bytes, field: int) -> int:
    """The table that a field refers to; 0 where the field is left out."""
    return field + int(struct.unpack_from("<I", data, field)[0]) if field else 0


def integer_at(data: bytes, field: int, layout: str, default: int = 0) -> int:
    """The number in a field, or what it is where it is left out."""
    return int(struct.unpack_from(layout, data, field)[0]) if field else default


def pairs_at(data: bytes, field: int) -> NDArray[np.int64]:
    """A vector of structs of two int64, shape (structs, 2)."""
    if not field:
        return np.empty((0, 2), np.int64)
    vector = table_at(data, field)
    count = struct.unpack_from("<I", data, vector)[0]
    return np.frombuffer(data, "<i8", 2 * count, vector + 4).reshape(-1, 2)
