"""Contents of commits by reference: a queue's making, a batch, a merge, a trim, settings.

docs/format.md §11. Values only.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.by_reference.commit_body import SEGMENT_COLUMNS, segments_of
from cec_store.format.by_reference.commits import Operation, ReferenceCommit, ReferenceObject
from cec_store.format.by_reference.inline import OWN, NumberedFrames
from cec_store.format.frame import FRAME_HEADER_BYTES, FrameHeader
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState

RETENTION_SETTING = "retention"


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


def appended_after(
    state: QueueState,
    frames: Sequence[tuple[FrameHeader, bytes]],
    inline: Sequence[NumberedFrames],
    now_us: int,
) -> ReferenceObject:
    """The commit of a group of frames of a queue of one writer."""
    headers, before = [header for header, _ in frames], state.commit
    records = sum(header.record_count for header in headers)
    row = {
        "partition": 0,
        "first_offset": before.ends[0],
        "records": records,
        "file": OWN,
        "byte": 0,
        "bytes": sum(FRAME_HEADER_BYTES + len(body) for _, body in frames),
        "salt": inline[0].salt,
        "least_us": min(header.min_timestamp_us for header in headers),
        "greatest_us": max(header.max_timestamp_us for header in headers),
        "frames": len(frames),
        "written_us": now_us,
    }
    commit = replace(_plain(state, Operation.APPEND), ends=(before.ends[0] + records,))
    rows = segments_of([row])
    return ReferenceObject(state.number + 1, state.log_id, commit, rows, now_us, inline=inline)


def merge_after(
    state: QueueState, merged: pa.Table, into: Sequence[Mapping[str, Any]], now_us: int
) -> ReferenceObject | None:
    """The commit of segments that take the place of others; ``None`` where those have gone.

    ``merged`` are rows of ``state.live``; ``into`` says where its records stand, ``first_offset``
    as well.
    """
    if not state.has_all(merged):
        return None
    return _replacing(state, Operation.MERGE, state.commit.starts, merged, into, now_us)


def trim_after(state: QueueState, limits: Mapping[int, int], now_us: int) -> ReferenceObject | None:
    """The commit that takes whole segments below an offset of each partition; ``None``: nothing.

    A segment that holds a record at or above the limit stays.
    """
    live = state.live
    ends = pc.add(live.column("first_offset"), live.column("records")).to_numpy()
    partitions = live.column("partition").to_numpy()
    limit_of = np.zeros(len(state.commit.ends), np.int64)
    for number, limit in limits.items():
        limit_of[number] = limit
    firsts = live.column("first_offset").to_numpy()
    # A segment without records stays where the records behind it do.
    goes = (ends <= limit_of[partitions]) & (firsts < limit_of[partitions])
    if not goes.any():
        return None
    starts = np.array(state.commit.starts, np.int64)
    np.maximum.at(starts, partitions[goes], ends[goes])
    gone = live.filter(pa.array(goes))
    return _replacing(state, Operation.TRIM, tuple(starts.tolist()), gone, (), now_us)


def settings_after(
    state: QueueState, settings: Mapping[str, str], now_us: int
) -> ReferenceObject | None:
    """The commit of new settings, all of them; ``None`` where they are those already."""
    if settings == state.commit.settings:
        return None
    commit = replace(_plain(state, Operation.SET), settings=dict(settings))
    return ReferenceObject(state.number + 1, state.log_id, commit, segments_of([]), now_us)


def _plain(state: QueueState, operation: Operation) -> ReferenceCommit:
    """A commit that is of no query."""
    return replace(
        state.commit, operation=operation, query=None, batch=None, consumed={}, schema=None
    )


def _replacing(
    state: QueueState,
    operation: Operation,
    starts: tuple[int, ...],
    gone: pa.Table,
    added: Sequence[Mapping[str, Any]],
    now_us: int,
) -> ReferenceObject:
    removed = gone.select(SEGMENT_COLUMNS.names).set_column(
        SEGMENT_COLUMNS.get_field_index("removed"),
        SEGMENT_COLUMNS.field("removed"),
        pa.array(np.ones(gone.num_rows, np.bool_)),
    )
    rows = pa.concat_tables([removed, pa.Table.from_batches([segments_of(added)])])
    (segments,) = rows.combine_chunks().to_batches()
    commit = replace(_plain(state, operation), starts=starts)
    return ReferenceObject(state.number + 1, state.log_id, commit, segments, now_us)
