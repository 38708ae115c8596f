"""Positions, times and sizes as values.

Every offset says *next unread*: offset ``p`` stands before record ``p``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from numbers import Integral
from typing import NamedTuple

MAX_TIMESTAMP_US = 2**63 - 1
MIN_TIMESTAMP_US = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Address(NamedTuple):
    """Position of a frame: byte ``byte`` of segment ``segment_id``."""

    segment_id: int
    byte: int


@dataclass(frozen=True, order=True)
class Position:
    """The next unread record offset of a queue's partition. Can be stored and resumed from.

    Store it by :meth:`to_json`: with the queue's id, by which another queue at the same path is
    refused. Two positions are equal where their offsets and partitions are.

    Examples:
        >>> read_queue("queues/trades", since=Position(2)).read_all().to_pylist()
        [{'item': 'a', 'price': 20}]
    """

    offset: int
    partition: int = 0
    queue: str = field(default="", compare=False)
    """Id of the queue, 32 hex digits; empty in a position made by hand, which fits every queue."""

    def __str__(self) -> str:
        return str(self.offset)

    def to_json(self) -> str:
        """Return it as in the checkpoints of Spark's sources: ``{"<queue>": {"0": 17}}``."""
        return json.dumps({self.queue: {str(self.partition): self.offset}})

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Return what :meth:`to_json` wrote; raises ``ValueError`` for anything else."""
        try:
            ((queue, offsets),) = json.loads(text).items()
            ((partition, offset),) = offsets.items()
            return cls(to_offset(offset), int(partition), queue)
        except (TypeError, ValueError, AttributeError):
            raise ValueError(f"not a position: {text!r}") from None


@dataclass(frozen=True)
class Extent:
    """Records that a rebuild has to read (CEC paper, II.B "Extent of an EC").

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
