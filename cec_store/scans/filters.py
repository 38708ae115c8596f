"""Filters of pyarrow, and which rows and columns they need: expressions cannot be taken apart.

pyarrow itself decides: as for files of which a statistic is known, it says whether a filter can
hold where a column is in a given range. Ranges are then found by halves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names to project to, or expressions by the names of their results; ``None``: all columns."""
_MIN, _MAX = -(2**63), 2**63 - 1
_FORMAT, _FILES = ds.IpcFileFormat(), pyarrow.fs.LocalFileSystem()


class RowFilter:
    """A filter of rows of some schema; of the rows of another schema it says nothing."""

    def __init__(self, expression: pc.Expression, schema: pa.Schema) -> None:
        """Raises ``pa.ArrowInvalid`` for a column that the schema does not have."""
        needed_columns([], expression, schema)
        self._expression = expression
        self._schema = schema
        self._text = str(expression)

    def can_hold(self, guarantee: pc.Expression) -> bool:
        """Return False if no row for which ``guarantee`` is true passes the filter.

        True says nothing. The guarantee has to be one on a column without nulls.
        """
        # A fragment is a file that is never opened: only the statistic about it counts.
        fragment = _FORMAT.make_fragment("-", _FILES, partition_expression=guarantee)
        known = ds.FileSystemDataset([fragment], self._schema, _FORMAT, _FILES)
        try:
            return next(known.get_fragments(self._expression), None) is not None
        except pa.ArrowInvalid:  # the guarantee has no value in the type of the filter's literals
            return True

    def names(self, column: str) -> bool:
        """Return False if the filter does not read a column of this name."""
        return column in self._text

    def span(self, column: str) -> tuple[int, int]:
        """Return the least and the greatest value of a column in rows that pass the filter.

        Values are integers in the unit of the column: an integer of 64 bits, or a timestamp,
        without nulls. The least is above the greatest if no row passes. Rows in between may fail.
        """
        low, high = _MIN, _MAX
        if not self.names(column):
            return low, high
        kind, field = self._schema.field(column).type, pc.field(column)

        def is_needed_below(value: int) -> bool:
            return self.can_hold(field < pa.scalar(value, kind))

        def is_needed_above(value: int) -> bool:
            return self.can_hold(field > pa.scalar(value, kind))

        if not is_needed_below(_MIN + 1):
            low = _halves(_MIN + 1, _MAX + 1, lambda value: not is_needed_below(value))
        if not is_needed_above(_MAX - 1):
            high = -_halves(-(_MAX - 1), -_MIN + 1, lambda value: not is_needed_above(-value))
        return low, high


def _halves(low: int, high: int, is_true: Any) -> int:
    """Return the last integer for which it is true, from ``low``, where it is, to before ``high``.

    ``is_true`` is to be false from some integer on.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_true(middle) else (low, middle)
    return low


def needed_columns(
    columns: Columns, expression: pc.Expression | None, schema: pa.Schema
) -> list[str]:
    """Return the names of the columns that a projection and a filter read, in the schema's order.

    Raises:
        pa.ArrowInvalid: they read a column that the schema does not have.
    """
    names: list[str] = schema.names
    _bind(columns, expression, schema)
    if columns is None:
        return names
    computed = [*columns.values()] if isinstance(columns, Mapping) else []
    read = [*computed, *([] if expression is None else [expression])]
    texts = [str(part) for part in read]
    if any("FieldPath(" in text for text in texts):
        return names  # by number, which a schema of less columns has for others
    sure = set() if isinstance(columns, Mapping) else set(columns)
    maybe = {name for name in names if any(name in text for text in texts)} - sure
    for name in sorted(maybe):
        # A name may be part of another one, or of a literal.
        less = (sure | maybe) - {name}
        if _can_bind(columns, expression, _only(schema, less)):
            maybe.remove(name)
    return [name for name in names if name in sure | maybe]


def _only(schema: pa.Schema, names: set[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in names])


def _can_bind(columns: Columns, expression: pc.Expression | None, schema: pa.Schema) -> bool:
    try:
        _bind(columns, expression, schema)
    except pa.ArrowInvalid:
        return False
    return True


def _bind(columns: Columns, expression: pc.Expression | None, schema: pa.Schema) -> None:
    given = columns if columns is None or isinstance(columns, Mapping) else [*columns]
    ds.InMemoryDataset(schema.empty_table()).scanner(columns=given, filter=expression)
