"""The extents of all logs at a path: each by itself, all together, and their oldest windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cec_store.checkpoints.policy import Targets
from cec_store.connectors.spark.checkpoint.state_rows import StateDecoder
from cec_store.errors import CecError, OutOfRange, StorageError
from cec_store.inspector.measuring.crash_costs import LoadRates, calibrate
from cec_store.inspector.measuring.extent_history import FRAME_COST_RECORDS, WhatIf
from cec_store.inspector.measuring.extents import (
    ExtentReport,
    OpenWindow,
    extent_of,
    inspect_extent,
    reader_at,
)
from cec_store.inspector.measuring.what_if import TargetOutcome, outcomes_of, simulate, together
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.inspector.places.points import PointInTime, seq_at, version_at
from cec_store.log.chain import Chain

At = int | str | None
"""A version, or its unique id; of a queue the number of a frame; ``None``: as it is now."""


@dataclass(frozen=True)
class LogExtent:
    """One log of a place."""

    log: Log
    report: ExtentReport | None
    """``None`` where nothing of it can be read."""
    damage: str
    """Why not all could be read; empty in a sound log."""
    what_if: tuple[TargetOutcome, ...] = ()
    """The recorded history first; empty where it was not asked for, or cannot be gone through."""

    @property
    def cost_records(self) -> int | None:
        """What the extent costs by the rule that its writer keeps, in records."""
        if self.report is None or self.report.state is None:
            return None
        extent = self.report.state.extent
        is_queue = self.report.version is None
        return extent.records + (0 if is_queue else FRAME_COST_RECORDS * extent.frames)

    @property
    def default_target(self) -> int | None:
        """What that may be if nobody has set a target: no log says whether somebody has."""
        if self.report is None or self.report.state is None:
            return None
        n = self.report.state.extent.open_windows
        if self.report.version is not None:
            return WhatIf(extent_factor=2.0).cost_max(n)
        return int(Targets().extent_target(n))


@dataclass(frozen=True)
class Overview:
    """All logs of a place at one moment."""

    place: Place
    version: int | None
    """Of a checkpoint or state store."""
    timestamp_us: int | None
    """Of a checkpoint: when the batch that made the version began."""
    faults: tuple[str, ...]
    """Of Spark's own files, and what keeps a log's keys from being decoded."""
    logs: tuple[LogExtent, ...]

    @property
    def is_sound(self) -> bool:
        return not self.faults and not any(each.damage for each in self.logs)

    def totals(self, rates: LoadRates) -> dict[str, Any]:
        """Over all logs that could be read."""
        reports = [each.report for each in self.logs if each.report is not None]
        states = [(r.state, r.version is None) for r in reports if r.state is not None]
        costs = [state.cost(rates, has_input=has_input) for state, has_input in states]
        return {
            "logs": len(self.logs),
            "damaged_logs": sum(bool(each.damage) for each in self.logs),
            "segments": sum(report.totals.segments for report in reports),
            "frames": sum(report.totals.frames for report in reports),
            "bytes": sum(report.totals.bytes for report in reports),
            "records": sum(report.totals.records for report in reports),
            "open_windows": sum(state.extent.open_windows for state, _ in states),
            "extent_records": sum(state.extent.records for state, _ in states),
            "extent_frames": sum(state.extent.frames for state, _ in states),
            "extent_bytes": sum(state.extent.bytes for state, _ in states),
            "extent_segments": sum(state.extent.segments for state, _ in states),
            "replay_rows": sum(state.replay_rows for state, has_input in states if has_input),
            "load_s": sum(cost.load_s for cost in costs),
            "replay_s": sum(cost.replay_s for cost in costs),
        }

    def what_if(self) -> tuple[TargetOutcome, ...]:
        """All logs together: sums, and the sum of what each was at most."""
        return together([log.what_if for log in self.logs if log.what_if])

    def oldest_windows(self, top: int) -> list[tuple[LogExtent, OpenWindow]]:
        """Over all logs, by the time of their footprints."""
        windows = [
            (each, window)
            for each in self.logs
            if each.report is not None and each.report.state is not None
            for window in each.report.state.oldest_windows
        ]
        windows.sort(key=lambda pair: pair[1].timestamp_us)  # stable: a log's own order stays
        return windows[:top]


def at_point(place: Place, point: PointInTime | None) -> At:
    """What a point means here; ``None`` for the newest.

    Raises:
        OutOfRange: it is not there, or nothing is kept of that moment.
        ValueError: such a place has no such points.
    """
    if point is None:
        return None
    if place.has_versions:
        return version_at(place, point)
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        raise ValueError(f"{place.path}: no operator writes its partitions, so no moment matters")
    seq = seq_at(place, Chain(place.logs[0].folder), point)
    if seq is None:
        raise OutOfRange(f"{place.path}: no record is there before {point.text}")
    return seq


def overview_of(
    place: Place,
    *,
    at: At = None,
    top: int = 10,
    counts: bool = False,
    targets: Sequence[WhatIf] = (),
    progress: Callable[[Log, int], None] | None = None,
) -> Overview:
    """Looks at one log after the other; one that cannot be read does not stop the others.

    ``at`` as :func:`at_point` gives it. ``progress`` is called with bytes read of a log.

    Raises:
        OutOfRange: the one log there is does not have what ``at`` names.
        ValueError: targets that such logs cannot have.
    """
    faults: list[str] = []
    timestamp_us = None
    if place.checkpoint is not None:
        at, timestamp_us = _batch_of(place, at, faults)
    logs = []
    for log in place.logs:
        report = None if progress is None else (lambda read, log=log: progress(log, read))
        logs.append(_look(place, log, at, top, counts, targets, report, faults))
    version = at if place.checkpoint is not None and isinstance(at, int) else None
    if place.kind is PlaceKind.STATE_STORE and logs[0].report is not None:
        version = logs[0].report.version
    return Overview(place, version, timestamp_us, tuple(faults), tuple(logs))


def _batch_of(place: Place, at: At, faults: list[str]) -> tuple[At, int | None]:
    """The version that Spark's files name, and when its batch began."""
    checkpoint = place.checkpoint
    assert checkpoint is not None
    try:
        _ = checkpoint.query_id
    except CecError as error:
        faults.append(str(error))
    try:
        at = place.newest_version() if at is None else at
        if isinstance(at, int):
            return at, checkpoint.offsets(at - 1).timestamp_us
    except OutOfRange:
        pass  # no batch is committed, or no longer kept: the newest of each log is what there is
    except CecError as error:
        faults.append(str(error))
    return at, None


