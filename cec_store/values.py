"""Positions, times and sizes as values.

Every offset says *next unread*: offset ``p`` stands before record ``p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from numbers import Integral

MAX_TIMESTAMP_US = 2**63 - 1
MIN_TIMESTAMP_US = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, order=True)
class Address:
    """Where a frame stands: byte ``byte`` of segment ``segment_id``."""

    segment_id: int
    byte: int


@dataclass(frozen=True, order=True)
class Position:
    """The next unread record offset of a stream. Can be stored and resumed from.

    Examples:
        >>> read_queue("queues/trades", since=Position(2)).read_all().to_pylist()
        [{'item': 'a', 'price': 20}]
    """

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True)
class Extent:
    """What a rebuild has to read (CEC paper, II.B "Extent of an EC").

    Examples:
        >>> open_queue("averages").extent().open_windows
        2
    """

    records: int
    """q: from the oldest footprint of an open window to the end."""
    frames: int
    bytes: int
    """Frames as stored, headers included."""
    segments: int
    open_windows: int
    """N."""
    first_offset: int
    """Offset of the oldest record needed; the end where no window is open."""
    end_offset: int


def to_timestamp_us(moment: datetime | int) -> int:
    """Microseconds since 1970 UTC. A datetime without a zone is taken as UTC.

    Raises:
        TypeError: neither a datetime nor an int.
        ValueError: outside 64 bits.
    """
    if not isinstance(moment, datetime):
        number = _integer(moment)
        if number is None:
            raise TypeError(
                f"a moment is a datetime or epoch microseconds as int, not {type(moment).__name__}"
            )
        if not MIN_TIMESTAMP_US <= number <= MAX_TIMESTAMP_US:
            raise ValueError(f"timestamp {number} does not fit in 64 bits")
        return number
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def to_offset(value: Position | int) -> int:
    """An offset from 0 to 2^63 − 1, of a position or an integer of any kind.

    Raises:
        ValueError: it is none.
    """
    number = value.offset if isinstance(value, Position) else _integer(value)
    if number is None or not 0 <= number < 1 << 63:
        raise ValueError(f"not an offset: {value!r}")
    return number


def _integer(value: object) -> int | None:
    """An integer of any kind, numpy's too; ``None`` of anything else, and of a bool."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


def format_timestamp_us(timestamp_us: int) -> str:
    """ISO 8601 in UTC; the bare number where the calendar does not reach."""
    try:
        return (_EPOCH + timedelta(microseconds=timestamp_us)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(timestamp_us)
