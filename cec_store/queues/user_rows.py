"""A user's rows as the records of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from cec_store.errors import SchemaMismatch
from cec_store.format.bodies import RECORDS_BYTES_MAX, check_body_size, cut_to_frames
from cec_store.format.records import data_records, fit_batches, to_timestamps
from cec_store.format.schema import TIMESTAMP, RecordSchema


def records_of(
    schema: RecordSchema,
    rows: pa.RecordBatch | pa.Table,
    timestamps: pa.Array | None,
    clock_us: Callable[[], int],
    path: str,
) -> list[pa.RecordBatch]:
    """Records for one frame, or for several where they are more than one may hold.

    ``timestamps``, one a row, are by default those of the schema's timestamp column, and without
    one the time of this call. None at all for no rows. ``path`` is the queue's, for errors.

    Raises:
        SchemaMismatch: columns, values or timestamps of another type, or timestamps that are not
            those of the timestamp column.
        FrameTooLarge: a single row is more than a frame may hold.
    """
    parts = list(records_of_batches(schema, fit_batches(schema.data, rows), timestamps, clock_us))
    if len(parts) > 1:
        # The pipeline finds what is too large as it comes to it: too late for a step.
        for part in parts:
            check_body_size(part, path)
    return parts


def records_of_batches(
    schema: RecordSchema,
    batches: list[pa.RecordBatch],
    timestamps: pa.Array | None,
    clock_us: Callable[[], int],
) -> Iterator[pa.RecordBatch]:
    """Yield the records of batches that :func:`.records.fit_batches` returned."""
    rows = sum(batch.num_rows for batch in batches)
    if timestamps is None and schema.timestamp_column is None:
        timestamps = pa.array(np.full(rows, clock_us(), np.int64))
    if timestamps is not None and len(timestamps) != rows:
        raise SchemaMismatch(f"{len(timestamps)} timestamps for {rows} rows")
    if isinstance(timestamps, pa.ChunkedArray):  # a table's column
        timestamps = timestamps.combine_chunks()
    start = 0
    for batch in batches:
        if timestamps is None:
            stamps = batch.column(schema.timestamp_column)
        else:
            stamps = timestamps[start : start + batch.num_rows]
        records = data_records(schema, batch, to_timestamps(stamps))
        if timestamps is not None:
            refuse_other_times(schema, records)
        if batch.num_rows:
            yield from cut_to_frames(records, RECORDS_BYTES_MAX)
        start += batch.num_rows


def refuse_other_times(schema: RecordSchema, records: pa.RecordBatch) -> None:
    """Raise :class:`SchemaMismatch` for timestamps that are not those of the timestamp column.

    Readers leave out by the timestamps of frames what a filter on that column excludes. Queues of
    operators are not looked at: their footprints have no columns.
    """
    column = schema.timestamp_column
    if column is None or schema.has_footprints:
        return
    if not records.column(TIMESTAMP).equals(to_timestamps(records.column(column))):
        raise SchemaMismatch(f"timestamps that differ from the queue's timestamp column {column!r}")
