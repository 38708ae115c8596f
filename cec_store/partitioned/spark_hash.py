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

_SEED = 42
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_LONG_DECIMAL_DIGITS_MAX = 18
_Hashes = NDArray[np.uint32]


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


def _of_column(column: pa.Array, seeds: _Hashes) -> _Hashes:
    kind = column.type
    if pa.types.is_boolean(kind) or (pa.types.is_signed_integer(kind) and kind.bit_width <= 32):
        return _of_ints(_filled(column, pa.int32()), seeds)
    if pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return _of_longs(_filled(column, pa.int64()), seeds)
    if pa.types.is_date32(kind):
        return _of_ints(_filled(column, pa.int32()), seeds)
    if pa.types.is_float32(kind):
        return _of_ints(_plain_bits(_filled(column, kind), np.int32), seeds)
    if pa.types.is_float64(kind):
        return _of_longs(_plain_bits(_filled(column, kind), np.int64), seeds)
    if pa.types.is_decimal128(kind) and kind.precision <= _LONG_DECIMAL_DIGITS_MAX:
        halves = np.frombuffer(column.buffers()[1], np.int64)
        return _of_longs(halves[2 * column.offset :: 2][: len(column)], seeds)
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    ):
        return _of_bytes(column.cast(pa.large_binary()), seeds)
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


def _of_ints(values: NDArray[np.generic], seeds: _Hashes) -> _Hashes:
    return _finished(_mixed(seeds, values.view(np.uint32)), np.uint32(4))


def _of_longs(values: NDArray[np.generic], seeds: _Hashes) -> _Hashes:
    words = np.ascontiguousarray(values).view(np.uint64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (words >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), np.uint32(8))


def _of_bytes(column: pa.Array, seeds: _Hashes) -> _Hashes:
    """Four bytes at a time; of the rest each byte, as a signed number, by itself."""
    ends = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, 8 * column.offset)
    data = column.buffers()[2]
    held = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts, lengths = ends[:-1], np.diff(ends)
    hashes = seeds.copy()
    for word in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        at = starts[rows] + 4 * word
        values = held[at[:, None] + np.arange(4)].view("<u4")[:, 0]
        hashes[rows] = _mixed(hashes[rows], values)
    for byte in range(3):
        rows = np.flatnonzero(lengths % 4 > byte)
        at = starts[rows] + (lengths[rows] // 4) * 4 + byte
        values = held[at].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = _mixed(hashes[rows], values)
    return _finished(hashes, lengths.astype(np.uint32))


def _mixed(hashes: _Hashes, words: NDArray[np.uint32]) -> _Hashes:
    with np.errstate(over="ignore"):
        mixed = _turned(words * _C1, 15) * _C2
        return _turned(hashes ^ mixed, 13) * _FIVE + _ADDED


def _turned(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: _Hashes, lengths: NDArray[np.uint32] | np.uint32) -> _Hashes:
    with np.errstate(over="ignore"):
        hashes = hashes ^ lengths
        hashes = (hashes ^ (hashes >> np.uint32(16))) * _MIX1
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _MIX2
        return hashes ^ (hashes >> np.uint32(16))
