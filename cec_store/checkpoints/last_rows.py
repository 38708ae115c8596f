"""Which record of each key is the last: of millions at once, and of keys of any kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints, values_of

_WORD_MAX = 1 << 63
_PARTED_BYTES_MAX = 64
_TABLE_ROWS_MAX = 4
"""A table of so many places for each row is faster than sorting."""


def last_rows(keys: pa.StructArray) -> Ints:
    """The last row of each key, ascending; null is a key, and nulls inside a key are equal."""
    codes, bound = key_codes(keys)
    count = len(codes)
    if bound <= _TABLE_ROWS_MAX * count:
        rows = np.arange(count, dtype=np.int32 if count < 1 << 31 else np.int64)
        last = np.empty(bound, rows.dtype)
        last[codes] = rows  # of equal codes the last one stays
        return np.flatnonzero(last[codes] == rows)
    # Code and row in one word: sorting words is several times as fast as hashing keys.
    row_bits = count.bit_length()
    words = codes << row_bits
    words |= np.arange(count)
    words.sort()
    codes = words >> row_bits
    is_last = np.append(codes[1:] != codes[:-1], True)[:count]
    chosen = np.zeros(count, np.bool_)
    chosen[words[is_last] & ((1 << row_bits) - 1)] = True
    return np.flatnonzero(chosen)


def key_codes(keys: pa.StructArray) -> tuple[Ints, int]:
    """Equal numbers for equal keys, from 0 up to a bound that leaves room for a row's number."""
    columns = [part for column in keys.flatten() for part in _parts(column)]
    if keys.null_count or not columns:
        columns = [keys.is_valid(), *columns]
    row_bits = len(keys).bit_length()
    codes, bound = _codes(columns[0])
    for column in columns[1:]:
        more, more_bound = _codes(column)
        if more_bound == 1:
            continue  # the same in all rows
        if bound * more_bound << row_bits >= _WORD_MAX:
            (codes, bound), (more, more_bound) = _dense(pa.array(codes)), _dense(pa.array(more))
        codes, bound = codes * more_bound + more, bound * more_bound
    if bound << row_bits >= _WORD_MAX:
        codes, bound = _dense(pa.array(codes))
    return codes, bound


def _parts(column: pa.Array) -> list[pa.Array]:
    """Bytes of one length as numbers, which have codes at once: keys of Spark are often such.

    Numbers that are the same in all rows are left out.
    """
    if not pa.types.is_binary(column.type) or column.null_count or not len(column):
        return [column]
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, "<i4", len(column) + 1, column.offset * 4)
    size = int(places[1] - places[0])
    if not 0 < size <= _PARTED_BYTES_MAX or (np.diff(places) != size).any():
        return [column]
    singles = [(byte, "u1") for byte in range(size % 8)]
    words = [(byte, "<i8") for byte in range(size % 8, size, 8)]
    parts = (
        np.ndarray((len(column),), dtype, data, int(places[0]) + byte, (size,))
        for byte, dtype in singles + words
    )
    return [pa.array(part.copy()) for part in parts if (part != part[0]).any()]


def _codes(column: pa.Array) -> tuple[Ints, int]:
    """Equal numbers from 0 up to a bound for equal values: integers and times are numbers."""
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not is_number or column.null_count or not len(column):
        return _dense(column)
    values = values_of(column, f"i{kind.bit_width // 8}").astype(np.int64, copy=False)
    low, high = int(values.min()), int(values.max())
    return (values - low, high - low + 1) if high - low < _WORD_MAX >> 1 else _dense(column)


def _dense(column: pa.Array) -> tuple[Ints, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = values_of(encoded.indices, "i4").astype(np.int64)
    return codes, len(encoded.dictionary)
