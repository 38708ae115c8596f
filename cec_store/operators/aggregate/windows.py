"""Windows that a row belongs to, and the end of each.

Where the advance is smaller than the size, successive windows of a key overlap. They are
separate windows that both take the rows in the overlap (CEC paper, II). ``lanes`` is how many
can be open at once; window *k* of a sequence is in lane ``k % lanes``, where it follows on
window ``k - lanes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np
from numpy.typing import NDArray

from cec_store.format.columns import Ints


@dataclass(frozen=True)
class CountWindow:
    """Windows of ``size`` rows of a key; the next one opens ``advance`` rows after the last.

    Raises ``ValueError`` unless ``1 <= advance <= size``, and ``TypeError`` for what is no integer.

    Examples:
        >>> CountWindow(10)
        CountWindow(size=10, advance=10)
    """

    size: int
    advance: int = 0
    """Rows; left out, it is the size: windows that do not overlap."""

    def __init__(self, size: int, advance: int | None = None) -> None:
        object.__setattr__(self, "size", index(size))
        object.__setattr__(self, "advance", self.size if advance is None else index(advance))
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

    Raises ``ValueError`` unless ``1 <= advance_us <= size_us``, and ``TypeError`` for what is no
    integer.

    Examples:
        >>> TimeWindow(60_000_000)
        TimeWindow(size_us=60000000, advance_us=60000000)
    """

    size_us: int
    advance_us: int = 0
    """Microseconds; left out, it is the size: windows that do not overlap."""

    def __init__(self, size_us: int, advance_us: int | None = None) -> None:
        object.__setattr__(self, "size_us", index(size_us))
        advance_us = self.size_us if advance_us is None else index(advance_us)
        object.__setattr__(self, "advance_us", advance_us)
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


@dataclass(frozen=True)
class SessionWindow:
    """Sessions: rows of a key that lie within ``gap_us`` of one another, by their times.

    Two rows of which no third one stands between are in one session if their times differ by
    ``gap_us`` microseconds or less. The watermark is the largest time so far less
    ``watermark_delay_us``. A session closes once the watermark is beyond its last row's time and
    the gap. A row whose time is below the watermark when it comes is late, and is left out.

    Raises ``ValueError`` unless the gap is 1 or more and the delay 0 or more, both below 2**63, and
    ``TypeError`` for what is no integer.

    Examples:
        >>> SessionWindow(30_000_000, watermark_delay_us=5_000_000)
        SessionWindow(gap_us=30000000, watermark_delay_us=5000000)
    """

    gap_us: int
    watermark_delay_us: int = 0

    lanes = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap_us", index(self.gap_us))
        object.__setattr__(self, "watermark_delay_us", index(self.watermark_delay_us))
        if not 1 <= self.gap_us < 2**63:
            raise ValueError(f"a session needs a gap of 1 microsecond or more, not {self.gap_us}")
        if not 0 <= self.watermark_delay_us < 2**63:
            raise ValueError(
                "a watermark stays behind the largest time by 0 microseconds or more, not "
                f"{self.watermark_delay_us}"
            )


def _check(size: int, advance: int) -> None:
    if not 1 <= advance <= size:
        raise ValueError(f"a window needs 1 <= advance <= size, not advance {advance}, size {size}")
