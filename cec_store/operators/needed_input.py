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
        self._footprint_totals: list[int] = []
        self._footprint_lows: list[Ints] = []

    def add_footprints(self, position: Ints, preload: Ints | None = None) -> None:
        """Windows have footprints as of this position; a join needs input from ``preload`` on."""
        self._footprint_totals.append(int(position.sum()))
        self._footprint_lows.append(lower_position(position, preload))

    def low_of(self, total: int) -> Ints:
        """The low of footprints whose position sums up to this; totals asked for never fall."""
        at = bisect_left(self._footprint_totals, total)
        del self._footprint_totals[:at], self._footprint_lows[:at]
        assert self._footprint_totals[0] == total
        return self._footprint_lows[0]

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

    def forget_before(self, offset: int) -> Ints:
        """The cause of ``offset``, or of the oldest remembered; what is older is forgotten."""
        at = max(0, bisect_right(self._ends, offset) - 1)
        del self._ends[:at], self._lows[:at]
        return self._lows[0]


def lower_position(position: Ints, other: Ints | None) -> Ints:
    """A copy of the lower of both positions, for each input."""
    return np.array(position if other is None else np.minimum(position, other))
