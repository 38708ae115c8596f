"""From where on an operator's input is needed to go on with its output, frame by frame.

High-availability paper (Hwang and others, 2005), 5.2.2: input-tuple indicators, low watermarks that
never fall. They are kept for each frame, and for fewer of the older ones: in between, the one
before answers, which asks for more input than necessary and never for too little.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from cec_store.errors import OutOfRange
from cec_store.format.columns import Ints

_KEPT_MAX = 4096


class NeededInput:
    """Lows are input positions, shape (inputs,): all input from there on is needed."""

    def __init__(self, end_offset: int, low: Ints) -> None:
        """Output from ``end_offset`` on needs the input from ``low`` on."""
        self._ends = [end_offset]
        self._lows = [low]
        self._totals: list[int] = []
        self._places: list[Ints] = []

    def place(self, position: Ints, more: Ints | None = None) -> None:
        """Windows begin at this position; where they need ``more`` than it, that is the low."""
        self._totals.append(int(position.sum()))
        self._places.append(lower(position, more))

    def placed(self, total: int) -> Ints:
        """The low of a position that sums up to this; no smaller sum will be asked for again."""
        at = bisect_left(self._totals, total)
        del self._totals[:at], self._places[:at]
        assert self._totals[0] == total
        return self._places[0]

    def note(self, end_offset: int, low: Ints) -> None:
        """The log ends at ``end_offset`` now; output from there on needs the input from ``low``."""
        if end_offset == self._ends[-1]:
            self._lows[-1] = low
            return
        if len(self._ends) == _KEPT_MAX:
            del self._ends[1:-1:2], self._lows[1:-1:2]
        self._ends.append(end_offset)
        self._lows.append(low)

    def cause(self, offset: int) -> Ints:
        """From where on input is needed for the output from ``offset`` on.

        Raises:
            OutOfRange: before the oldest frame that is remembered.
        """
        at = bisect_right(self._ends, offset) - 1
        if at < 0:
            raise OutOfRange(f"indicators are kept from offset {self._ends[0]} on, not {offset}")
        return self._lows[at]

    def settle(self, offset: int) -> Ints:
        """The cause of ``offset``, or of the oldest remembered; what is older is forgotten."""
        at = max(0, bisect_right(self._ends, offset) - 1)
        del self._ends[:at], self._lows[:at]
        return self._lows[0]


def lower(position: Ints, more: Ints | None) -> Ints:
    """A copy of the lower of both, for each input."""
    return np.array(position if more is None else np.minimum(position, more))
