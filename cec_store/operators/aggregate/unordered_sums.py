"""Sums of floats whose bits do not depend on the order of the values, so that sums can be merged.

A sum is a number in base ``2**28`` of which the upper six digits are kept: the highest one is that
of the largest value so far. A value is cut into digits, and each is added to its place exactly;
digits below the kept ones are dropped. The largest of all values decides which ones those are, so
that they are the same in any order. Less than ``2**-136`` of the largest value is dropped of each;
what is kept is summed exactly, and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, values_of

_DIGITS = 6
_DIGIT_BITS = 28
_MASK = (1 << _DIGIT_BITS) - 1
_FRACTION_BITS = 53
_LOWEST_BIT = -1126
"""Exponent of the last bit of a fraction that the smallest float has after ``frexp``."""
_PLUS, _MINUS, _NAN = 1, 2, 4

UNORDERED = np.dtype([("top", "i8"), ("odd", "i8"), ("digits", "i8", (_DIGITS,))])
"""``top`` is the place of the last digit, 0 before the first value; ``odd`` says which values that
are no numbers have come. A digit holds 2**35 values before it overflows."""
SUM_TYPE = pa.binary(UNORDERED.itemsize)
"""Type of the state of a sum: the eight int64 above, little-endian."""


def add(into: NDArray[Any], at: Ints, values: NDArray[np.float64]) -> None:
    """Add ``values[i]`` to sum ``at[i]``."""
    is_number = np.isfinite(values)
    if not is_number.all():
        odd = np.where(values > 0, _PLUS, np.where(values < 0, _MINUS, _NAN))
        np.bitwise_or.at(into["odd"], at[~is_number], odd[~is_number])
    rows = np.flatnonzero(is_number & (values != 0))
    if not len(rows):
        return
    at = at[rows]
    fractions, exponents = np.frexp(values[rows])
    whole = np.ldexp(np.abs(fractions), _FRACTION_BITS).astype(np.int64)
    shift = exponents.astype(np.int64) - _FRACTION_BITS - _LOWEST_BIT
    place, bits = np.divmod(shift, _DIGIT_BITS)
    # A fraction of 53 bits, shifted by at most 27, has three digits.
    low = (whole & _MASK) << bits
    middle = ((whole >> _DIGIT_BITS) << bits) + (low >> _DIGIT_BITS)
    parts = (low & _MASK, middle & _MASK, middle >> _DIGIT_BITS)
    _raise_tops(into, at, place + 2)
    first = place - into["top"][at] + _DIGITS - 1
    sign = np.where(fractions < 0, -1, 1)
    for number, part in enumerate(parts):
        digit = first + number
        is_kept = digit >= 0
        np.add.at(into["digits"], (at[is_kept], digit[is_kept]), (sign * part)[is_kept])


def merge(into: NDArray[Any], at: Ints, others: NDArray[Any]) -> None:
    """Add the sum ``others[i]`` to sum ``at[i]``."""
    np.bitwise_or.at(into["odd"], at, others["odd"])
    _raise_tops(into, at, others["top"])
    np.add.at(into["digits"], at, _lowered(others["digits"], into["top"][at] - others["top"]))


def totals(sums: NDArray[Any]) -> NDArray[np.float64]:
    """The float64 nearest to each sum, ties to even; NaN for NaN and for both infinities."""
    digits, is_negative = _digits_of_magnitude(sums["digits"])
    count = digits.shape[1]
    rows = np.arange(len(digits))
    # The highest digit that is not zero, and the three below it; zeros stand below the last one.
    highest = count - 1 - (digits[:, ::-1] != 0).argmax(axis=1)
    padded = np.concatenate([np.zeros((len(digits), 3), np.int64), digits], axis=1)
    above, below = (
        (padded[rows, highest + n] << _DIGIT_BITS) | padded[rows, highest + n - 1] for n in (3, 1)
    )
    # 62 bits of the magnitude, the last of them set if any beyond it is: converting these rounds as
    # if all bits were there.
    top_bits = np.frexp(np.maximum(padded[rows, highest + 3], 1).astype(np.float64))[1]
    shift = 62 - _DIGIT_BITS - top_bits.astype(np.int64)
    cut = 2 * _DIGIT_BITS - shift
    has_more = (below & ((1 << cut) - 1)) != 0
    has_more |= (np.cumsum(digits != 0, axis=1)[rows, highest - 4] > 0) & (highest >= 4)
    kept = (above << shift) | (below >> cut) | has_more
    lowest = highest - 1 - (_DIGITS - 1) + sums["top"]
    exponents = lowest * _DIGIT_BITS + _LOWEST_BIT - shift
    with np.errstate(over="ignore"):
        magnitude = np.ldexp(kept.astype(np.float64), exponents.astype(np.int32))
    result: NDArray[np.float64] = np.where(is_negative, -magnitude, magnitude)
    odd = sums["odd"]
    result[odd == _PLUS] = np.inf
    result[odd == _MINUS] = -np.inf
    result[(odd & _NAN != 0) | (odd == _PLUS | _MINUS)] = np.nan
    return result


def to_words(sums: NDArray[Any]) -> list[Ints]:
    """The columns of :data:`SUM_TYPE` as 64-bit words."""
    return [sums["top"], sums["odd"], *sums["digits"].T]


def from_column(column: pa.Array) -> NDArray[Any]:
    """The sums of a column of :data:`SUM_TYPE`; anything under a null."""
    words = values_of(column, f"V{UNORDERED.itemsize}").view(np.int64)
    return np.array(words.view(UNORDERED))


def _raise_tops(into: NDArray[Any], at: Ints, tops: Ints) -> None:
    """Make the last digit of sum ``at[i]`` stand at ``tops[i]`` or above."""
    is_higher = tops > into["top"][at]
    if not is_higher.any():
        return
    raised = np.unique(at[is_higher])
    before = into["top"][raised]
    np.maximum.at(into["top"], at[is_higher], tops[is_higher])
    into["digits"][raised] = _lowered(into["digits"][raised], into["top"][raised] - before)


def _lowered(digits: Ints, by: Ints) -> Ints:
    """The digits as those of sums whose last digit stands higher by so many places."""
    source = np.arange(_DIGITS) + by[:, None]
    kept = np.take_along_axis(digits, np.minimum(source, _DIGITS - 1), axis=1)
    lowered: Ints = np.where(source < _DIGITS, kept, 0)
    return lowered


def _digits_of_magnitude(digits: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Digits from 0 to 2**28 - 1 of each sum's absolute value, and which sums are negative."""
    carried = _carried(digits)
    is_negative: NDArray[np.bool_] = carried[:, -1] < 0
    return np.where(is_negative[:, None], _carried(-digits), carried), is_negative


def _carried(digits: Ints) -> Ints:
    """The same sums with room for carries; all digits but the last are from 0 to 2**28 - 1."""
    carried = np.zeros((len(digits), _DIGITS + 3), np.int64)
    carried[:, :_DIGITS] = digits
    for place in range(carried.shape[1] - 1):
        carried[:, place + 1] += carried[:, place] >> _DIGIT_BITS
        carried[:, place] &= _MASK
    return carried
