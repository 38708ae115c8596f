"""Times of a state store's rows: each stands in Spark's binary rows, at a named place.

TimePlace.scala reads one row, these functions many at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, bytes_of

NO_TIME_US = -(2**63)
"""Time of a row that has none, which counts as due."""
NEVER_US = 2**63 - 1
"""Time of a row that is never due."""
_NO_TIMEOUT_MS = -1
_MS_MAX = NEVER_US // 1000
_NAME = re.compile(r"(key|value) (\d+/\d+(?: \d+/\d+)*) (ms|us)")
_WORD_BYTES = 8
_ENCODING_BYTES = 1


@dataclass(frozen=True)
class TimePlace:
    """A place in keys or values where each row has a time."""

    is_in_key: bool
    path: tuple[tuple[int, int], ...]
    """Column, and how many there are, of the row and of each struct within it."""
    is_in_millis: bool

    @staticmethod
    def named(name: str) -> TimePlace | None:
        """Return the place of this name (``key 0/3 1/2 us``); ``None``: it is none."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        steps = [step.partition("/") for step in match[2].split(" ")]
        path = tuple((int(ordinal), int(columns)) for ordinal, _, columns in steps)
        if any(ordinal >= columns for ordinal, columns in path):
            return None
        return TimePlace(match[1] == "key", path, match[3] == "ms")

    def times_us(self, rows: pa.BinaryArray) -> Ints:
        """Return when rows are due, in microseconds, shape (rows,).

        Args:
            rows: keys or values as Spark's state store has them, a byte of encoding in front.
        """
        held, ends = bytes_of(rows)
        starts = ends[:-1] + _ENCODING_BYTES
        lefts = np.diff(ends) - _ENCODING_BYTES
        times_us = np.full(len(rows), NO_TIME_US, np.int64)
        at = np.arange(len(rows))
        """Rows that have what the path has named so far."""
        for depth, (ordinal, columns) in enumerate(self.path):
            null_bytes = (columns + 63) // 64 * _WORD_BYTES
            at = at[lefts[at] >= null_bytes + columns * _WORD_BYTES]
            nulls = _words(held, starts[at] + ordinal // 64 * _WORD_BYTES)
            at = at[(nulls >> (ordinal % 64)) & 1 == 0]
            words = _words(held, starts[at] + null_bytes + ordinal * _WORD_BYTES)
            if depth == len(self.path) - 1:
                times_us[at] = _of_millis(words) if self.is_in_millis else words
                return times_us
            offsets = (words.view(np.uint64) >> np.uint64(32)).astype(np.int64)
            is_inside = offsets <= lefts[at]
            at, offsets = at[is_inside], offsets[is_inside]
            starts[at] += offsets
            lefts[at] -= offsets
        return times_us


def _words(held: NDArray[np.uint8], starts: Ints) -> Ints:
    words: Ints = held[starts[:, None] + np.arange(_WORD_BYTES)].view("<i8")[:, 0]
    return words


def _of_millis(words: Ints) -> Ints:
    fits = np.clip(words, -_MS_MAX, _MS_MAX) * 1000
    late = np.where(words > _MS_MAX, NEVER_US - 1, fits)
    early = np.where(words < -_MS_MAX, NO_TIME_US, late)
    return np.where(words == _NO_TIMEOUT_MS, NEVER_US, early)
