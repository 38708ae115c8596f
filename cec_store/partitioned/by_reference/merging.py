"""Small segments are put together, so that a partition is read in few requests. docs/format.md §11.

Sizes grow by a factor: a record is written again once for each factor, however many commits come.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.format.by_reference.commits import WRITER_SETTING
from cec_store.format.frame import SegmentFlags
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker, read_segment
from cec_store.storage.stores.store import Store

MERGED_BYTES = 64 << 20
"""Bytes that a merged segment has at most, give or take one of its parts."""
_FACTOR = 8
"""Least number of small segments in a row that are merged; also the ratio of sizes below."""
_BELOW = tuple((64 << 10) * _FACTOR**power for power in range(4))
"""Neighbours that are all smaller than one of these."""


def merges_of(state: QueueState) -> Iterator[pa.Table]:
    """Neighbours of one partition that should be one segment, in the order of their offsets.

    No segment is in two of them. There are none in a queue of one writer, whose frames are its
    operator's.
    """
    if WRITER_SETTING in state.commit.settings:
        return
    live = state.live.sort_by([("partition", "ascending"), ("first_offset", "ascending")])
    partitions, sizes = live.column("partition").to_numpy(), live.column("bytes").to_numpy()
    is_taken = np.zeros(live.num_rows, np.bool_)
    for below in _BELOW:
        is_small = (sizes < below) & ~is_taken
        for first, stop in _runs(is_small, partitions):
            if 2 * int(sizes[first:stop].max()) > int(sizes[first:stop].sum()):
                continue  # one of them would be written again for the sake of little
            for start, end in _pieces(sizes, first, stop):
                is_taken[start:end] = True
                yield live.slice(start, end - start)


def _runs(
    is_small: np.typing.NDArray[np.bool_], partitions: np.typing.NDArray[np.int32]
) -> list[tuple[int, int]]:
    """Return (first, stop) of each run of ``_FACTOR`` or more small segments in a partition."""
    if not len(is_small):
        return []
    changes = (is_small[1:] != is_small[:-1]) | (partitions[1:] != partitions[:-1])
    firsts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    stops = np.concatenate([firsts[1:], [len(is_small)]])
    is_run = is_small[firsts] & (stops - firsts >= _FACTOR)
    return list(zip(firsts[is_run].tolist(), stops[is_run].tolist(), strict=True))


def _pieces(sizes: np.typing.NDArray[np.int64], first: int, stop: int) -> Iterator[tuple[int, int]]:
    """A run in pieces that come to about as much as a segment should, two segments or more each."""
    which = np.cumsum(sizes[first:stop]) // MERGED_BYTES
    cuts = [first, *(first + 1 + np.flatnonzero(np.diff(which))).tolist(), stop]
    for start, end in itertools.pairwise(cuts):
        if end - start > 1:
            yield start, end


def merged(
    store: Store, segments: pa.Table, schema: RecordSchema, query: str, clock_us: Callable[[], int]
) -> dict[str, Any]:
    """The object of these segments' records, and what a commit says of it.

    Raises:
        CorruptLog: one of them is damaged; nothing was made.
    """
    rows = segments.to_pylist()
    partition = rows[0]["partition"]
    maker = SegmentMaker(schema, clock_us)
    for row in rows:
        for records in read_segment(store.url, store.read, row, schema):
            maker.append_records(records)
    segment = maker.finish(store, query, 0, partition, SegmentFlags.COMPACTED)
    assert segment is not None  # a segment has records
    # As old as the newest of what is in it: retention by time goes by it.
    written_us = max(row["written_us"] for row in rows)
    return {**segment, "first_offset": rows[0]["first_offset"], "written_us": written_us}
