"""Sums of integers that do not wrap around: two int64 a sum, and averages right to the last bit.

A sum is ``high * 2**42 + low`` with ``low`` between -2**62 and 2**62. Values whose total fits are
added to ``low`` alone; larger ones are cut into two parts, each of which is added. A sum holds
2**41 values of 64 bits, and more of smaller ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints

EXACT = np.dtype([("high", "i8"), ("low", "i8")])
SUM_TYPE = pa.decimal128(38, 0)
"""Type of the state of a sum of 64-bit integers, which may exceed 64 bits in between."""

_LOW_BITS = 42
_LOW_MASK = (1 << _LOW_BITS) - 1
_LOW_MAX = 1 << 62
_CHUNK_ROWS = 1 << 20
"""The most low parts that are added at once: their total is at most 2**62."""
_LIMB_BITS = 22
_FLOAT_MAX = 1 << 53
"""Integers up to it are floats, so that a division of two is rounded once."""

Words = NDArray[np.uint64]


class Adder:
    """Adds to the sums of one aggregate, and knows how large the ``low`` of any of them can be."""

    def __init__(self) -> None:
        self._reach = 1 << _LOW_BITS

    def add(self, into: NDArray[Any], at: Ints, values: NDArray[Any]) -> None:
        """Add ``values[i]``, int64 or uint64, to sum ``at[i]``.

        The sums were made by it, or are zeros, or come from :func:`from_words`.
        """
        if not len(values):
            return
        total = max(int(values.max()), -int(values.min())) * len(values)
        if total <= _LOW_MAX:
            np.add.at(into["low"], at, values.astype(np.int64, copy=False))
            self._reach = min(self._reach + total, _LOW_MAX)
            if self._reach == _LOW_MAX:
                _carry(into, at)
            return
        self._reach = _LOW_MAX
        bits = values.dtype.type(_LOW_BITS)
        mask = values.dtype.type(_LOW_MASK)
        for start in range(0, len(values), _CHUNK_ROWS):
            part = values[start : start + _CHUNK_ROWS]
            place = at[start : start + _CHUNK_ROWS]
            np.add.at(into["high"], place, (part >> bits).astype(np.int64))
            np.add.at(into["low"], place, (part & mask).astype(np.int64))
            _carry(into, place)

    def merge(self, into: NDArray[Any], at: Ints, others: NDArray[Any]) -> None:
        """Add the sum ``others[i]`` to sum ``at[i]``."""
        self._reach = _LOW_MAX
        low = others["low"]
        others_high, others_low = others["high"] + (low >> _LOW_BITS), low & _LOW_MASK
        for start in range(0, len(at), _CHUNK_ROWS):
            place = at[start : start + _CHUNK_ROWS]
            _carry(into, place)
            np.add.at(into["high"], place, others_high[start : start + _CHUNK_ROWS])
            np.add.at(into["low"], place, others_low[start : start + _CHUNK_ROWS])
        _carry(into, at)


def _carry(into: NDArray[Any], at: Ints) -> None:
    """Bring ``low`` of these sums back between its bounds; a sum may be named many times."""
    low = into["low"][at]
    is_large = (low >= _LOW_MAX) | (low <= -_LOW_MAX)
    if is_large.any():
        at, low = at[is_large], low[is_large]
        high = into["high"][at] + (low >> _LOW_BITS)
        into["high"][at] = high
        into["low"][at] = low & _LOW_MASK


def to_words(sums: NDArray[Any]) -> list[Ints]:
    """The sums as two's complement of 128 bits: their low and their high 64."""
    high, low = sums["high"], sums["low"]
    above = (high << _LOW_BITS).view(np.uint64)
    first = above + low.view(np.uint64)
    second = (high >> (64 - _LOW_BITS)) + (low >> 63) + (first < above)
    return [first.view(np.int64), second]


def from_words(words: list[Ints]) -> NDArray[Any]:
    """The inverse of :func:`to_words`."""
    first, second = words
    sums = np.empty(len(first), EXACT)
    sums["low"] = first & _LOW_MASK
    above = first.view(np.uint64) >> np.uint64(_LOW_BITS)
    sums["high"] = (second << (64 - _LOW_BITS)) | above.view(np.int64)
    return sums


def averages(sums: NDArray[Any], counts: Ints) -> NDArray[np.float64]:
    """The float64 nearest to each sum divided by its count, ties to even; a count is positive."""
    first, second = to_words(sums)
    result: NDArray[np.float64] = first / counts
    is_small = (second == first >> 63) & (first <= _FLOAT_MAX) & (first >= -_FLOAT_MAX)
    rest = np.flatnonzero(~is_small)
    if len(rest):
        result[rest] = _long_divided(first[rest], second[rest], counts[rest])
    return result


def _long_divided(first: Ints, second: Ints, counts: Ints) -> NDArray[np.float64]:
    """The quotients of sums beyond 2**53, of 110 bits or fewer, by counts below 2**41."""
    is_negative = second < 0
    low, high = first.view(np.uint64), second.view(np.uint64)
    low = np.where(is_negative, ~low + np.uint64(1), low)
    high = np.where(is_negative, ~high + (low == 0), high)
    divisors = counts.view(np.uint64)
    quotient, remainder = np.zeros_like(low), np.zeros_like(low)
    for limb in _limbs(low, high):
        rest = (remainder << np.uint64(_LIMB_BITS)) | limb
        quotient = (quotient << np.uint64(_LIMB_BITS)) | (rest // divisors)
        remainder = rest % divisors
    fraction = np.zeros_like(low)
    for _ in range(2):
        rest = remainder << np.uint64(_LIMB_BITS)
        fraction = (fraction << np.uint64(_LIMB_BITS)) | (rest // divisors)
        remainder = rest % divisors
    # At least 56 bits of the quotient, the last of them set if any beyond it is: converting
    # these rounds as if all bits were there.
    fraction_bits = 2 * _LIMB_BITS
    shift = np.minimum(64 - np.frexp(quotient.astype(np.float64))[1], fraction_bits)
    shift = np.maximum(shift, 0).astype(np.uint64)
    cut = np.uint64(fraction_bits) - shift
    bits = (quotient << shift) | (fraction >> cut)
    is_inexact = (remainder != 0) | ((fraction >> cut) << cut != fraction)
    magnitude = np.ldexp((bits | is_inexact).astype(np.float64), -shift.astype(np.int32))
    signed: NDArray[np.float64] = np.where(is_negative, -magnitude, magnitude)
    return signed


def _limbs(low: Words, high: Words) -> list[Words]:
    """The five times 22 bits of numbers of 110 bits, the highest first."""
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    return [
        (high >> np.uint64(24)) & mask,
        (high >> np.uint64(2)) & mask,
        ((high << np.uint64(20)) | (low >> np.uint64(44))) & mask,
        (low >> np.uint64(22)) & mask,
        low & mask,
    ]
