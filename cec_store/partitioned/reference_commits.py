"""What goes into a commit by reference: a queue's making, and a batch of segments.

docs/format.md §12. Values only.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    segments_of,
)
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.queue_state import QueueState


def making(
    schema: RecordSchema, partitions: int, settings: Mapping[str, str], now_us: int
) -> ReferenceObject:
    """Commit 0 of a new queue.

    Raises:
        ValueError: it would have no partition.
    """
    if partitions < 1:
        raise ValueError(f"partitions={partitions}: must be at least 1")
    nothing = (0,) * partitions
    commit = ReferenceCommit(
        Operation.MAKE, starts=nothing, ends=nothing, settings=dict(settings), schema=schema
    )
    return ReferenceObject(0, secrets.token_bytes(16), commit, segments_of([]), now_us)


def batch_after(
    state: QueueState,
    query: str,
    batch: int,
    segments: Sequence[Mapping[str, Any]],
    now_us: int,
    *,
    is_stream: bool = True,
    consumed: Mapping[str, tuple[int, ...]] | None = None,
) -> ReferenceObject | None:
    """The commit of a batch; ``None`` where the query has committed it, or a later one, before.

    ``segments`` are in the order in which they stand in their partitions; a partition that the
    queue does not have yet is added to it.
    """
    before = state.commit
    if is_stream and before.has(query, batch):
        return None
    count = max([len(before.ends), *(segment["partition"] + 1 for segment in segments)])
    more = (0,) * (count - len(before.ends))
    ends = [*before.ends, *more]
    rows = []
    for segment in segments:
        rows.append({**segment, "first_offset": ends[segment["partition"]]})
        ends[segment["partition"]] += segment["records"]
    commit = replace(
        before,
        operation=Operation.APPEND,
        query=query,
        batch=batch,
        starts=(*before.starts, *more),
        ends=tuple(ends),
        queries={**before.queries, query: batch} if is_stream else before.queries,
        consumed=consumed or {},
        schema=None,
    )
    return ReferenceObject(state.number + 1, state.log_id, commit, segments_of(rows), now_us)
