"""Arrow values as plain Python ones that JSON and people can read.

Moments, dates and times become ISO 8601 text without Python's own types: a log holds years that
these do not reach, and nanoseconds that they drop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.values import format_timestamp_us

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def rows_of(column: pa.Array) -> list[Any]:
    """One value a row; bytes are in hex, and what has no plain form is its text."""
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [rows_of(column.field(place)) for place in range(kind.num_fields)]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
        rows = rows or [{} for _ in range(len(column))]
        valid = column.is_valid().to_pylist()
        return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]
    if pa.types.is_timestamp(kind):
        return [_moment(value, kind.unit) for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(kind):
        return _dates(column)
    if pa.types.is_time(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_dictionary(kind):
        return rows_of(column.dictionary_decode())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if pa.types.is_fixed_size_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(column)
    return [_nested(scalar) for scalar in column]


def _texts(column: pa.Array) -> list[str | None]:
    """Strings; bytes that are not UTF-8 are escaped as ``\\xe9``."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        stored = column.cast(pa.large_binary()).to_pylist()
        return [
            None if text is None else text.decode("utf-8", "backslashreplace") for text in stored
        ]


def _moment(value: int | None, unit: str) -> str | None:
    """Return the time as text to the unit's own precision, nanoseconds included."""
    if value is None:
        return None
    if unit != "ns":
        return format_timestamp_us(value * (10**6 // _PER_SECOND[unit]))
    whole = format_timestamp_us(value // 1000)
    rest = value % 1000
    if not rest or not whole.endswith("Z"):
        return whole
    return f"{whole[:-1]}{rest:03d}Z" if "." in whole else f"{whole[:-1]}.000000{rest:03d}Z"


def _dates(column: pa.Array) -> list[str | None]:
    """ISO 8601; the bare number where Arrow's calendar does not reach either."""
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    numbers = column.cast(pa.int64() if pa.types.is_date64(column.type) else pa.int32()).to_pylist()
    return [
        str(number) if text is not None and not text[-1].isdecimal() else text
        for text, number in zip(texts, numbers, strict=True)
    ]


def _nested(scalar: pa.Scalar) -> Any:
    """Lists of plain values stay lists; the rest is text."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar)):
        return rows_of(scalar.values)
    if isinstance(scalar, pa.MonthDayNanoIntervalScalar):
        return _interval(*scalar.as_py())
    try:
        return str(scalar.as_py())
    except (ValueError, OverflowError):  # more than Python's type of it reaches
        return str(scalar.cast(pa.int64()).as_py())


def _interval(months: int, days: int, nanoseconds: int) -> str:
    parts = [(months, "months"), (days, "days"), (nanoseconds, "ns")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 months"


def records_as_rows(records: pa.RecordBatch) -> list[dict[str, Any]]:
    """One dictionary a record."""
    columns = [rows_of(column) for column in records.columns]
    names = records.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def finite(value: Any) -> Any:
    """Return the value with ``null`` for NaN and text for infinities, which JSON cannot express."""
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def printable(text: str) -> str:
    """Return one line without what a terminal would obey, since logs may come from anyone."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
