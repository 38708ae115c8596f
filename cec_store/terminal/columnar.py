"""Batches as CSV, an Arrow stream or Parquet: whole columns at a time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import IO, Any, TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from cec_store.format.records import empty_batch
from cec_store.format.schema import KIND, RecordKind
from cec_store.inspector.decoding.plain_values import finite, rows_of

_ROW_GROUP_ROWS = 1 << 17
_ROW_GROUP_BYTES = 32 << 20


class CsvWriter:
    """Columns of columns are columns of their own; what is no plain value is JSON."""

    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._out = out
        self._options = pa_csv.WriteOptions(include_header=False, delimiter=",")
        names = [name for name, _ in flat_columns(empty_batch(schema))]
        csv.writer(out, lineterminator="\n").writerow(names)

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        columns = [_as_csv(name, column) for name, column in flat_columns(batch)]
        names = [str(place) for place in range(len(columns))]
        data = io.BytesIO()
        pa_csv.write_csv(pa.RecordBatch.from_arrays(columns, names), data, self._options)
        self._out.write(data.getvalue().decode(errors="backslashreplace"))

    def close(self) -> None:
        """Each line is whole."""


def flat_columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Columns that are no structs, by their names; those of a null are null."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        yield from _parts(name, column)


def _parts(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for field, part in zip(column.type, column.flatten(), strict=True):
        yield from _parts(f"{name}.{field.name}", part)


_PLAIN = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string,
    pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time,
)  # fmt: skip


def _as_csv(name: str, column: pa.Array) -> pa.Array:
    if name == KIND:
        return pa.array([RecordKind(kind).name for kind in column.to_pylist()])
    if any(is_such(column.type) for is_such in _PLAIN):
        return column
    cells = rows_of(column)
    texts = [c if c is None or isinstance(c, str) else json.dumps(finite(c)) for c in cells]
    return pa.array(texts, pa.string())


class ArrowWriter:
    """A stream."""

    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_stream(out.buffer, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


class ParquetWriter:
    """Row groups of some size, whatever that of the batches is."""

    def __init__(self, out: TextIO, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(_Counted(out.buffer), schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch.cast(self._schema))
        rows = sum(held.num_rows for held in self._held)
        if rows >= _ROW_GROUP_ROWS or sum(b.nbytes for b in self._held) >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
            self._held = []

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Counted(io.RawIOBase):
    """A pipe does not say how far it has been written, which Parquet's footer is made of."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._bytes
