"""State of a store with variables as rows of text, since each variable has types of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.state_rows import VariablesDecoder
from cec_store.connectors.spark.checkpoint.variable_rows import rows_by_name
from cec_store.errors import SchemaMismatch, SparkUnavailable
from cec_store.inspector.decoding.plain_values import rows_of
from cec_store.inspector.decoding.variables import FamilyCells

TEXTS = [pa.field(name, pa.string()) for name in ("variable", "key", "value")]
"""Columns: the variable's name, and key and value as JSON."""
_ROWS = 1 << 14


def variable_batches(
    path: str, stored: pa.Table, decoder: VariablesDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a version as batches of :data:`TEXTS`, variable by variable.

    ``stored`` has the columns ``family``, ``key`` and ``value`` as the log at ``path`` has them;
    a list is one row, whatever chunks it is cut into.

    Raises:
        CorruptLog: a list lacks chunks, or no record names a family that has rows.
        SchemaMismatch: rows are not of the schema of their variable, or no file has one.
        SparkUnavailable: rows in Avro, and the package fastavro is missing.
    """
    named = rows_by_name(stored, path)
    for name in pc.unique(named["family"]).to_pylist():
        own = named.filter(pc.equal(named["family"], name)).combine_chunks()
        try:
            cells = FamilyCells(decoder, name)
            for batch in own.to_batches(_ROWS):
                yield _texts(name, cells, batch["key"], batch["value"])
        except (SchemaMismatch, SparkUnavailable) as error:
            raise type(error)(f"{path}: {error}; --raw shows bytes") from None


def _texts(name: str, cells: FamilyCells, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    shown = [json.dumps(row["key"]) for row in rows_of(cells.keys(keys))]
    columns = [[name] * len(shown), shown, [json.dumps(cell) for cell in cells.values(values)]]
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(TEXTS))
