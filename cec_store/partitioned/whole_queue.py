"""Reads all partitions of a queue, one after the other, as one stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from cec_store.format.schema import RecordSchema
from cec_store.log.selection import METADATA_COLUMNS, PARTITION_COLUMN, Selection
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.values import Position


def schema_of_rows(schema: RecordSchema, selection: Selection, path: str) -> pa.Schema:
    """Return the schema of the rows of a selection; ``path`` is the queue's, for the error.

    Raises:
        SchemaMismatch: there is no such column.
    """
    metadata = (*METADATA_COLUMNS, PARTITION_COLUMN) if selection.include_metadata else ()
    data = schema.data
    names = selection.of_columns(data, path)
    return pa.schema([*(data.field(name) for name in names), *metadata], data.metadata)


def refuse_positions(queue: PlainQueue | ReferenceQueue, selection: Selection) -> None:
    """Raise ``ValueError`` for positions in a queue of many partitions."""
    if queue.is_partitioned and selection.positions():
        raise ValueError(f"{queue.path} has partitions: give moments, not positions")


def read_whole(
    queue: PlainQueue | ReferenceQueue,
    selection: Selection,
    takes: Callable[[int], bool] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of all partitions, as far as the queue reaches now.

    ``takes`` returns False for the number of a partition that is to be left out. The queue is
    closed once all is read, or the reader is forgotten.

    Raises:
        SchemaMismatch: there is no such column.
        ValueError: a position in a queue of many partitions.
        OutOfRange, QueueReplaced: a position that is not (any more) one of this queue.
        CorruptLog: damage; from the reader, once everything before it has been returned.
    """
    ends = queue.ends()
    refuse_positions(queue, selection)
    parts = [
        (number, _within(queue, number, end, selection))
        for number, end in ends.items()
        if takes is None or takes(number)
    ]
    # Each of many partitions is opened when it is its turn.
    parts_of = (queue.replay(number, part) for number, part in parts)
    replays = parts_of if queue.is_partitioned else [*parts_of]
    schema = schema_of_rows(queue.schema, selection, queue.path)

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(queue):
            for replay in replays:
                for batch in replay:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _within(
    queue: PlainQueue | ReferenceQueue, number: int, end: int, selection: Selection
) -> Selection:
    """Return the selection within one partition, up to the end that the queue had: ``end``."""
    if queue.is_partitioned and selection.since is None and selection.from_moment is None:
        # If this partition is trimmed before we read it, raise OutOfRange instead of skipping rows.
        selection = replace(selection, since=Position(queue.first(number)))
    return replace(selection, end_offset=end)
