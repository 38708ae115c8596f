"""Rows for queues of many partitions: how a task stages them, and what a queue holds of them."""

from pathlib import Path

import pyarrow as pa

from cec_store.format.commit import Staged
from cec_store.format.schema import RecordSchema
from cec_store.log.selection import Selection
from cec_store.partitioned.partitions import Partitions
from cec_store.storage.local import LocalFolder
from cec_store.values import Position
from support.places.version_1 import Committer

SCHEMA = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]))
QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_pydict(
        {"n": numbers, "text": [str(n) for n in numbers]}, schema=SCHEMA.data
    )


def stage(
    committer: Committer, batch: int, parts: dict[int, pa.RecordBatch], query: str = QUERY
) -> list[Staged]:
    found = []
    for number, part in parts.items():
        stager = committer.stager(query, batch, number)
        stager.append(part)
        staged = stager.finish()
        assert staged is not None
        found.append(staged)
    return found


def contents(path: Path) -> dict[int, list[int]]:
    queue = Partitions(LocalFolder(path))
    return {
        number: [
            n
            for part in queue.replay(number, Selection(Position(0), Position(end)))
            for n in part.column("n").to_pylist()
        ]
        for number, end in queue.ends().items()
    }
