"""A queue as a stream of Arrow batches, for whoever has no engine: pandas, polars, DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from cec_store.files import FolderTree, LocalFolder
from cec_store.partitions import Partitions
from cec_store.records import KIND, TIMESTAMP, TIMESTAMP_TYPE, RecordKind
from cec_store.replay import OFFSET, OUTPUT_KINDS, Moment, Replay
from cec_store.units import Position

PARTITION = "_partition"


def read_queue(
    path: str | PurePath | FolderTree,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    kinds: Collection[RecordKind] = OUTPUT_KINDS,
    include_metadata: bool = False,
) -> pa.RecordBatchReader:
    """The rows of a queue from a moment on, up to (not including) another.

    Of a queue of many partitions, one partition after the other, each from its earliest record at
    or after ``since``, as far as the queue reached when this was called. Moments are as for
    :meth:`OutputQueue.replay`; a :class:`Position` is one of a queue without partitions.
    ``include_metadata`` adds ``_timestamp``, ``_kind``, ``_offset`` and ``_partition``.

    Raises:
        NotAQueue: there is none.
        ValueError: a position in a queue of many partitions.
        OutOfRange: a position that is trimmed or does not exist yet.
        CorruptLog: damage; from the reader, once everything before it has been returned.
    """
    queue = Partitions(LocalFolder(path) if isinstance(path, (str, PurePath)) else path)
    ends = queue.ends()
    if queue.is_partitioned and (isinstance(since, Position) or isinstance(until, Position)):
        raise ValueError(f"{queue.folder.path} has partitions: give moments, not positions")
    replays = {number: _replay(queue, number, end, since, until, kinds, include_metadata)
               for number, end in ends.items()}  # fmt: skip
    fields = list(queue.schema.data)
    if include_metadata:
        fields += [
            pa.field(TIMESTAMP, TIMESTAMP_TYPE),
            pa.field(KIND, pa.uint8()),
            pa.field(OFFSET, pa.int64()),
            pa.field(PARTITION, pa.int32()),
        ]
    schema = pa.schema(fields)
    return pa.RecordBatchReader.from_batches(schema, _batches(replays, schema))


def _replay(
    queue: Partitions,
    number: int,
    end: int,
    since: Moment | None,
    until: Moment | None,
    kinds: Collection[RecordKind],
    include_metadata: bool,
) -> Replay:
    def offset(moment: Moment) -> int:
        if isinstance(moment, Position):
            return moment.offset
        return min(end, queue.queue(number).position_at(moment).offset)

    start = queue.first(number) if since is None else offset(since)
    stop = end if until is None else offset(until)
    return queue.replay(
        number, start, max(start, stop), kinds=kinds, include_metadata=include_metadata
    )


def _batches(replays: dict[int, Replay], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, replay in replays.items():
        for batch in replay:
            if PARTITION in schema.names:
                batch = with_partition(batch, number)
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def with_partition(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The batch with a column that says which partition it is of."""
    return batch.append_column(PARTITION, pa.array(np.full(batch.num_rows, number, np.int32)))
