"""Fields of keys that Spark keeps in order, as timers and times to live are: the first key part.

::

    a marker       0: the number is below zero, 1: it is not, 2: there is none
    the number     big-endian, in as many bytes as its type has; of a floating-point number below
                   zero all bits are flipped

With plain rows the first part of a key is a row of such fields as bytes, marker and number
together. In Avro each is two fields of bytes. (Spark: ``encodePrefixKeyForRangeScan``.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.errors import SchemaMismatch

_BELOW_ZERO, _NONE = 0, 2
_SIZE_BYTES = 4
_TYPES = {
    pa.int8(): "i1",
    pa.int16(): "i2",
    pa.int32(): "i4",
    pa.int64(): "i8",
    pa.float32(): "f4",
    pa.float64(): "f8",
}


def split_keys(keys: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the first and the second parts of keys, each behind the number of its first's bytes.

    Raises:
        BadRow: a first part that is longer than its key.
    """
    firsts, seconds = [], []
    for key in keys:
        end = _SIZE_BYTES + int.from_bytes(key[:_SIZE_BYTES], "little")
        if len(key) < end:
            raise BadRow("a first part longer than its key")
        firsts.append(key[_SIZE_BYTES:end])
        seconds.append(key[end:])
    return firsts, seconds


def bytes_type(fields: Sequence[pa.Field], *, in_avro: bool) -> pa.StructType:
    """Return the type of the row that the first part of a key is."""
    count = (2 if in_avro else 1) * len(fields)
    return pa.struct([(str(number), pa.binary()) for number in range(count)])


def ordered_columns(
    part: pa.StructArray, fields: Sequence[pa.Field], path: str, *, in_avro: bool
) -> list[pa.Array]:
    """Decode the fields of first parts, which were read with :func:`bytes_type`.

    Raises:
        SchemaMismatch: a type that Spark does not keep in order; ``path`` is the schema's file.
        BadRow: a field of another length, or a marker that does not go with its number.
    """
    columns = part.flatten()
    decoded = []
    for number, field in enumerate(fields):
        if field.type not in _TYPES:
            raise SchemaMismatch(f"{path}: {field.type} is not supported in a key that is in order")
        size = field.type.bit_width // 8
        if in_avro:
            marker, stored = (
                _bytes_of(columns[2 * number + at], width) for at, width in enumerate((1, size))
            )
        else:
            both = _bytes_of(columns[number], 1 + size)
            marker, stored = both[:, :1], both[:, 1:]
        decoded.append(_column(field.type, marker[:, 0], stored))
    return decoded


def _bytes_of(column: pa.Array, width: int) -> NDArray[np.uint8]:
    """The bytes of a column of values of one length, a row for each value."""
    is_due = pc.equal(pc.binary_length(column), width)
    if column.null_count or not pc.all(is_due, min_count=0).as_py():
        raise BadRow(f"a field of a key in order that has not the {width} bytes due")
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, width)


def _column(kind: pa.DataType, marker: NDArray[np.uint8], stored: NDArray[Any]) -> pa.Array:
    dtype = np.dtype(f">{_TYPES[kind]}")
    below = marker == _BELOW_ZERO
    if pa.types.is_floating(kind):
        stored = np.where(below[:, None], ~stored, stored)
    numbers = np.ascontiguousarray(stored).view(dtype).reshape(-1)
    is_none = marker == _NONE
    if (marker > _NONE).any() or (np.signbit(numbers) != below)[~is_none].any():
        raise BadRow("a marker that does not go with the number behind it")
    return pa.array(numbers.astype(dtype.newbyteorder("=")), kind, mask=is_none)
