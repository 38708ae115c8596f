"""Replayed batches as text for people, lines of JSON, CSV or an Arrow stream."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import IO, Any, Protocol, TextIO

import numpy as np
import pyarrow as pa

from cec_store.inspector import records_as_rows
from cec_store.records import KIND, TIMESTAMP, RecordKind
from cec_store.replay import OFFSET

_WIDTH_MAX = 40


class Format(str, Enum):
    """What ``cec-store replay`` writes."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    ARROW = "arrow"


def replay_schema(data: pa.Schema, include_metadata: bool) -> pa.Schema:
    """The columns of what a replay yields."""
    if not include_metadata:
        return data
    extra = [(TIMESTAMP, pa.timestamp("us", "UTC")), (KIND, pa.uint8()), (OFFSET, pa.int64())]
    return pa.schema([*data, *(pa.field(*column) for column in extra)])


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first ``limit`` rows; asks for no batch more than they need."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if left == 0:
            return


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, form: Format, out: TextIO
) -> int:
    """Write all of it, each batch as soon as it is there; returns the number of rows."""
    if form is Format.ARROW:
        return _write_arrow(batches, schema, out.buffer)
    kinds: dict[Format, type[_Writer]]
    kinds = {Format.JSONL: _Lines, Format.CSV: _Csv, Format.TABLE: _Columns}
    writer = kinds[form](out, schema)
    count = 0
    for batch in batches:
        # A frame may be large; its rows need not all be Python objects at once.
        for start in range(0, batch.num_rows, 1000):
            writer.write([_named(row) for row in records_as_rows(batch.slice(start, 1000))])
        out.flush()
        count += batch.num_rows
    return count


def _named(row: dict[str, Any]) -> dict[str, Any]:
    if KIND in row:
        row[KIND] = RecordKind(row[KIND]).name
    return row


def _write_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: IO[bytes]) -> int:
    count = 0
    with pa.ipc.new_stream(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            out.flush()
            count += batch.num_rows
    return count


class _Writer(Protocol):
    def __init__(self, out: TextIO, schema: pa.Schema) -> None: ...

    def write(self, rows: list[dict[str, Any]]) -> None: ...


class _Lines(_Writer):
    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._out = out

    def write(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            # NaN is no JSON.
            self._out.write(json.dumps(finite(row), ensure_ascii=False, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """With ``null`` for NaN and the infinities as text, which JSON has no numbers for."""
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class _Csv(_Writer):
    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._writer = csv.writer(out, lineterminator="\n")
        self._writer.writerow(schema.names)

    def write(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self._writer.writerow([_cell(value, "") for value in row.values()])


class _Columns(_Writer):
    """Aligned columns, as wide as the first rows need: a replay may never end."""

    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._out = out
        self._names = schema.names
        self._right = [
            pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in schema
        ]
        self._widths: list[int] | None = None

    def write(self, rows: list[dict[str, Any]]) -> None:
        texts = [[_cell(value, "–") for value in row.values()] for row in rows]
        if self._widths is None:
            columns = zip(self._names, *texts, strict=True)
            self._widths = [min(max(map(len, column)), _WIDTH_MAX) for column in columns]
            self._line([printable(name) for name in self._names])
        for text in texts:
            self._line(text)

    def _line(self, cells: list[str]) -> None:
        assert self._widths is not None
        parts = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, self._widths, self._right, strict=True)
        ]
        self._out.write("  ".join(parts).rstrip() + "\n")


def _cell(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, float):
        return f"{value:g}" if null else repr(value)
    if isinstance(value, (dict, list)):
        value = json.dumps(finite(value), ensure_ascii=False)
    return printable(str(value)) if null else str(value)


def printable(text: str) -> str:
    """On one line, and with nothing in it that a terminal would obey: logs may come from anyone."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
