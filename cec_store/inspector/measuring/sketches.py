"""Sketches of keys: equal keys have equal ones, most others do not. For sieving many keys fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import flags_of, values_of
from cec_store.operators.keys.dictionary import is_text

Words = NDArray[np.uint64]
_HALF = np.uint64(32)
_WORDS_MAX = 8
"""Words of a longer value that a sketch includes: these first ones, the last one, and the length.
"""
_PLACES = 16
_RANDOM = np.random.default_rng(0)
_WEIGHTS: Words = _RANDOM.integers(0, 2**64 - 1, 16 * _PLACES, np.uint64) | np.uint64(1)


def sketches_of(columns: Sequence[pa.Array]) -> Words:
    """One for each row of columns that a :class:`KeyEncoder` takes.

    A sum over the row's words, each with a weight by its place: a word of zeros counts for
    nothing, so that it does not matter what other rows there are.
    """
    sums = np.zeros(len(columns[0]), np.uint64)
    for number, column in enumerate(columns):
        weights = _WEIGHTS[number % 16 * _PLACES :]
        valid = None if column.null_count == 0 else flags_of(column.is_valid())
        for place, word in _words_of(column):
            part = word >> _HALF
            part ^= word
            part *= weights[place]
            sums += part if valid is None else np.where(valid, part, np.uint64(0))
    return (sums >> _HALF) ^ sums


def _words_of(column: pa.Array) -> Iterator[tuple[int, Words]]:
    """Yield, for each place, a word for each row, or one that all rows have."""
    kind = column.type
    if is_text(kind):
        yield from _words_of_text(column)
    elif pa.types.is_boolean(kind):
        yield 0, flags_of(column).astype(np.uint64)
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        yield 0, values_of(column, f"u{kind.bit_width // 8}").astype(np.uint64)
    # Equal values of other types may have different bits, so they are left out.


def _words_of_text(column: pa.Array) -> Iterator[tuple[int, Words]]:
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        width = 4
    else:
        column, width = column.cast(pa.large_binary()), 8
    _, ends, data = column.buffers()
    if not len(column) or data is None:
        return
    value_ends = np.frombuffer(ends, f"<i{width}", len(column) + 1, column.offset * width)
    lengths = np.diff(value_ends).astype(np.int64)
    first, stop = int(value_ends[0]), int(value_ends[-1])
    padded = np.zeros(stop - first + 8, np.uint8)  # so that eight bytes can be read at any place
    padded[:-8] = np.frombuffer(data, np.uint8)[first:stop]
    longest = int(lengths.max())
    if longest == int(lengths.min()) <= 8 * _WORDS_MAX:
        yield 0, np.array([longest], np.uint64)
        for byte in range(0, longest, 8):
            word = np.ndarray((len(column),), "<u8", padded, byte, (longest,))
            beyond = max(0, byte + 8 - longest)
            yield 1 + byte // 8, word << np.uint64(8 * beyond) if beyond else word
        return
    yield 0, lengths.astype(np.uint64)
    at_any_byte = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
    starts = value_ends[:-1].astype(np.int64) - first
    for place in range(min(_WORDS_MAX, (longest + 7) >> 3)):
        left = np.clip(lengths - 8 * place, 0, 8)
        unused = (8 * (8 - left)).astype(np.uint64)
        loaded = at_any_byte[np.minimum(starts + 8 * place, stop - first)]
        # A shift by 64 should give 0, but processors shift by 0 then.
        yield 1 + place, np.where(left > 0, loaded << (unused & np.uint64(63)), np.uint64(0))
    if longest > 8 * _WORDS_MAX:
        last = at_any_byte[np.maximum(starts + lengths - 8, 0)]
        yield _PLACES - 1, np.where(lengths > 8 * _WORDS_MAX, last, np.uint64(0))
