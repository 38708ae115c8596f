"""Codec 2: offsets that are stored as lengths. docs/format.md §6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from cec_store.format.frame import BadHeader

_ENTRY_BYTES = 4


def store_lengths(raw: pa.Buffer, structs: Iterable[pa.StructArray]) -> bytes:
    """Return a copy of ``raw``, the message in which these columns lie, with lengths as offsets.

    Raises:
        BadHeader: an offsets buffer is too short.
    """
    message = np.frombuffer(raw, np.uint8).copy()
    for place in offset_buffers(raw, structs):
        offsets = message[place].view("<u4")
        offsets[1:] = np.diff(offsets)
    return message.tobytes()


def restore_offsets(raw: pa.Buffer, structs: Iterable[pa.StructArray]) -> None:
    """Make offsets of the lengths in ``raw``, the message in which these columns lie, in place.

    The sums are not checked here: the caller reads the message again and validates it.

    Raises:
        BadHeader: an offsets buffer is too short.
    """
    message = np.frombuffer(raw, np.uint8)
    for place in offset_buffers(raw, structs):
        lengths = message[place].view("<u4")
        if (lengths[1:] == lengths[1:2]).all():  # a product is faster than a sum of all before
            first = lengths[0]
            np.multiply(np.arange(len(lengths), dtype=np.uint32), lengths[1:2], out=lengths)
            lengths += first
        else:
            np.cumsum(lengths, out=lengths)


def offset_buffers(raw: pa.Buffer, structs: Iterable[pa.StructArray]) -> Iterator[slice]:
    """Yield the bytes of ``raw`` that hold offsets, for each binary or string field of the structs.

    Raises:
        BadHeader: an offsets buffer is too short.
    """
    for column in structs:
        size = (len(column) + 1) * _ENTRY_BYTES
        for number in range(column.type.num_fields if len(column) else 0):
            kind = column.type.field(number).type
            if pa.types.is_binary(kind) or pa.types.is_string(kind):
                offsets = column.field(number).buffers()[1]
                start = -1 if offsets is None else offsets.address - raw.address
                if start < 0 or start + size > raw.size:
                    raise BadHeader(f"body: offsets of {len(column)} records are cut")
                yield slice(start, start + size)
