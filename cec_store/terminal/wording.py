"""Sizes, moments and values in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cec_store.inspector.decoding.plain_values import finite
from cec_store.values import format_timestamp_us

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Return "12 bytes" or "3.4 MiB"."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def moment(timestamp_us: int | None) -> str:
    """Return the time in ISO format; "–" for ``None``."""
    return "–" if timestamp_us is None else format_timestamp_us(timestamp_us)


def duration(microseconds: int | None) -> str:
    """The two largest units of a stretch of time."""
    if microseconds is None:
        return "–"
    parts, rest_us = _units_of(abs(microseconds))
    if len(parts) < 2:
        parts.append(f"{rest_us / 1e6:g} s")
    return "-" * (microseconds < 0) + " ".join(parts[:2])


def span(passed_us: int) -> str:
    """Return the two largest units of a time, such as "3 h 5 min"; seconds are whole."""
    whole_us = round(abs(passed_us) / 1e6) * 1_000_000
    parts, rest_us = _units_of(whole_us)
    if rest_us or not parts:
        parts.append(f"{rest_us // 1_000_000} s")
    return "-" * (passed_us < 0 < whole_us) + " ".join(parts[:2])


def _units_of(rest_us: int) -> tuple[list[str], int]:
    """Return the days, hours and minutes, and the microseconds that are left."""
    parts = []
    for name, unit_us in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000)):
        if rest_us >= unit_us:
            parts.append(f"{rest_us // unit_us:,} {name}")
            rest_us %= unit_us
    return parts, rest_us


def value(value: Any) -> str:
    """Return a value as JSON, and as text where JSON has no type for it."""
    return json.dumps(finite(value), ensure_ascii=False, default=str)


def positions(values: tuple[int, ...]) -> str:
    """Return "1,000, 2,000"."""
    return ", ".join(f"{position:,}" for position in values)


def by_kind(kinds: Mapping[str, int]) -> str:
    """Return the number of records of each kind that occurs, as "3 RESULT, 1 OPEN"."""
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)


def aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """A row of a table, without spaces at its end; ``right``: which cells stand to the right."""
    columns = zip(cells, widths, right, strict=True)
    parts = [cell.rjust(width) if r else cell.ljust(width) for cell, width, r in columns]
    return "  ".join(parts).rstrip()


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON as the verbs print it: NaN is ``null``, and text stays as it is."""
    return json.dumps(finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def counted(count: int, name: str) -> str:
    """Return "1 row" or "3 rows"."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"
