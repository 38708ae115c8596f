"""Rows of one scan, filtered and projected as they are read.

A scanner of pyarrow would read ahead in a thread of its own. Where the reader is a program in
Python, a process that ends before the scan has would wait for that thread for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cec_store.scans.filters import Columns

_TOGETHER_ROWS = 1 << 16
"""Rows that are filtered at a time, because each time costs as much as some thousand rows."""


class QueueScanner:
    """Scanner with the methods of ``pyarrow.dataset.Scanner``; it can be read once.

    For one thread.
    """

    def __init__(
        self,
        reader: pa.RecordBatchReader,
        columns: Columns,
        filter: pc.Expression | None,
        batch_rows_max: int | None = None,
    ) -> None:
        """``reader`` has all columns that projection and filter need."""
        self._reader = reader
        self._names = None if columns is None or isinstance(columns, Mapping) else [*columns]
        self._columns = dict(columns) if isinstance(columns, Mapping) else self._names
        self._filter = filter
        self._batch_rows_max = batch_rows_max
        self.dataset_schema: pa.Schema = reader.schema
        """Columns that are read."""
        self.projected_schema: pa.Schema = self._chosen(reader.schema.empty_table()).schema
        """Columns of the result."""

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader; raises as it reads, as the queue does."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, none of them empty."""
        for batch in self._all_batches():
            most = self._batch_rows_max or batch.num_rows
            for start in range(0, batch.num_rows, most):
                yield batch.slice(start, most)

    def to_table(self) -> pa.Table:
        """Return the rows as a table."""
        if self.projected_schema.names:
            return pa.Table.from_batches(self._all_batches(), self.projected_schema)
        # A table of several batches without columns would lose its rows.
        return pa.table({"": pa.nulls(self.count_rows())}).select([])

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows as a table; no more is read than holds them."""
        taken, left = [], num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(taken, self.projected_schema)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self._all_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the reader."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _all_batches(self) -> Iterator[pa.RecordBatch]:
        if self._filter is None and (self._names is not None or self._columns is None):
            for batch in self._reader:
                if batch.num_rows:
                    yield batch if self._names is None else batch.select(self._names)
            return
        for table in self._together():
            for batch in self._chosen(table).to_batches():
                if batch.num_rows:
                    yield batch

    def _together(self) -> Iterator[pa.Table]:
        """Yield the rows in tables of some size, however small the batches are."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._reader:
            held.append(batch)
            rows += batch.num_rows
            if rows >= _TOGETHER_ROWS:
                yield pa.Table.from_batches(held)
                held, rows = [], 0
        if rows:
            yield pa.Table.from_batches(held)

    def _chosen(self, table: pa.Table) -> pa.Table:
        """Return the rows that pass, with the columns that are asked for."""
        return ds.InMemoryDataset(table).to_table(columns=self._columns, filter=self._filter)
