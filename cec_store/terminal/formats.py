"""Batches as text for people, JSON, CSV, an Arrow stream or Parquet, written as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Protocol, TextIO

import pyarrow as pa

from cec_store.errors import SchemaMismatch
from cec_store.format.records import empty_batch
from cec_store.format.schema import KIND, RecordKind
from cec_store.inspector.decoding.plain_values import finite, printable, records_as_rows
from cec_store.log.selection import METADATA_COLUMNS
from cec_store.terminal.columnar import ArrowWriter, CsvWriter, ParquetWriter, flat_columns
from cec_store.terminal.wording import aligned, json_text

_WIDTH_MAX = 40


class Format(str, Enum):
    """Formats in which rows are written."""

    TABLE = "table"
    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"

    @property
    def is_text(self) -> bool:
        """True if a terminal may show it."""
        return self not in (Format.ARROW, Format.PARQUET)


def replay_schema(data: pa.Schema, include_metadata: bool) -> pa.Schema:
    """The columns of what a replay yields."""
    return pa.schema([*data, *METADATA_COLUMNS], data.metadata) if include_metadata else data


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first ``limit`` rows; asks for no batch more than they need."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, min(left, batch.num_rows))
        left -= min(left, batch.num_rows)
        if left == 0:
            return


def write_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    form: Format,
    out: TextIO,
    about: Callable[[], dict[str, Any]] = dict,
) -> int:
    """Write all of it, each batch as soon as it is there; returns the number of rows.

    ``about`` is what a JSON document says besides its rows, asked for once they are written.

    Raises:
        SchemaMismatch: the format has no such columns, or no such values.
    """
    kinds: dict[Format, Callable[[TextIO, pa.Schema], _Writer]] = {
        Format.JSONL: _Lines,
        Format.JSON: lambda out, schema: _Document(out, schema, about),
        Format.CSV: CsvWriter,
        Format.TABLE: _Columns,
        Format.ARROW: ArrowWriter,
        Format.PARQUET: ParquetWriter,
    }
    try:
        writer = kinds[form](out, schema)
        count = 0
        for batch in batches:
            writer.write(batch)
            out.flush()
            count += batch.num_rows
        writer.close()
        out.flush()
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid, OSError) as error:
        # Arrow has an OSError without a number for types and values that Parquet lacks.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise SchemaMismatch(
            f"{form.value} cannot hold these columns: {columns} ({error}); try arrow"
        ) from error
    return count


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Nothing is left to write where each line is whole."""


def _rows(batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
    """A thousand at a time: a batch may be large, and its rows need not all be Python objects."""
    for start in range(0, batch.num_rows, 1000):
        rows = records_as_rows(batch.slice(start, 1000))
        for row in rows:
            if KIND in row:
                row[KIND] = RecordKind(row[KIND]).name
        yield rows


class _Lines(_Writer):
    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._out = out

    def write(self, batch: pa.RecordBatch) -> None:
        for rows in _rows(batch):
            self._out.writelines(json_text(row) + "\n" for row in rows)


class _Document(_Writer):
    """One object with all rows in it, of which only a few are ever held."""

    def __init__(self, out: TextIO, schema: pa.Schema, about: Callable[[], dict[str, Any]]) -> None:
        self._out = out
        self._about = about
        self._before = '{\n  "rows": [\n    '

    def write(self, batch: pa.RecordBatch) -> None:
        for rows in _rows(batch):
            for row in rows:
                self._out.write(self._before + json_text(row))
                self._before = ",\n    "

    def close(self) -> None:
        end = "\n  ]" if self._before.startswith(",") else '{\n  "rows": []'
        self._out.write(f"{end},{json_text(self._about(), indent=2)[1:]}\n")


class _Columns(_Writer):
    """Aligned columns, as wide as the first rows need: a replay may never end."""

    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._out = out
        self._schema = schema
        self._widths: list[int] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        names, columns = zip(*flat_columns(batch), strict=True)
        right = [pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in columns]
        digits = [_DIGITS.get(column.type, 15) for column in columns]
        # A column "a.b" and the field b of a column a have one name.
        apart = [name if names.index(name) == n else f"{name} {n}" for n, name in enumerate(names)]
        for rows in _rows(pa.RecordBatch.from_arrays([*columns], apart)):
            texts = [[*map(_cell, row.values(), digits)] for row in rows]
            if self._widths is None:
                cells = zip(names, *texts, strict=True)
                self._widths = [min(max(map(len, column)), _WIDTH_MAX) for column in cells]
                self._line([printable(name) for name in names], right)
            for text in texts:
                self._line(text, right)

    def close(self) -> None:
        """Say which columns there would be, where there is no row."""
        if self._widths is None:
            names = [name for name, _ in flat_columns(empty_batch(self._schema))]
            self._out.write("  ".join(map(printable, names)) + "\n0 rows\n")

    def _line(self, cells: list[str], right: list[bool]) -> None:
        assert self._widths is not None
        self._out.write(aligned(cells, self._widths, right) + "\n")


_DIGITS = {pa.float16(): 3, pa.float32(): 7}
"""Digits of a number that say all of it; of any other, 15."""


def _cell(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, (dict, list)):
        value = json.dumps(finite(value), ensure_ascii=False)
    return printable(str(value))