def _look(
    place: Place,
    log: Log,
    at: At,
    top: int,
    counts: bool,
    targets: Sequence[WhatIf],
    progress: Callable[[int], None] | None,
    faults: list[str],
) -> LogExtent:
    try:
        here = _named(place, log, at, faults)
        report = inspect_extent(
            log.folder, at=here, top=top, counts=counts,
            decoder=_decoder(log, faults), progress=progress,
        )  # fmt: skip
    except (CecError, FileNotFoundError) as error:
        if len(place.logs) == 1 and isinstance(error, OutOfRange) and at is not None:
            raise
        return LogExtent(log, None, str(error))
    damage = report.damage
    outcomes: tuple[TargetOutcome, ...] = ()
    if targets and report.state is not None:
        try:
            outcomes = outcomes_of(simulate(*reader_at(log.folder, here), targets, progress))
        except CecError as error:
            damage = damage or str(error)
    return LogExtent(log, report, damage, outcomes)


def _named(place: Place, log: Log, at: At, faults: list[str]) -> At:
    """How the log calls the version; by its number where Spark's file that has ids is damaged."""
    if place.checkpoint is None or not isinstance(at, int):
        return at
    try:
        return place.at(log, at)
    except OutOfRange:
        return at
    except CecError as error:
        if str(error) not in faults:
            faults.append(str(error))
        return at


def _decoder(log: Log, faults: list[str]) -> StateDecoder | None:
    try:
        return log.decoder
    except (CecError, StorageError) as error:
        if str(error) not in faults:
            faults.append(str(error))
        return None


def calibrated(overview: Overview) -> LoadRates | None:
    """Rates timed on the largest extent here; ``None`` where none is large enough.

    Raises:
        CorruptLog, OutOfRange: it cannot be read.
    """
    sized = [
        (each.report.state.raw_bytes, index)
        for index, each in enumerate(overview.logs)
        if each.report is not None and each.report.state is not None
    ]
    if not sized:
        return None
    chosen = overview.logs[max(sized)[1]]
    at = chosen.report.version if chosen.report is not None else None
    log_reader, last = reader_at(chosen.log.folder, at)
    return calibrate(log_reader, extent_of(log_reader, last))
