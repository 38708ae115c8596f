"""Windows that a row belongs to, and the end of each.

Where the advance is smaller than the size, successive windows of a key overlap. They are
separate windows that both take the rows in the overlap (CEC paper, II). ``lanes`` is how many
can be open at once; window *k* of a sequence is in lane ``k % lanes``, where it follows on
window ``k - lanes``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cec_store.format.columns import Ints


@dataclass(frozen=True)
class CountWindow:
    """Windows of ``size`` rows of a key; the next one opens ``advance`` rows after the last.

    Raises ``ValueError`` unless ``1 <= advance <= size``.

    Examples:
        >>> CountWindow(10)
        CountWindow(size=10, advance=10)
    """

    size: int
    advance: int = 0
    """Rows; left out, it is the size: windows that do not overlap."""

    def __init__(self, size: int, advance: int | None = None) -> None:
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "advance", size if advance is None else advance)
        _check(self.size, self.advance)

    @property
    def lanes(self) -> int:
        return -(-self.size // self.advance)

    def place(self, lane: int | Ints, row: Ints) -> tuple[Ints, Ints]:
        """The window of this lane that is due at the key's ``row``-th row, and the row's place.

        Windows count from 0 in their lane. Where the place is at or above ``size``, or the
        window is negative, the lane has no window open at that row.
        """
        window, place = np.divmod(row - lane * self.advance, self.lanes * self.advance)
        return window, place


@dataclass(frozen=True)
class TimeWindow:
    """Windows of ``size_us`` microseconds that start at the multiples of ``advance_us``.

    Raises ``ValueError`` unless ``1 <= advance_us <= size_us``.

    Examples:
        >>> TimeWindow(60_000_000)
        TimeWindow(size_us=60000000, advance_us=60000000)
    """

    size_us: int
    advance_us: int = 0
    """Microseconds; left out, it is the size: windows that do not overlap."""

    def __init__(self, size_us: int, advance_us: int | None = None) -> None:
        object.__setattr__(self, "size_us", size_us)
        object.__setattr__(self, "advance_us", size_us if advance_us is None else advance_us)
        _check(self.size_us, self.advance_us)

    @property
    def lanes(self) -> int:
        return -(-self.size_us // self.advance_us)

    def starts_us(self, times_us: Ints) -> tuple[Ints, NDArray[np.bool_] | None]:
        """The starts of the windows that may hold each time, and which of them do.

        Shapes (rows, lanes), the latest start first; ``None`` where all do.
        """
        newest = times_us - times_us % self.advance_us
        starts = newest[:, None] - np.arange(self.lanes) * self.advance_us
        if self.size_us % self.advance_us == 0:
            return starts, None
        return starts, starts + self.size_us > times_us[:, None]


def _check(size: int, advance: int) -> None:
    if not 1 <= advance <= size:
        raise ValueError(f"a window needs 1 <= advance <= size, not advance {advance}, size {size}")
