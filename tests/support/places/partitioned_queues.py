"""Rows for queues of many partitions: how a query commits them, and what a queue holds of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store.format.schema import RecordSchema
from cec_store.log.selection import Selection
from cec_store.partitioned.batches import BatchCommitter, write_segments
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.local_store import LocalStore
from cec_store.values import Position

SCHEMA = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]))
QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_pydict(
        {"n": numbers, "text": [str(n) for n in numbers]}, schema=SCHEMA.data
    )


def commit(
    path: Path,
    batch: int,
    parts: dict[int, pa.RecordBatch],
    *,
    schema: RecordSchema = SCHEMA,
    clock_us: Callable[[], int] = now_us,
    **more: Any,
) -> bool:
    """Commit a batch of the query, of these rows by partition; makes the queue."""
    store = LocalStore(path)
    committer = BatchCommitter(LocalFolder(path), store, schema, clock_us=clock_us, **more)
    segments = [
        segment
        for number, part in parts.items()
        for segment in write_segments(
            store, schema, QUERY, batch, number, [part], segment_bytes=1 << 20, clock_us=clock_us
        )
    ]
    return committer.commit(QUERY, batch, segments)


def contents(path: Path) -> dict[int, list[int]]:
    queue = ReferenceQueue(LocalStore(path))
    return {
        number: [
            n
            for part in queue.replay(number, Selection(Position(0), Position(end)))
            for n in part.column("n").to_pylist()
        ]
        for number, end in queue.ends().items()
    }
