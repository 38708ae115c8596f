"""Many small record batches that differ in nothing but values, read as one.

Arrow reads them one by one, at a price for each message and each column of it. Where all messages
say the same of their buffers, each column is a strip of one block of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cec_store.format.arrow_metadata import field_at, message_header, pairs_at

_PREFIX_BYTES = 8
"""Head of a message: the marker, and how long the metadata is."""


def are_alike(raws: Sequence[bytes]) -> bool:
    """Return whether messages have the same metadata and size, and so differ in values only."""
    first = raws[0]
    size, prefix = len(first), first[: _body_at(first)]
    return all(len(raw) == size and raw.startswith(prefix) for raw in raws)


def read_alike(raws: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows of complete messages that are alike in their order, not validated.

    ``None`` where Arrow itself has to read them: a column has nulls or is not of numbers or times.

    Raises:
        ARROW_ERRORS: the messages are not what they claim.
    """
    if not all(map(_has_plain_values, schema.types)):
        return None
    first = raws[0]
    size, body = len(first), _body_at(first)
    # What Arrow finds in order in the one is in order in all.
    rows = pa.ipc.read_record_batch(pa.ipc.read_message(first), schema).num_rows
    metadata = first[_PREFIX_BYTES:body]
    nodes = pairs_at(metadata, field_at(metadata, message_header(metadata), 1))
    buffers = pairs_at(metadata, field_at(metadata, message_header(metadata), 2))
    if nodes.tolist() != [[rows, 0]] * len(schema) or len(buffers) != 2 * len(schema):
        return None
    block = np.frombuffer(b"".join(raws), np.uint8).reshape(len(raws), size)[:, body:]
    columns = []
    for kind, (at, length) in zip(schema.types, buffers[1::2].tolist(), strict=True):
        used = rows * kind.bit_width // 8
        if at < 0 or length < used or at + used > block.shape[1]:
            return None
        values = pa.py_buffer(np.ascontiguousarray(block[:, at : at + used]))
        columns.append(pa.Array.from_buffers(kind, rows * len(raws), [None, values]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _body_at(message: bytes) -> int:
    return _PREFIX_BYTES + int.from_bytes(message[4:_PREFIX_BYTES], "little")


def _has_plain_values(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
