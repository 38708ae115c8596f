"""A queue of version 1 goes on as version 2: its segments stay where they are. docs/format.md §12.

Until commit 0 is there it is one of version 1, and this can be begun again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

from cec_store.errors import SchemaMismatch
from cec_store.format.acknowledgement import Acknowledgement
from cec_store.format.by_reference.acknowledgements import PartitionsAcknowledged
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    segments_of,
)
from cec_store.format.commit import Commit
from cec_store.format.retention import FOREVER
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.epochs import read_manifest
from cec_store.log.frames import Frame
from cec_store.partitioned.by_reference.reference_commits import RETENTION_SETTING
from cec_store.partitioned.by_reference.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.registrations import SETTING, Registration, newest_number
from cec_store.partitioned.finishing import Finisher
from cec_store.partitioned.making import require_schema
from cec_store.partitioned.partitions import Partitions
from cec_store.queues.consumers import acknowledgements
from cec_store.queues.retention import read_retention
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import (
    COMMITS_FOLDER,
    acknowledgement_object_name,
    partition_name,
    segment_name,
)
from cec_store.storage.stores.store import Store

_SEGMENT_BYTES = 16 << 20
"""What is read at once: a longer file of version 1 counts as several segments."""


def go_on_by_reference(
    folder: FolderTree,
    store: Store,
    schema: RecordSchema | None,
    partitions: int,
    clock_us: Callable[[], int],
) -> None:
    """Finish what was committed, and make commit 0 of version 2 over the same files.

    Where somebody else has just done so, there is nothing to do. Readers of version 1 that are open
    are told to open the queue again.

    Raises:
        SchemaMismatch: not these columns, or so many partitions; nothing was changed.
        QueueLocked: somebody has been committing for a minute.
        CorruptLog: a partition does not hold what is committed; the queue stays as it was.
    """
    with closing(Partitions(folder)) as queue:
        stored, there = queue.schema, len(queue.ends())
    if partitions != there:
        raise SchemaMismatch(f"{folder.path}: the queue has {there} partitions, not {partitions}")
    if schema is not None:
        require_schema(folder, schema)
    finisher = Finisher(folder, stored, clock_us=clock_us)

    def go_on(last: Commit) -> None:
        count = max(1, len(last.ends))
        chains = [Chain(folder.folder(partition_name(n))) for n in range(count)]
        # Readers' positions name the queue by its id, and go on.
        log_id = read_manifest(folder.folder(COMMITS_FOLDER)).log_id
        settings = _consumers(store, chains, log_id)
        retention = read_retention(folder.folder(COMMITS_FOLDER))
        if retention != FOREVER:
            settings[RETENTION_SETTING] = str(retention)
        commit = ReferenceCommit(
            Operation.MAKE,
            starts=tuple(chain.first_offset() for chain in chains),
            ends=tuple(chain.end.offset for chain in chains),
            queries=last.queries,
            settings=settings,
            schema=stored,
        )
        rows = [row for n, chain in enumerate(chains) for row in _segments(n, chain)]
        now_us = clock_us()
        ReferenceLog(store).make(ReferenceObject(0, log_id, commit, segments_of(rows), now_us))

    finisher.hand_over(go_on)


def _segments(number: int, chain: Chain) -> Iterator[dict[str, Any]]:
    """What a commit says of a partition's files."""
    by_file = groupby(chain.frames(), key=lambda frame: frame.address.segment_id)
    for segment_id, frames in by_file:
        created_us = chain.reader(segment_id).header.created_us
        for part in _parts(frames):
            first, last = part[0], part[-1]
            yield {
                "partition": number,
                "first_offset": first.header.first_offset,
                "records": last.header.end_offset - first.header.first_offset,
                "file": f"{partition_name(number)}/{segment_name(segment_id)}",
                "byte": first.address.byte,
                "bytes": last.next_address.byte - first.address.byte,
                "salt": first.header.salt,
                "least_us": min(frame.header.min_timestamp_us for frame in part),
                "greatest_us": max(frame.header.max_timestamp_us for frame in part),
                "frames": len(part),
                "written_us": created_us,
            }


def _parts(frames: Iterator[Frame]) -> Iterator[list[Frame]]:
    part: list[Frame] = []
    for frame in frames:
        if part and frame.next_address.byte - part[0].address.byte > _SEGMENT_BYTES:
            yield part
            part = []
        part.append(frame)
    if part:
        yield part


def _consumers(store: Store, chains: list[Chain], log_id: bytes) -> dict[str, str]:
    """Settings that register the consumers of all partitions, as far as they are."""
    said = [acknowledgements(chain.folder, chain.manifest.log_id) for chain in chains]
    found = {}
    for name in sorted({name for each in said for name in each}):
        of_each = [each.get(name, _NOTHING) for each in said]
        number = newest_number(store, name) + 1
        acknowledged = PartitionsAcknowledged(
            log_id, number, secrets.token_bytes(16), max(one.acknowledged_us for one in of_each),
            tuple(one.received for one in of_each), tuple(one.effects_saved for one in of_each),
        )  # fmt: skip
        store.create(acknowledgement_object_name(name, number), [acknowledged.encode()])
        starts = tuple(one.start for one in of_each)
        found[f"{SETTING}{name}"] = Registration(starts, number).encode()
    return found


_NOTHING = Acknowledgement(bytes(16), 0, 0, 0, 0)
"""Of a consumer that does not know a partition: it needs all of it."""
