"""The extents of all logs at a path: each by itself, all together, and their oldest windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cec_store.checkpoints.policy import Targets
from cec_store.connectors.spark.checkpoint.state_rows import StateDecoder
from cec_store.errors import CecError, OutOfRange, StorageError
from cec_store.inspector.measuring.crash_costs import CrashCost, LoadRates, calibrate
from cec_store.inspector.measuring.extent_history import FRAME_COST_RECORDS, WhatIf
from cec_store.inspector.measuring.extents import (
    ExtentReport,
    OpenWindow,
    OperatorState,
    extent_of,
    inspect_extent,
    reader_at,
)
from cec_store.inspector.measuring.reference_totals import reference_extent
from cec_store.inspector.measuring.totals import sums
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
    def state(self) -> OperatorState | None:
        """``None`` also where no operator writes the log."""
        return None if self.report is None else self.report.state

    @property
    def has_input(self) -> bool:
        """Whether a restart replays input: a version of a state store needs none."""
        return self.report is not None and self.report.version is None

    @property
    def cost_records(self) -> int:
        """What its extent costs by the rule that its writer keeps, in records."""
        assert self.state is not None
        extent = self.state.extent
        return extent.records + (0 if self.has_input else FRAME_COST_RECORDS * extent.frames)

    @property
    def default_target(self) -> int:
        """What that may be if nobody has set a target: no log says whether somebody has."""
        assert self.state is not None
        n = self.state.extent.open_windows
        if self.has_input:
            return int(Targets().extent_target(n))
        return WhatIf(extent_factor=2.0).cost_max(n)

    def crash_cost(self, rates: LoadRates) -> CrashCost:
        """What a crash now would cost; only where there is a state."""
        assert self.state is not None
        return self.state.cost(rates, has_input=self.has_input)


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
        totals = [each.report.totals for each in self.logs if each.report is not None]
        states = [each.state for each in self.logs if each.state is not None]
        replayed = [each.state for each in self.logs if each.state is not None and each.has_input]
        costs = [each.crash_cost(rates) for each in self.logs if each.state is not None]
        extents = [state.extent for state in states]
        extent = sums(extents, "records", "frames", "bytes", "segments")
        return {
            "logs": len(self.logs),
            "damaged_logs": sum(bool(each.damage) for each in self.logs),
            **sums(totals, "segments", "frames", "bytes", "records"),
            **sums(extents, "open_windows"),
            **{f"extent_{name}": total for name, total in extent.items()},
            **sums(replayed, "replay_rows"),
            **sums(costs, "load_s", "replay_s"),
        }

    def what_if(self) -> tuple[TargetOutcome, ...]:
        """All logs together: sums, and the sum of what each was at most."""
        return together([log.what_if for log in self.logs if log.what_if])

    def oldest_windows(self, top: int) -> list[tuple[LogExtent, OpenWindow]]:
        """Over all logs, by the time of their footprints."""
        windows = [
            (each, window)
            for each in self.logs
            if each.state is not None
            for window in each.state.oldest_windows
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
    if place.kind in (PlaceKind.PARTITIONED_QUEUE, PlaceKind.REFERENCE_QUEUE):
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
    place.require_open()
    look = _Look(place, at, top, counts, targets)
    timestamp_us = look.begin_batch() if place.checkpoint is not None else None
    logs = []
    for log in place.logs:
        report = None if progress is None else (lambda read, log=log: progress(log, read))
        logs.append(look.at_log(log, report))
    version = look.at if place.checkpoint is not None and isinstance(look.at, int) else None
    if place.kind is PlaceKind.STATE_STORE and logs[0].report is not None:
        version = logs[0].report.version
    return Overview(place, version, timestamp_us, tuple(look.faults), tuple(logs))


@dataclass
class _Look:
    """What is asked of each log of a place, and what kept that from being answered in full."""

    place: Place
    at: At
    top: int
    counts: bool
    targets: Sequence[WhatIf]
    faults: list[str] = field(default_factory=list)

    def _add_fault(self, error: Exception) -> None:
        if str(error) not in self.faults:
            self.faults.append(str(error))

    def begin_batch(self) -> int | None:
        """When the batch began that Spark's files name; sets :attr:`at` to its version."""
        checkpoint = self.place.checkpoint
        assert checkpoint is not None
        try:
            _ = checkpoint.query_id
        except CecError as error:
            self._add_fault(error)
        try:
            self.at = self.place.newest_version() if self.at is None else self.at
            if isinstance(self.at, int):
                return checkpoint.offsets(self.at - 1).timestamp_us
        except OutOfRange:
            pass  # no batch is committed, or no longer kept: the newest of each log is looked at
        except CecError as error:
            self._add_fault(error)
        return None

    def at_log(self, log: Log, progress: Callable[[int], None] | None) -> LogExtent:
        if self.place.kind is PlaceKind.REFERENCE_QUEUE:
            number = int(log.partition or 0)
            return LogExtent(log, reference_extent(self.place, number, self.counts), "")
        try:
            at = self._named(log)
            report = inspect_extent(
                log.folder, at=at, top=self.top, counts=self.counts,
                decoder=self._decoder(log), progress=progress,
            )  # fmt: skip
        except (CecError, FileNotFoundError) as error:
            is_alone = len(self.place.logs) == 1
            if is_alone and isinstance(error, OutOfRange) and self.at is not None:
                raise
            return LogExtent(log, None, str(error))
        damage = report.damage
        outcomes: tuple[TargetOutcome, ...] = ()
        if self.targets and report.state is not None:
            try:
                found = simulate(*reader_at(log.folder, at), self.targets, progress)
                outcomes = outcomes_of(found)
            except CecError as error:
                damage = damage or str(error)
        return LogExtent(log, report, damage, outcomes)

    def _named(self, log: Log) -> At:
        """How the log calls the version; its number where Spark's file that has ids is damaged."""
        try:
            return self.place.at(log, self.at)
        except OutOfRange:
            pass
        except CecError as error:
            self._add_fault(error)
        return self.at

    def _decoder(self, log: Log) -> StateDecoder | None:
        try:
            return log.decoder
        except (CecError, StorageError) as error:
            self._add_fault(error)
            return None


def calibrated(overview: Overview) -> LoadRates | None:
    """Rates timed on the largest extent here; ``None`` where none is large enough.

    Raises:
        CorruptLog, OutOfRange: it cannot be read.
    """
    sized = [(each.state.raw_bytes, n) for n, each in enumerate(overview.logs) if each.state]
    if not sized:
        return None
    chosen = overview.logs[max(sized)[1]]
    at = chosen.report.version if chosen.report is not None else None
    log_reader, last = reader_at(chosen.log.folder, at)
    return calibrate(log_reader, extent_of(log_reader, last))
