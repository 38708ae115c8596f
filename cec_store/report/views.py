"""The numbers behind the plots: of one log, or of many together.

Everything here is of bounded size, however large the log: at most so many points, bars or bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cec_store.checkpoints.policy import Targets
from cec_store.format.columns import Ints
from cec_store.inspector.measuring.extent_history import FLOOR_RECORDS
from cec_store.inspector.measuring.log_history import HistoryBucket, SegmentUse, merged_buckets
from cec_store.report.facts import LogFacts
from cec_store.report.windows import ages, footprint_counts, lifetimes, named_windows, renewing
from cec_store.values import MIN_TIMESTAMP_US

Document = dict[str, Any]
_POINTS_MAX = 1000
_TIME_BINS = 60
_BARS_MAX = 120


def view(name: str, logs: Sequence[LogFacts], top: int, has_versions: bool) -> Document:
    """All that is drawn of these logs."""
    # A writer may have taken away what was to be gone through.
    counted = [facts for facts in logs if facts.footprints is not None and facts.history.buckets]
    statistics = [facts.footprints for facts in counted if facts.footprints is not None]
    return {
        "name": name,
        "open_windows": sum(facts.open_windows for facts in logs),
        "extent_records": sum(facts.extent_records for facts in logs),
        "history": _history(counted),
        "written": _written(logs, has_versions),
        "throughput": None if has_versions else _throughput(logs),
        "ages": ages(statistics),
        "renewing": renewing(statistics),
        "footprints": footprint_counts(statistics),
        "lifetimes": lifetimes(statistics),
        "segments": _segments(logs),
        "windows": named_windows(counted, top),
    }


# -- over time ------------------------------------------------------------------------------------


def _history(logs: Sequence[LogFacts]) -> Document | None:
    """Extent and windows; of many logs their sum, from where on all of them are kept."""
    if not logs:
        return None
    shift = max(facts.history.shift for facts in logs)
    kept = [merged_buckets(facts.history.buckets, shift) for facts in logs]
    while max(map(len, kept)) > _POINTS_MAX:
        shift += 1
        kept = [merged_buckets(buckets, shift) for buckets in kept]
    first = max(buckets[0].number >> shift for buckets in kept)
    places = {s.number >> shift for buckets in kept for s in buckets if s.number >> shift >= first}
    numbers = sorted(places)
    sums = np.zeros((5, len(numbers)), np.int64)
    largest = np.full_like(sums, MIN_TIMESTAMP_US)
    target = np.zeros(len(numbers), np.int64)
    for facts, buckets in zip(logs, kept, strict=True):
        rows = _filled(buckets, numbers, shift)
        # The default target, in records alone, because no log records the target that was set.
        target += np.maximum(2 * rows[2], FLOOR_RECORDS if facts.is_state else Targets.extent_floor)
        sums += rows
        largest = np.maximum(largest, rows)
    return {
        "number": largest[3].tolist(),
        "timestamp_us": _known(largest[4]),
        "extent_records_low": sums[0].tolist(),
        "extent_records": sums[1].tolist(),
        "largest_extent_records": largest[1].tolist(),
        "open_windows": sums[2].tolist(),
        "default_target": target.tolist(),
    }


def _filled(buckets: Iterable[HistoryBucket], numbers: Sequence[int], shift: int) -> Ints:
    """Low, high, windows, number and time at each place; what is not said holds on."""
    by_place = {bucket.number >> shift: bucket for bucket in buckets}
    rows = np.zeros((5, len(numbers)), np.int64)
    before = (0, 0, 0, 0, MIN_TIMESTAMP_US)
    for place, number in enumerate(numbers):
        here = by_place.get(number)
        if here is not None and here.open_windows is not None:
            before = (
                min(here.extent_low, here.extent_high),
                here.extent_high,
                here.open_windows,
                here.number,
                here.timestamp_us,
            )
        rows[:, place] = before
    return rows


def _written(logs: Sequence[LogFacts], has_versions: bool) -> Document:
    """Bytes and records by version, or by frame number of a single queue, or by time."""
    kept = [facts.history.buckets for facts in logs if facts.history.buckets]
    if len(kept) > 1 and not has_versions:
        return _written_by_time(kept)
    shift = max((facts.history.shift for facts in logs), default=0)
    while max((len(merged_buckets(item, shift)) for item in kept), default=0) > _BARS_MAX:
        shift += 1
    in_order = sorted((s for buckets in kept for s in buckets), key=attrgetter("number"))
    merged = merged_buckets(in_order, shift)
    names = ("number", "timestamp_us", "bytes", "records")
    by = {name: [getattr(item, name) for item in merged] for name in names}
    by["timestamp_us"] = _known(np.array(by["timestamp_us"], np.int64))
    return {"by": "version" if has_versions else "frame", **by}


def _known(times_us: Ints) -> list[int]:
    """Return ascending times, of which those before the first known one are that one.

    A frame without records says no time; where none does, all are 0.
    """
    is_known = times_us != MIN_TIMESTAMP_US
    first = int(times_us[is_known][0]) if is_known.any() else 0
    known: list[int] = np.where(is_known, times_us, first).tolist()
    return known


def _written_by_time(kept: Sequence[Sequence[HistoryBucket]]) -> Document:
    spans = _spans(kept)
    # A bin is a microsecond at least: what was written at once would have none otherwise.
    first = spans[:, 0].min() if len(spans) else 0.0
    last = spans[:, 1].max() if len(spans) else 0.0
    edges = np.linspace(first, max(last, first + _TIME_BINS), _TIME_BINS + 1)
    return {
        "by": "time",
        "number": list(range(len(edges) - 1)),
        "timestamp_us": edges[1:].astype(np.int64).tolist(),
        "bytes": _binned(spans, spans[:, 2], edges),
        "records": _binned(spans, spans[:, 3], edges),
    }


def _spans(kept: Sequence[Sequence[HistoryBucket]]) -> NDArray[np.float64]:
    """Return first and last timestamp in microseconds, bytes and records, of each bucket with
    records.

    Shape (buckets, 4). A span ends where the next record is due: as far behind the last as those of
    the bucket are apart.
    """
    spans = np.array(
        [
            (s.first_us, s.last_us, s.bytes, s.records)
            for buckets in kept
            for s in buckets
            if s.records
        ],
        np.float64,
    ).reshape(-1, 4)
    spans[:, 1] += (spans[:, 1] - spans[:, 0]) / np.maximum(1, spans[:, 3] - 1)
    return spans


def _binned(
    spans: NDArray[np.float64], amounts: NDArray[np.float64], edges: NDArray[np.float64]
) -> list[int]:
    """Each amount in the bins that its span covers, in proportion; the sum stays what it is."""
    below = np.zeros(len(edges))
    for (first, last), amount in zip(spans[:, :2], amounts, strict=True):
        width = last - first
        share = np.clip((edges - first) / width, 0, 1) if width else (edges > first).astype(float)
        share[-1] = 1
        below += amount * share
    return np.diff(np.rint(below).astype(np.int64)).tolist()  # type: ignore[no-any-return]


def _throughput(logs: Sequence[LogFacts]) -> Document | None:
    """Records and bytes a second, by the records' own time; ``None`` where that stands still."""
    kept = [facts.history.buckets for facts in logs if facts.history.buckets]
    spans = _spans(kept)
    if not len(spans) or spans[:, 1].max() - spans[:, 0].min() < _TIME_BINS:
        return None
    rows = _written_by_time(kept)
    bin_s = (spans[:, 1].max() - spans[:, 0].min()) / _TIME_BINS / 1e6
    return {
        "until_us": rows["timestamp_us"],
        "records_per_s": [records / bin_s for records in rows["records"]],
        "bytes_per_s": [count / bin_s for count in rows["bytes"]],
    }


