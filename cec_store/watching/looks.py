"""One look at a place: how far it is, and what a restart would cost now. Reads only.

Every figure comes from the code that `extent`, `consumers` and `report` use; only their totals are
left out, because they read all of a log.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from cec_store.connectors.spark.progress.history import spans_s
from cec_store.connectors.spark.progress.progress_file import read_progress
from cec_store.errors import CecError
from cec_store.inspector.measuring.consumer_lags import ConsumerLag, consumer_lags
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.measuring.overview import overview_of
from cec_store.inspector.measuring.place_extents import Overview
from cec_store.inspector.measuring.reference_consumers import place_consumers
from cec_store.inspector.places.places import Place, PlaceKind
from cec_store.state_logs.sizing import HEAP_BYTES_PER_KEY

_PROGRESS_AGE_US = 60_000_000
"""A progress file this much older than the newest commit says nothing of now."""


@dataclass(frozen=True)
class Look:
    """A place at one moment. ``None`` stands for what such a place does not have or say."""

    path: str
    kind: str
    taken_us: int
    """Time of the look: microseconds since 1970 UTC, as all moments here."""
    records: int | None = None
    """Records ever written, of every kind, over all logs."""
    batches: int | None = None
    """Batches ever committed: of a queue commits or frames, else versions of the state."""
    committed_us: int | None = None
    """Time of the newest commit; ``None`` of a queue without partitions, which has only rows'."""
    newest_us: int | None = None
    """Greatest timestamp of the newest rows of a queue."""
    batch_s: float | None = None
    """Seconds from the beginning of a checkpoint's newest batch to the commit of its state."""
    watermark_us: int | None = None
    """Watermark of the newest batch that Spark has planned."""
    open_windows: int | None = None
    extent_records: int | None = None
    extent_bytes: int | None = None
    restart_s: float | None = None
    """Seconds that a restart now would take, by :class:`LoadRates`."""
    memory_bytes: int | None = None
    """Memory of the state stores: as the progress file has it from Spark, or else an estimate by
    the rows of their extents and the measured size of a key."""
    memory_is_measured: bool = False
    input_rows_per_s: float | None = None
    """Rows of input a second in the newest batch, by the progress file, as the next two."""
    commit_s: float | None = None
    """Seconds that the mean state store took to commit the newest batch."""
    replica_lag_versions: int | None = None
    """Versions that warm replicas lack, over all; 0: all are ready to take over."""
    consumers: tuple[ConsumerLag, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons that something could not be read; empty at a sound place."""

    @property
    def is_sound(self) -> bool:
        return not self.problems


def look_at(place: Place, rates: LoadRates, cores: int) -> Look:
    """Return a look at a place; what cannot be read is told among its problems.

    Raises:
        CecError: a partitioned queue cannot be opened.
    """
    taken_us = time.time_ns() // 1000
    overview = overview_of(place, top=0, end_only=True)
    problems = [*overview.faults, *(e.log.named(e.damage) for e in overview.logs if e.damage)]
    consumers: Sequence[ConsumerLag] = ()
    try:
        consumers = consumer_lags(place_consumers(place))
    except CecError as error:
        problems.append(str(error))
    committed_us = _committed_us(overview)
    watermark_us = None
    if place.checkpoint is not None:
        try:
            batches = place.checkpoint.logged_batches()
            watermark_us = place.checkpoint.offsets(batches[-1]).watermark_us if batches else None
        except CecError as error:
            problems.append(str(error))
    states = [entry.state for entry in overview.logs if entry.state is not None]
    restart = overview.restart_cost(rates, cores)
    progress = _progress(place, committed_us or overview.timestamp_us, problems)
    memory_bytes = progress.pop("memory_bytes", None)
    return Look(
        **progress,
        path=place.path,
        kind=place.kind.value,
        taken_us=taken_us,
        records=_records(overview),
        batches=_batches(overview),
        committed_us=committed_us,
        newest_us=_newest_us(overview),
        batch_s=_batch_s(overview, committed_us),
        watermark_us=watermark_us,
        open_windows=sum(s.extent.open_windows for s in states) if states else None,
        extent_records=sum(s.extent.records for s in states) if states else None,
        extent_bytes=_extent_bytes(overview),
        restart_s=None if restart is None else restart.load_s + restart.replay_s,
        memory_bytes=_memory_bytes(overview) if memory_bytes is None else memory_bytes,
        memory_is_measured=memory_bytes is not None,
        consumers=tuple(consumers),
        problems=tuple(dict.fromkeys(problems)),
    )


def _progress(place: Place, batch_us: int | None, problems: list[str]) -> dict[str, Any]:
    """Return what the newest stretch of a checkpoint's progress file says, if it is new enough.

    ``batch_us`` is when the newest batch was committed, or began where none of its frames says.
    """
    if place.checkpoint is None:
        return {}
    try:
        stretches = read_progress(place.folder)
    except (CecError, ValueError) as error:
        problems.append(str(error))
        return {}
    if not stretches or (batch_us or 0) - stretches[-1].until_us > _PROGRESS_AGE_US:
        return {}
    newest = stretches[-1]
    commit_us = newest.commit_us
    return {
        "memory_bytes": newest.memory_bytes,
        "input_rows_per_s": newest.rows / spans_s(stretches)[-1],
        "commit_s": None if commit_us is None else commit_us / newest.batches / 1e6,
        "replica_lag_versions": newest.replica_lag_versions,
    }


def _records(overview: Overview) -> int | None:
    place = overview.place
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        return sum(place.reference.ends().values())
    reports = [entry.report for entry in overview.logs if entry.report is not None]
    ends = [report.last.end_offset for report in reports if report.last is not None]
    return sum(ends) if reports and not place.is_built_in else None


def _batches(overview: Overview) -> int | None:
    place = overview.place
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        return place.reference.state.number
    if place.has_versions:
        return overview.version
    report = overview.logs[0].report
    return None if report is None else report.last.seq + 1 if report.last is not None else 0


def _committed_us(overview: Overview) -> int | None:
    place = overview.place
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        written_us = pc.max(place.reference.state.live.column("written_us")).as_py()
        return None if written_us is None else int(written_us)
    return _last_us(overview) if place.has_versions else None


def _newest_us(overview: Overview) -> int | None:
    if overview.place.has_versions:
        return None
    reports = [entry.report for entry in overview.logs if entry.report is not None]
    times = [report.totals.last_timestamp_us for report in reports]
    known = [timestamp_us for timestamp_us in (*times, _last_us(overview)) if timestamp_us]
    return max(known, default=None)


def _last_us(overview: Overview) -> int | None:
    """Return the greatest timestamp of the newest frames; commits of state are their clock's."""
    reports = [entry.report for entry in overview.logs if entry.report is not None]
    lasts = [report.last for report in reports if report.last is not None]
    return max((last.max_timestamp_us for last in lasts if last.record_count), default=None)


def _batch_s(overview: Overview, committed_us: int | None) -> float | None:
    if overview.timestamp_us is None or committed_us is None:
        return None
    # The clocks of two machines may disagree.
    return max(0.0, (committed_us - overview.timestamp_us) / 1e6)


def _extent_bytes(overview: Overview) -> int | None:
    """Return the bytes that a restart reads, under any provider."""
    if overview.place.checkpoint is not None:
        return overview.restart_reads.bytes
    states = [entry.state for entry in overview.logs if entry.state is not None]
    return sum(state.extent.bytes for state in states) if states else None


def _memory_bytes(overview: Overview) -> int | None:
    """Return the heap of state stores: the rows that a load decodes, and the entries of keys."""
    states = [entry.state for entry in overview.logs if entry.state is not None]
    if not states or not overview.place.has_versions:
        return None
    return sum(s.raw_bytes + HEAP_BYTES_PER_KEY * s.extent.open_windows for s in states)
