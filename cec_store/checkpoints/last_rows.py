"""Find the last record of each key: of millions at once, and of keys of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, ends_of, values_of

_WORD_MAX = 1 << 63
_PARTED_BYTES_MAX = 64
_TABLE_ROWS_MAX = 4
"""A table of so many places for each row is faster than sorting."""
Keys = Union[pa.StructArray, pa.ChunkedArray]  # noqa: UP007 - mypy knows no types of Arrow


def last_rows(keys: Keys) -> Ints:
    """The last row of each key, ascending; null is a key, and nulls inside a key are equal."""
    codes, bound = key_codes(keys)
    count = len(codes)
    if bound <= _TABLE_ROWS_MAX * count:
        sizes = [len(chunk) for chunk in keys.chunks] if isinstance(keys, pa.ChunkedArray) else []
        rows = _last_by_chunk(codes, bound, sizes or [count])
        return _last_by_row(codes, bound) if rows is None else rows
    # Put code and row in one word: sorting words is several times as fast as hashing keys.
    row_bits = count.bit_length()
    words = codes << row_bits
    words |= np.arange(count)
    words.sort()
    codes = words >> row_bits
    is_last = np.append(codes[1:] != codes[:-1], True)[:count]
    chosen = np.zeros(count, np.bool_)
    chosen[words[is_last] & ((1 << row_bits) - 1)] = True
    return np.flatnonzero(chosen)


def _last_by_chunk(codes: Ints, bound: int, sizes: list[int]) -> Ints | None:
    """Return the last row of each key, ascending; ``None`` where a chunk has a key twice.

    No frame of a state store has one twice. The table of bytes stays in the processor's cache.
    """
    is_new = np.ones(bound, np.bool_)
    left, parts, end = bound, [np.empty(0, np.int64)], len(codes)
    for size in reversed(sizes):
        first = end - size
        part = codes[first:end]
        new = np.flatnonzero(is_new.take(part))
        is_new[part] = False
        before, left = left, int(np.count_nonzero(is_new))
        if before - left != len(new):
            return None
        new += first
        parts.append(new)
        end = first
    return np.concatenate(parts[::-1])


def _last_by_row(codes: Ints, bound: int) -> Ints:
    rows = np.arange(len(codes), dtype=np.int32 if len(codes) < 1 << 31 else np.int64)
    last = np.empty(bound, rows.dtype)
    last[codes] = rows  # of equal codes the last one stays
    return np.flatnonzero(last[codes] == rows)


def key_codes(keys: Keys) -> tuple[Ints, int]:
    """Equal numbers for equal keys, from 0 up to a bound that leaves room for a row's number."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    parts = [_codes(column) for column in _columns(chunks)]
    row_bits = len(keys).bit_length()
    codes, bound = np.zeros(0, np.int64), 1
    for more, more_bound in (part for part in parts if part[1] > 1):  # else the same in all rows
        if bound == 1:
            codes, bound = more, more_bound
            continue
        if bound * more_bound << row_bits >= _WORD_MAX:
            (codes, bound), (more, more_bound) = _dense(pa.array(codes)), _dense(pa.array(more))
        codes, bound = codes * more_bound + more, bound * more_bound
    if bound == 1:
        return np.zeros(len(keys), np.int64), 1
    if bound << row_bits >= _WORD_MAX:
        codes, bound = _dense(pa.array(codes))
    return codes, bound


_Column = Union[list[NDArray[Any]], pa.ChunkedArray]  # noqa: UP007
"""Numbers as they lie, by chunk, or a column of any type."""


def _columns(chunks: Sequence[pa.StructArray]) -> list[_Column]:
    """Return the columns of the keys, the first one their validity if any key is null."""
    chunks = [chunk for chunk in chunks if len(chunk)]
    columns: list[_Column] = []
    if any(chunk.null_count for chunk in chunks):
        columns.append(pa.chunked_array([chunk.is_valid() for chunk in chunks]))
    for of_chunks in zip(*(chunk.flatten() for chunk in chunks), strict=True):
        words = _words(of_chunks)
        columns += [pa.chunked_array(of_chunks)] if words is None else words
    return columns


def _words(chunks: Sequence[pa.Array]) -> list[_Column] | None:
    """Bytes of one length as numbers, which have codes at once: keys of Spark are often such.

    Numbers that are the same in all rows are left out; ``None`` for all others.
    """
    kind = chunks[0].type
    if not pa.types.is_binary(kind) or any(chunk.null_count for chunk in chunks):
        return None
    places = [ends_of(chunk) for chunk in chunks]
    size = int(places[0][1]) - int(places[0][0])
    if not 0 < size <= _PARTED_BYTES_MAX:
        return None
    if any((offsets[1:] - offsets[:-1] != size).any() for offsets in places):
        return None
    words: list[_Column] = []
    singles = [(byte, "u1") for byte in range(size % 8)]
    for byte, dtype in singles + [(byte, "<i8") for byte in range(size % 8, size, 8)]:
        views = [
            np.ndarray((len(chunk),), dtype, chunk.buffers()[2], int(starts[0]) + byte, (size,))
            for chunk, starts in zip(chunks, places, strict=True)
        ]
        if any((view != views[0][0]).any() for view in views):
            words.append(views)
    return words


def _codes(column: _Column) -> tuple[Ints, int]:
    """Equal numbers from 0 up to a bound for equal values: integers and times are numbers."""
    if isinstance(column, list):
        values: NDArray[Any] = np.concatenate(column)
        return _number_codes(values) or _dense(pa.array(values))
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not is_number or column.null_count:
        return _dense(column)
    values = values_of(column, f"i{kind.bit_width // 8}")
    return _number_codes(values) or _dense(column)


def _number_codes(values: NDArray[Any]) -> tuple[Ints, int] | None:
    """Return the values above the lowest, and their bound; ``None`` where the range is too wide."""
    low, high = int(values.min()), int(values.max())
    if high - low >= _WORD_MAX >> 1:
        return None
    return (values if low == high else values.astype(np.int64, copy=False) - low), high - low + 1


def _dense(column: pa.Array | pa.ChunkedArray) -> tuple[Ints, int]:
    kind = column.type
    if pa.types.is_decimal(kind):  # pyarrow has no kernel for narrow ones
        parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        as_bytes = pa.binary(kind.bit_width // 8)
        column = pa.chunked_array([part.view(as_bytes) for part in parts], as_bytes)
    encoded = column.dictionary_encode(null_encoding="encode")
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    indices = np.concatenate([values_of(chunk.indices, "i4") for chunk in chunks])
    return indices.astype(np.int64), len(chunks[0].dictionary)  # of all of them the same
