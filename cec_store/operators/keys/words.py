"""A hash table from tuples of 64-bit words to small dense codes, kept over batches.

It costs the size of the batch, not the number of keys held: with ten million windows open, a
batch of a thousand rows still looks up a thousand cells. (``pyarrow.compute.index_in`` hashes
its whole value set on each call.) Every loop here is a round over the rows that are still
undecided, of which linear probing at half load leaves few after the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cec_store.format.columns import Ints

CELLS_MIN = 1024
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def grown(values: NDArray[Any], size: int) -> NDArray[Any]:
    """``values`` with room for ``size``, at least doubled so that growth costs O(1) a value."""
    bigger = np.zeros(max(size, 2 * len(values)), values.dtype)
    bigger[: len(values)] = values
    return bigger


class WordTable:
    """Tuples of ``width`` words and one optional word of null bits, each with a code.

    Codes are reused after :meth:`trim`, the smallest first, so ``bound`` stays close to
    ``size``.
    """

    def __init__(self, width: int) -> None:
        self.bound = 0
        """Every code given out is below it."""
        self.size = 0
        self.words: list[Ints] = [np.zeros(CELLS_MIN, np.int64) for _ in range(width)]
        self.nulls: Ints | None = None
        """Null bits by code; ``None`` until the first null comes along."""
        self._free: Ints = np.empty(0, np.int64)
        self._cells: NDArray[np.int32] = np.full(CELLS_MIN, -1, np.int32)

    def find(self, words: Sequence[Ints], nulls: Ints | None = None) -> Ints:
        """The code of each row, -1 where there is none."""
        codes = np.full(len(words[0]), -1, np.int64)
        cells = self._home(words)
        rows: Ints | None = None
        while len(cells):
            occupants = self._cells[cells]
            equal = self._equal(occupants, words, nulls, rows)
            hit = np.flatnonzero(equal)
            codes[hit if rows is None else rows[hit]] = occupants[hit]
            going = np.flatnonzero((occupants >= 0) & ~equal)
            rows = going if rows is None else rows[going]
            cells = (cells[going] + 1) & (len(self._cells) - 1)
        return codes

    def encode(self, words: Sequence[Ints], nulls: Ints | None = None) -> Ints:
        """The code of each row; an unknown tuple gets a new code."""
        if nulls is not None and self.nulls is None:
            self.nulls = np.zeros(len(self.words[0]), np.int64)
        codes = self.find(words, nulls)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            self._reserve(len(unknown))
            part = None if nulls is None else nulls[unknown]
            codes[unknown] = self._insert([word[unknown] for word in words], part)
        return codes

    def trim(self, live: Ints) -> None:
        """Forget every tuple but those of these codes (ascending); the others become free."""
        self.bound = int(live[-1]) + 1 if len(live) else 0
        is_free = np.ones(self.bound, np.bool_)
        is_free[live] = False
        self._free = np.flatnonzero(is_free)
        self.size = len(live)
        self._rehash(live)

    def _home(self, words: Sequence[Ints]) -> Ints:
        """The first cell of each tuple. Null bits are not hashed: a null's word is 0."""
        mixed = words[0].view(np.uint64)
        for word in words[1:]:
            mixed = ((mixed >> _HALF) ^ mixed) * _ODD + word.view(np.uint64)
        mixed = ((mixed >> _HALF) ^ mixed) * _ODD
        shift = np.uint64(65 - len(self._cells).bit_length())
        return (mixed >> shift).view(np.int64)

    def _equal(
        self, codes: NDArray[np.int32], words: Sequence[Ints], nulls: Ints | None, rows: Ints | None
    ) -> NDArray[np.bool_]:
        """Return True for each row whose tuple its code names; code -1 names none."""
        equal = codes >= 0
        for held, word in zip(self.words, words, strict=True):
            equal &= held[codes] == (word if rows is None else word[rows])
        if self.nulls is not None or nulls is not None:
            held_nulls = 0 if self.nulls is None else self.nulls[codes]
            equal &= held_nulls == (0 if nulls is None else nulls if rows is None else nulls[rows])
        return equal

    def _insert(self, words: list[Ints], nulls: Ints | None) -> Ints:
        """Codes of rows that are not in the table; the same tuple may come more than once."""
        codes = np.full(len(words[0]), -1, np.int64)
        cells = self._home(words)
        rows = np.arange(len(cells))
        while len(rows):
            occupants = self._cells[cells]
            empty = np.flatnonzero(occupants < 0)
            won = empty[self._claim(cells[empty])]
            codes[rows[won]] = self._store(words, nulls, rows[won])
            self._cells[cells[won]] = codes[rows[won]]
            equal = self._equal(occupants, words, nulls, rows)
            codes[rows[equal]] = occupants[equal]
            # A row that lost its empty cell looks at it again: the winner may be its own tuple.
            cells[(occupants >= 0) & ~equal] += 1
            cells &= len(self._cells) - 1
            going = np.flatnonzero(codes[rows] < 0)
            rows, cells = rows[going], cells[going]
        return codes

    def _claim(self, cells: Ints) -> Ints:
        """Indexes of ``cells``, one per distinct cell: the first that names it."""
        marks = np.arange(-2, -2 - len(cells), -1, dtype=np.int32)
        self._cells[cells[::-1]] = marks[::-1]
        return np.flatnonzero(self._cells[cells] == marks)

    def _store(self, words: list[Ints], nulls: Ints | None, rows: Ints) -> Ints:
        reused = self._free[: len(rows)]
        self._free = self._free[len(rows) :]
        fresh = np.arange(self.bound, self.bound + len(rows) - len(reused))
        codes = np.concatenate([reused, fresh])
        self.bound += len(fresh)
        self.size += len(rows)
        if self.bound > len(self.words[0]):
            self.words = [grown(held, self.bound) for held in self.words]
            self.nulls = None if self.nulls is None else grown(self.nulls, self.bound)
        for held, word in zip(self.words, words, strict=True):
            held[codes] = word[rows]
        if self.nulls is not None:
            self.nulls[codes] = 0 if nulls is None else nulls[rows]
        return codes

    def _reserve(self, more: int) -> None:
        """Room for ``more`` tuples at no more than half load."""
        if 2 * (self.size + more) > len(self._cells):
            is_live = np.ones(self.bound, np.bool_)
            is_live[self._free] = False
            self._rehash(np.flatnonzero(is_live), more)

    def _rehash(self, live: Ints, more: int = 0) -> None:
        cell_count = CELLS_MIN
        while cell_count < 2 * (len(live) + more):
            cell_count *= 2
        self._cells = np.full(cell_count, -1, np.int32)
        cells = self._home([held[live] for held in self.words])
        codes = live
        while len(codes):
            empty = np.flatnonzero(self._cells[cells] < 0)
            won = empty[self._claim(cells[empty])]
            self._cells[cells[won]] = codes[won]
            lost = np.ones(len(codes), np.bool_)
            lost[won] = False
            codes, cells = codes[lost], (cells[lost] + 1) & (cell_count - 1)
