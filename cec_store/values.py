"""Positions, times and sizes as values.

Every offset says *next unread*: offset ``p`` stands before record ``p``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from numbers import Integral
from typing import NamedTuple

MAX_TIMESTAMP_US = 2**63 - 1
MIN_TIMESTAMP_US = -(2**63)
_NUMBER = re.compile(
    r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)(?:\.([0-9]+))?(?:[eE]\+?([0-9]{1,2}))?\s*([A-Za-z]*)"
)
_COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
SIZE_UNITS = {
    "tib": 1 << 40, "gib": 1 << 30, "mib": 1 << 20, "kib": 1 << 10,
    "tb": 10**12, "gb": 10**9, "mb": 10**6, "kb": 10**3, "b": 1,
}  # fmt: skip
"""Bytes of the units of sizes, in lower case."""
SPARKS_SIZE_UNITS = {
    prefix + unit: 1 << 10 * power
    for power, prefix in enumerate("kmgtp", 1)
    for unit in ("", "b", "i", "ib")
} | {"b": 1}
"""The same as Spark reads them, whose MB is 2^20, so that a setting means one thing in Python and
in Spark's own configuration."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def has_passed(wait_s: float, since_s: float, now_s: float) -> bool:
    """Return True after ``wait_s``, and where the clock was set back, which is to delay nothing."""
    return not 0 <= now_s - since_s < wait_s


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


def to_timestamp_us(moment: date | int | str) -> int:
    """Return a moment in microseconds since 1970 UTC.

    A moment is a datetime (UTC if it has no zone), a date (its first moment in UTC), an integer of
    microseconds, or a text. Texts are ISO 8601; a time before or after now, such as ``-1h``;
    ``now``, ``today`` and ``yesterday`` (as dates in UTC); a number since 1970 with its unit, such
    as ``1767225600s``, or without one in microseconds. Units are us, ms, s, m or min, h, d and w;
    numbers since 1970 have s, ms, us or ns.

    Raises:
        TypeError: none of these types.
        ValueError: outside 64 bits, or a text that is no moment.
    """
    if isinstance(moment, str):
        try:
            return _within_64_bits(_text_us(moment))
        except ValueError:
            raise ValueError(
                f"{moment!r} is no moment: give a date and time like 2013-01-31T12:00:00Z, a time "
                "before now like -1h, now, today, yesterday, or a number since 1970, in "
                "microseconds or with its unit like 1767225600s"
            ) from None
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return (aware - _EPOCH) // _US
    if isinstance(moment, date):
        return to_timestamp_us(datetime(moment.year, moment.month, moment.day))
    number = _integer(moment)
    if number is None:
        raise TypeError(
            "a moment is a datetime, a date, epoch microseconds as int, or a text such as '-1h', "
            f"not {type(moment).__name__}"
        )
    return _within_64_bits(number)


def _within_64_bits(number: int) -> int:
    if not MIN_TIMESTAMP_US <= number <= MAX_TIMESTAMP_US:
        raise ValueError(f"timestamp {number} does not fit in 64 bits")
    return number


_US = timedelta(microseconds=1)
_UNITS_US = {
    "us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000,
    "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000,
}  # fmt: skip
_DAYS_AGO = {"today": 0, "yesterday": 1}


def _text_us(text: str) -> int:
    """Return what a text says, in microseconds since 1970; raises ``ValueError`` for no moment."""
    word = text.strip().lower()
    if match := re.fullmatch(rf"([+-]\d{{1,18}})({'|'.join(_UNITS_US)})", word):
        return _now_us() + int(match[1]) * _UNITS_US[match[2]]
    if match := re.fullmatch(r"(\d{1,20})(s|ms|us|ns)", word):
        number = int(match[1])
        return number // 1000 if match[2] == "ns" else number * _UNITS_US[match[2]]
    if word == "now":
        return _now_us()
    if word in _DAYS_AGO:
        day = _UNITS_US["d"]
        return _now_us() // day * day - _DAYS_AGO[word] * day
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    # Before Python 3.11 neither a Z nor a fraction of other than six digits is understood.
    text_311 = re.sub(r"\.(\d{1,6})\d*", lambda m: f".{m[1]:0<6}", text.strip())
    return to_timestamp_us(datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text_311)))


def _now_us() -> int:
    return time.time_ns() // 1000


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


def parse_count(text: str) -> int:
    """Return a number of things: ``1000``, ``1_000``, ``1,000``, ``1e3``, ``1k``, ``1.5M``, ``2G``.

    Raises:
        ValueError: it is none, or not whole.
    """
    return _whole(text, _COUNT_UNITS, f"{text!r} is no whole number; such as 1000, 1e6 or 1.5M")


def parse_size(text: str, units: Mapping[str, int] = SIZE_UNITS) -> int:
    """Return a number of bytes: ``1000``, ``1e6``, ``10GiB``, ``1.5MB``; KiB is 1,024, kB 1,000.

    Args:
        units: Bytes of each unit, in lower case; of none it is one.

    Raises:
        ValueError: it is none, or not whole.
    """
    return _whole(text, {**units, "": 1}, f"{text!r} is no size; such as 1000000, 64MiB or 10GiB")


def _whole(text: str, units: Mapping[str, int], refusal: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[4].lower() not in units:
        raise ValueError(refusal)
    fraction = match[2] or ""
    digits = int(re.sub("[_,]", "", match[1]) + fraction)
    scale: int = 10 ** int(match[3] or 0)
    one: int = 10 ** len(fraction)
    value, rest = divmod(digits * scale * units[match[4].lower()], one)
    if rest:
        raise ValueError(refusal)
    return value