# -- the map of the log ---------------------------------------------------------------------------


def _segments(logs: Sequence[LogFacts]) -> list[Document]:
    """Return a bar for each segment with its share that a restart needs; of many logs, one for each
    log.
    """
    bars = [_bar(facts, use) for facts in logs for use in facts.history.segments]
    if len(logs) > 1:
        bars = [
            _together([_bar(f, use) for use in f.history.segments], f.log.name)
            for f in logs
            if f.history.segments
        ]
    while len(bars) > _BARS_MAX:
        pairs = [bars[place : place + 2] for place in range(0, len(bars), 2)]
        bars = [_together(pair, f"{pair[0]['name']} …") for pair in pairs]
    return bars


def _bar(facts: LogFacts, use: SegmentUse) -> Document:
    """Bytes are given to records in proportion."""
    newest = 0
    if facts.footprints is not None and use.extent_records:
        places = np.searchsorted(facts.footprints.offsets, [use.first_offset, use.end_offset])
        newest = min(use.extent_records, int((places[1] - places[0]) * facts.footprints.weight))
    live = use.extent_bytes * newest // max(1, use.extent_records)
    return {
        "name": f"segment {use.segment_id}",
        "footprint_bytes": live,
        "superseded_bytes": use.extent_bytes - live,
        "abandoned_bytes": use.abandoned_bytes,
        "other_bytes": use.bytes - use.extent_bytes - use.abandoned_bytes,
    }


def _together(bars: Sequence[Document], name: str) -> Document:
    sums = {key: sum(bar[key] for bar in bars) for key in bars[0] if key != "name"}
    return {"name": name, **sums}
