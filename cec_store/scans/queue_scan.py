"""Queue as a dataset of pyarrow, which DuckDB, polars and pandas read by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cec_store.format.schema import TIMESTAMP, RecordKind
from cec_store.log.positions import replaced
from cec_store.log.selection import (
    METADATA_COLUMNS,
    OUTPUT_KINDS,
    PARTITION_COLUMN,
    Moment,
    Selection,
)
from cec_store.opening import queue_at
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.partitioned.whole_queue import read_whole, schema_of_rows
from cec_store.scans.filters import Columns, RowFilter, needed_columns
from cec_store.scans.scanner import QueueScanner
from cec_store.storage.folder import FolderTree
from cec_store.storage.paths import AnyPath
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Position, to_timestamp_us

Takes = Callable[[int], bool]
_METADATA = {field.name for field in (*METADATA_COLUMNS, PARTITION_COLUMN)}
_UNITS_US = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Microseconds of a unit as a fraction."""


class QueueScan(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows of a queue, read anew by each scan as far as the queue reaches then.

    It is a dataset of pyarrow (``to_table``, ``to_batches``, ``scanner``, ``count_rows``, ``head``)
    and a stream of Arrow (``__arrow_c_stream__``). A scan reads the columns that it needs, and
    leaves out frames, segments and partitions that its filter excludes by ``_timestamp``,
    ``_partition`` or the queue's timestamp column. Any thread may scan.

    Examples:
        >>> import pyarrow.compute as pc
        >>> cheap = scan_queue("queues/trades").filter(pc.field("price") < 20)
        >>> cheap.to_table(columns=["item"]).to_pydict()
        {'item': ['a', 'b']}
    """

    def __init__(
        self,
        path: AnyPath | FolderTree,
        selection: Selection,
        storage_options: Mapping[str, Any] | None = None,
        filter: pc.Expression | None = None,
    ) -> None:
        """Raises as :func:`scan_queue`."""
        # The base class has no dataset in C++: each of its methods is defined here, or calls these.
        self._path = path
        self._selection = selection
        self._storage_options = storage_options
        self._filter = filter
        queue = queue_at(path, storage_options)
        self._url, self._queue_id = queue.path, queue.queue_id
        self._schema = schema_of_rows(queue.schema, selection, queue.path)
        # Footprints have none of the columns, and nulls cannot be left out by their timestamps.
        has_nulls = queue.schema.has_footprints
        self._time_column = None if has_nulls else queue.schema.timestamp_column
        queue.close()
        if filter is not None:
            RowFilter(filter, self._schema)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._schema

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **_others: Any,
    ) -> QueueScanner:
        """Return a scanner, which can be read once and by one thread.

        ``columns`` are names, or expressions by name; ``filter`` an expression. Arguments about
        files that pyarrow's other datasets take have no effect.

        Raises:
            pa.ArrowInvalid: a column that the queue does not have.
            QueueReplaced, NotAQueue: the queue is not there any more.
            CorruptLog: damage; from the reader, once everything before it has been returned.
        """
        parts = [part for part in (self._filter, filter) if part is not None]
        both = parts[0] & parts[1] if len(parts) > 1 else parts[0] if parts else None
        reader = self._read(needed_columns(columns, both, self._schema), both)
        return QueueScanner(reader, columns, both, batch_size)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of all rows; raises as :meth:`scanner`."""
        if self._filter is not None:
            return self.scanner().to_reader()
        return self._read(self._schema.names, None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of a new reader: one for each who asks."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _read(self, names: Sequence[str], filter: pc.Expression | None) -> pa.RecordBatchReader:
        """Return the rows that a filter may pass, with these columns."""
        selection, takes = self._selection, None
        if filter is not None:
            selection, takes = self._narrowed(RowFilter(filter, self._schema))
        schema = pa.schema([self._schema.field(name) for name in names], self._schema.metadata)
        users = [name for name in names if name not in _METADATA]
        has_metadata = len(users) < len(names)
        # A record is decoded by one column at least.
        columns = users or [name for name in self._schema.names if name not in _METADATA][:1]
        selection = replace(selection, columns=columns, include_metadata=has_metadata)
        reader = read_whole(self._opened(), selection, takes)
        if reader.schema == schema:
            return reader

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                yield batch.select(names)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _opened(self) -> PlainQueue | ReferenceQueue:
        """Return the queue as it is now; raises :class:`QueueReplaced` for another one."""
        queue = queue_at(self._path, self._storage_options)
        if queue.queue_id != self._queue_id:
            queue.close()
            raise replaced(self._url)
        return queue

    def _narrowed(self, rows: RowFilter) -> tuple[Selection, Takes | None]:
        """Return the selection without moments that the filter excludes, and the partitions."""
        low_us, high_us = MIN_TIMESTAMP_US, MAX_TIMESTAMP_US
        for name in self._time_columns():
            least, greatest = rows.span(name)
            kind = self._schema.field(name).type
            up, down = _UNITS_US[kind.unit if pa.types.is_timestamp(kind) else "us"]
            # The writer rounds nanoseconds toward 1970: this is rounded away from the span.
            low_us = max(low_us, least * up // down)
            high_us = min(high_us, -(-greatest * up // down))
        if low_us > high_us:
            return self._selection, lambda number: False
        selection = self._selection
        since, until = selection.since, selection.until
        if low_us > MIN_TIMESTAMP_US and not isinstance(since, Position):
            since_us = low_us if since is None else max(low_us, to_timestamp_us(since))
            selection = replace(selection, since=since_us)
        if high_us < MAX_TIMESTAMP_US and not isinstance(until, Position):
            until_us = high_us + 1 if until is None else min(high_us + 1, to_timestamp_us(until))
            selection = replace(selection, until=until_us)
        name, kind = PARTITION_COLUMN.name, PARTITION_COLUMN.type
        if not (selection.include_metadata and rows.names(name)):
            return selection, None
        return selection, lambda number: rows.can_hold(pc.field(name) == pa.scalar(number, kind))

    def _time_columns(self) -> list[str]:
        """Return the columns that have a record's timestamp, without nulls."""
        names = [TIMESTAMP] if self._selection.include_metadata else []
        own = self._time_column
        return [*names, own] if own is not None and own in self._schema.names else names

    # -- the rest of what a dataset has ----------------------------------------------------------

    def filter(self, expression: pc.Expression) -> QueueScan:
        """Return the scan of those rows that pass the filter as well.

        Raises:
            pa.ArrowInvalid: a column that the queue does not have.
        """
        both = expression if self._filter is None else self._filter & expression
        return QueueScan(self._path, self._selection, self._storage_options, both)

    def count_rows(self, filter: pc.Expression | None = None, **_others: Any) -> int:
        """Return the number of rows that pass the filter; raises as :meth:`scanner`."""
        return self.scanner([], filter).count_rows()

    def take(self, indices: Any, columns: Columns = None, **others: Any) -> pa.Table:
        """Return the rows at these places; reads all rows."""
        return self.to_table(columns=columns, **others).take(indices)

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """Return all rows in memory, sorted as by ``pyarrow.Table.sort_by``."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Return all rows in memory, joined as by ``pyarrow.Table.join``."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join(right, *arguments, **options))

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Return all rows in memory, joined as by ``pyarrow.Table.join_asof``."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join_asof(right, *arguments, **options))

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true of all rows: ``True``."""
        return pc.scalar(True)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[ds.Fragment]:
        """Raise ``NotImplementedError``: a queue has no files that pyarrow could read."""
        raise NotImplementedError(f"{self._url}: a queue has no fragments: use its scanner")

    _get_fragments = get_fragments

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:
        """Raise ``NotImplementedError``: a queue has the columns that it was made with."""
        raise NotImplementedError(f"{self._url}: a queue keeps its columns: cast what you read")

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._path, self._selection, self._storage_options, self._filter)
        return QueueScan, arguments

    def __repr__(self) -> str:
        return f"<QueueScan of {self._url}: {', '.join(self._schema.names)}>"


def scan_queue(
    path: AnyPath | FolderTree,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    kinds: Collection[RecordKind] = OUTPUT_KINDS,
    include_metadata: bool = False,
    from_moment: Moment | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> QueueScan:
    """Return a queue of any kind as a dataset, which can be scanned any number of times.

    Arguments are those of :func:`read_queue`. DuckDB reads the dataset by its name, polars by
    ``polars.scan_pyarrow_dataset``, pandas by ``scan.to_table().to_pandas()``, and whatever speaks
    Arrow as a stream. DuckDB and polars tell it which columns and which times they need.

    Raises:
        NotAQueue: there is none.
        SchemaMismatch: there is no such column.
        CorruptLog, UnsupportedVersion: it cannot be read.

    Examples:
        >>> scan = scan_queue("queues/trades")
        >>> scan.count_rows(), scan.to_table(columns=["price"]).to_pydict()
        (3, {'price': [10, 7, 20]})
    """
    selection = Selection(
        since, until, kinds, include_metadata, from_moment=from_moment, columns=columns
    )
    return QueueScan(path, selection, storage_options)
