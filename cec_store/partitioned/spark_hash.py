"""The partition of a row by its key, as Spark's own hash partitioning has it.

Spark hashes the columns one after the other by Murmur3 (x86, 32 bits, seed 42), each with the hash
so far as its seed, and takes the remainder. A null leaves the hash as it is. Rows that Spark and
this package write thus share partitions by key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.errors import SchemaMismatch
from cec_store.partitioned.murmur3 import Hashes, hash_ints, hash_longs, hash_text

_SEED = 42
_LONG_DECIMAL_DIGITS_MAX = 18


def partitions_of(columns: Sequence[pa.Array], count: int) -> NDArray[np.int32]:
    """Return an array of shape (rows,) with the partition of each row, 0 to ``count`` − 1.

    Raises:
        SchemaMismatch: a column of a type by which Spark partitions otherwise, or not at all.
    """
    hashes = np.full(len(columns[0]), _SEED, np.uint32)
    for column in columns:
        hashed = _of_column(column, hashes)
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            hashed = np.where(is_null, hashes, hashed)
        hashes = hashed
    return np.mod(hashes.view(np.int32), np.int32(count))


def _of_column(column: pa.Array, seeds: Hashes) -> Hashes:
    kind = column.type
    if pa.types.is_boolean(kind) or (pa.types.is_signed_integer(kind) and kind.bit_width <= 32):
        return hash_ints(_filled(column, pa.int32()), seeds)
    if pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return hash_longs(_filled(column, pa.int64()), seeds)
    if pa.types.is_date32(kind):
        return hash_ints(_filled(column, pa.int32()), seeds)
    if pa.types.is_float32(kind):
        return hash_ints(_plain_bits(_filled(column, kind), np.int32), seeds)
    if pa.types.is_float64(kind):
        return hash_longs(_plain_bits(_filled(column, kind), np.int64), seeds)
    if pa.types.is_decimal128(kind) and kind.precision <= _LONG_DECIMAL_DIGITS_MAX:
        halves = np.frombuffer(column.buffers()[1], np.int64)
        return hash_longs(halves[2 * column.offset :: 2][: len(column)], seeds)
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    ):
        return hash_text(column.cast(pa.large_binary()), seeds)
    raise SchemaMismatch(
        f"rows cannot be put into partitions by a column of {kind}: take one of integers, text, "
        "bytes, dates, moments in microseconds, floats or decimals of up to 18 digits"
    )


def _filled(column: pa.Array, kind: pa.DataType) -> NDArray[np.generic]:
    """The values, 0 for a null."""
    values = column.cast(kind)
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, kind))
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _plain_bits(
    values: NDArray[np.generic], as_type: type[np.signedinteger]
) -> NDArray[np.generic]:
    """Return the bits of floats as Java has them: those of one zero and of one NaN."""
    plain = np.where(values == 0, np.zeros_like(values), values)
    plain = np.where(np.isnan(plain), np.full_like(plain, np.nan), plain)
    return plain.view(as_type)
