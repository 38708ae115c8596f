"""Members of rows as two flat arrays: queries and their needs, and the other way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Membership:
    """Rows of different lengths, one after the other."""

    starts: Ints
    """Beginning of each row, and the end of the last one; shape (rows + 1,)."""
    members: Ints

    @classmethod
    def of_pairs(cls, rows: Ints, members: Ints, count: int) -> Membership:
        """Build ``count`` rows from pairs in any order; members of a row become ascending."""
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
        return cls(starts, members[np.lexsort((members, rows))])

    @cached_property
    def sizes(self) -> Ints:
        """Number of members of each row, shape (rows,)."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def rows(self) -> Ints:
        """Row of each member, shape (members,)."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int64), self.sizes)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, row: int) -> Ints:
        """Return the members of one row."""
        return self.members[self.starts[row] : self.starts[row + 1]]

    def summed(self, values: Floats) -> Floats:
        """Return the sum of the members' values for each row, shape (rows,)."""
        return np.bincount(self.rows, values[self.members], len(self)).astype(np.float64)

    def gathered(self, rows: Ints) -> tuple[Ints, Ints]:
        """The members of these rows one after the other, and the place in ``rows`` of each."""
        sizes = self.sizes[rows]
        ends = np.cumsum(sizes)
        places = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
        within = np.arange(len(places), dtype=np.int64) - (ends - sizes)[places]
        return places, self.members[self.starts[rows][places] + within]
