"""A partition of a partitioned queue in figures, by what its commits say of it. Reads only.

docs/format.md §11. Only counts of records by kind, and a history, need the segments themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cec_store.format.by_reference.segment_frames import frames_of
from cec_store.format.frame import FrameHeader
from cec_store.format.scan import Bad
from cec_store.format.schema import RecordKind
from cec_store.inspector.damage.faults import Fault
from cec_store.inspector.damage.reference_objects import (
    part_of,
    read_all,
    segment_fault,
)
from cec_store.inspector.measuring.extents import ExtentReport
from cec_store.inspector.measuring.log_history import LogHistory, SegmentUse
from cec_store.inspector.measuring.totals import LogTotals
from cec_store.inspector.places.places import Place
from cec_store.storage.stores.folders import store_of


def reference_extent(place: Place, number: int, counts: bool) -> ExtentReport:
    """Totals of a partition; no operator writes it, so there is no extent.

    Raises:
        CorruptLog, UnsupportedVersion: the queue cannot be opened.
    """
    state = place.reference.state
    segments = state.segments_of(number).to_pylist()
    totals = LogTotals(
        segments=len(segments),
        frames=sum(segment["frames"] for segment in segments),
        bytes=sum(segment["bytes"] for segment in segments),
        records=sum(segment["records"] for segment in segments),
        first_offset=state.commit.starts[number],
        end_offset=state.commit.ends[number],
        first_timestamp_us=segments[0]["least_us"] if segments else None,
        last_timestamp_us=segments[-1]["greatest_us"] if segments else None,
    )
    if counts:
        # All records are output, because a queue of partitions has no windows.
        totals.kinds = {kind.name: 0 for kind in RecordKind}
        totals.kinds[RecordKind.DATA.name] = totals.records
    return ExtentReport(place.path, None, totals, has_state=False, state=None, damage="")


def reference_history(place: Place, number: int) -> tuple[LogHistory, FrameHeader | None]:
    """Return a partition's history, frame by frame, and its newest frame.

    Raises:
        CorruptLog, UnsupportedVersion: the queue cannot be opened.
    """
    history, last = LogHistory(), None
    uses: list[SegmentUse] = []

    def begin(segment_bytes: int) -> None:
        uses.append(SegmentUse(len(uses), segment_bytes))
        history.bytes += segment_bytes

    for item in _headers(place, number, begin):
        if isinstance(item, Fault):
            history.damage.append(item)
            continue
        history.take(item, history.frames)
        uses[-1].take(item, 2**63)
        last = item
    history.segments += uses
    return history, last


def _headers(
    place: Place, number: int, begin: Callable[[int], None]
) -> Iterator[FrameHeader | Fault]:
    store = store_of(place.folder)
    assert store is not None
    segments = place.reference.state.segments_of(number).to_pylist()
    for segment, data in zip(segments, read_all(store, map(part_of, segments)), strict=True):
        path = f"{store.url}/{segment['file']}"
        begin(segment["bytes"])
        if not isinstance(data, bytes):
            yield segment_fault(data, path)
            continue
        for item in frames_of(segment, data):
            yield segment_fault(item, path) if isinstance(item, Bad) else item.header
