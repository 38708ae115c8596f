"""Duration of the first batch after a query's last restart, by its state logs and offset log.

Nothing records how long loads took. But a driver that starts writes segments of its own, each
commit has its time, and Spark notes when a batch began. Reads frame headers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cec_store.errors import CecError
from cec_store.inspector.places.places import Log, Place
from cec_store.state_logs.segments import MERGED
from cec_store.state_logs.tree import StateTree

_LOGS_MAX = 16
"""A restart begins segments in every log, so that some of them tell."""
_LATER_MAX = 20


@dataclass(frozen=True)
class LastRestart:
    """The first batch that was committed to new segments in all logs."""

    batch: int
    committed_us: int
    """Time at which its last store was committed: microseconds since 1970 UTC."""
    first_batch_s: float
    """Seconds from its beginning to that time: its load and its work, and the outage if it began
    before."""
    later_batch_s: float | None
    """The median of the batches since; ``None`` where there is none."""


def last_restart(place: Place, version: int | None) -> LastRestart | None:
    """Return the last restart up to a version of a checkpoint.

    ``None`` where the logs do not show one: the first batch was no restart, segments were merged,
    or damage hides them.
    """
    checkpoint = place.checkpoint
    if checkpoint is None or place.is_built_in or version is None:
        return None
    try:
        logs = [_commits_of(log, version) for log in place.logs[:_LOGS_MAX]]
        # A full segment of a lone log, or an object for each commit, tells nothing.
        if len(logs) < 2 or not any(log.has_long_segments for log in logs):
            return None
        restarts = set.intersection(*(log.first_versions for log in logs))
        # Before its oldest version a log may have been trimmed, or the query may have begun there.
        restarts.discard(max((min(log.committed_us, default=0) for log in logs), default=0))
        if not restarts:
            return None
        first = max(restarts)
        began_us = {v: checkpoint.offsets(v - 1).timestamp_us for v in _shown(first, version)}
    except (CecError, FileNotFoundError):
        return None
    ends_us = {v: max(log.committed_us.get(v, 0) for log in logs) for v in began_us}
    took_s = {v: (ends_us[v] - us) / 1e6 for v, us in began_us.items() if ends_us[v] >= us}
    if first not in took_s:  # the clocks of two machines disagree
        return None
    later = [seconds for v, seconds in took_s.items() if v > first]
    return LastRestart(
        batch=first - 1,
        committed_us=ends_us[first],
        first_batch_s=took_s[first],
        later_batch_s=median(later) if later else None,
    )


def _shown(first: int, version: int) -> Sequence[int]:
    return range(first, min(version, first + _LATER_MAX) + 1)


@dataclass(frozen=True)
class _Commits:
    """The versions of one log: when each was committed, and which of them began a segment."""

    committed_us: dict[int, int]
    first_versions: set[int]
    has_long_segments: bool
    """A segment has several versions, as where commits are appended to it."""


def _commits_of(log: Log, version: int) -> _Commits:
    first_versions: set[int] = set()
    committed_us: dict[int, int] = {}
    has_long_segments = False
    tree = StateTree(log.folder)
    for segment_id in tree.ids:
        headers = [frame.header for frame in tree.segment(segment_id).frames]
        counted = [header for header in headers if header.is_counted]
        versions = [header.input_upto for header in counted if header.input_upto <= version]
        if versions and not segment_id & MERGED:
            first_versions.add(versions[0])
            has_long_segments |= versions[-1] > versions[0]
        for header in headers:
            if header.record_count and header.input_upto <= version:
                known = committed_us.get(header.input_upto, 0)
                committed_us[header.input_upto] = max(known, header.max_timestamp_us)
    return _Commits(committed_us, first_versions, has_long_segments)
