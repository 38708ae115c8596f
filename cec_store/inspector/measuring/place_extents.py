"""The extents of all logs at a path, as values: each by itself, and all together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cec_store.checkpoints.policy import Targets
from cec_store.inspector.built_in.figures import StoreFigures
from cec_store.inspector.measuring.crash_costs import (
    CrashCost,
    LoadRates,
    LogLoad,
    RestartCost,
    restart_cost,
)
from cec_store.inspector.measuring.extent_history import FRAME_COST_RECORDS, WhatIf
from cec_store.inspector.measuring.extents import ExtentReport, OpenWindow, OperatorState
from cec_store.inspector.measuring.last_restart import LastRestart
from cec_store.inspector.measuring.totals import sums
from cec_store.inspector.measuring.what_if import TargetOutcome, together
from cec_store.inspector.places.places import Log, Place

At = int | str | None
"""A version, or its unique id; of a queue the number of a frame; ``None``: as it is now."""


@dataclass(frozen=True)
class LogExtent:
    """One log of a place."""

    log: Log
    report: ExtentReport | None
    """``None`` where nothing of it can be read."""
    damage: str
    """Reason that not all could be read; empty in a sound log."""
    what_if: tuple[TargetOutcome, ...] = ()
    """The recorded history first; empty where it was not asked for, or cannot be gone through."""
    store: StoreFigures | None = None
    """Figures of the store, where one of Spark's own providers keeps it."""

    @property
    def state(self) -> OperatorState | None:
        """``None`` also where no operator writes the log."""
        return None if self.report is None else self.report.state

    @property
    def has_input(self) -> bool:
        """True if a restart replays input: a version of a state store needs none."""
        return self.report is not None and self.report.version is None

    @property
    def cost_records(self) -> int:
        """Cost of the extent in records, by the rule that its writer keeps."""
        assert self.state is not None
        extent = self.state.extent
        return extent.records + (0 if self.has_input else FRAME_COST_RECORDS * extent.frames)

    @property
    def default_target(self) -> int:
        """Largest extent by the default target, in records; no log says if a target was set."""
        assert self.state is not None
        n = self.state.extent.open_windows
        if self.has_input:
            return int(Targets().extent_target(n))
        return WhatIf(extent_factor=2.0).cost_max(n)

    @property
    def load(self) -> LogLoad | None:
        """Load of a restart; ``None`` where there is no state, or it is out of reach."""
        if self.state is None:
            return None
        rows = self.state.replay_rows if self.has_input else 0
        return replace(
            self.state.load,
            operator=self.log.operator,
            partition=self.log.partition,
            replay_rows=rows,
        )

    def crash_cost(self, rates: LoadRates) -> CrashCost:
        """Return the seconds that a crash now would cost; the log must have a state."""
        assert self.state is not None
        return self.state.cost(rates, has_input=self.has_input)


@dataclass(frozen=True)
class RestartReads:
    """Files and bytes that a restart reads of all stores together, under any provider."""

    keys: int | None
    """Keys in the loaded version; ``None`` where not every store says how many it has."""
    files_there: int
    """Segments of our logs."""
    bytes_there: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Overview:
    """All logs of a place at one moment."""

    place: Place
    version: int | None
    """Version of a checkpoint or state store."""
    timestamp_us: int | None
    """Time at which the batch that made a checkpoint's version began."""
    faults: tuple[str, ...]
    """Faults in Spark's own files, and problems that keep a log's keys from being decoded."""
    logs: tuple[LogExtent, ...]
    notes: tuple[str, ...] = ()
    """Reasons that keys of sound logs are shown as they are stored."""
    last_restart: LastRestart | None = None
    """Last restart of a checkpoint whose logs show one."""

    @property
    def is_sound(self) -> bool:
        """True if neither a log nor Spark's own files are damaged."""
        return not self.faults and not any(log.damage for log in self.logs)

    def restart_cost(self, rates: LoadRates, cores: int) -> RestartCost | None:
        """Return the seconds of a restart of all logs; ``None`` where it cannot succeed.

        That is so where no log has a state, where damage hides one, or where Spark's own files are
        faulty.
        """
        loads = [log.load for log in self.logs if log.load is not None]
        is_lost = any(log.damage and log.state is None for log in self.logs)
        if not loads or is_lost or self.faults:
            return None
        return restart_cost(loads, rates, cores)

    def totals(self, rates: LoadRates, cores: int) -> dict[str, Any]:
        """Return sums over all logs that could be read."""
        totals = [log.report.totals for log in self.logs if log.report is not None]
        states = [log.state for log in self.logs if log.state is not None]
        replayed = [log.state for log in self.logs if log.state is not None and log.has_input]
        cost = self.restart_cost(rates, cores)
        extents = [state.extent for state in states]
        extent = sums(extents, "records", "frames", "bytes", "segments")
        return {
            "logs": len(self.logs),
            "damaged_logs": sum(bool(log.damage) for log in self.logs),
            **sums(totals, "segments", "frames", "bytes", "records"),
            **sums(extents, "open_windows"),
            **{f"extent_{name}": total for name, total in extent.items()},
            **sums(replayed, "replay_rows"),
            "load_s": None if cost is None else cost.load_s,
            "replay_s": None if cost is None else cost.replay_s,
            "cores": None if cost is None else cost.cores,
        }

    @property
    def restart_reads(self) -> RestartReads:
        """Reads of a checkpoint's restart, over all stores that could be read."""
        stores = [entry.store for entry in self.logs if entry.store is not None]
        loads = [entry.restart for entry in stores if entry.restart is not None]
        totals = [entry.report.totals for entry in self.logs if entry.report is not None]
        extents = [entry.state.extent for entry in self.logs if entry.state is not None]
        keys = [load.keys if not load.change_files else None for load in loads]
        known = [count for count in keys if count is not None] + [e.open_windows for e in extents]
        return RestartReads(
            keys=sum(known) if len(known) == len(self.logs) else None,
            files_there=sum(s.files for s in stores) + sum(t.segments for t in totals),
            bytes_there=sum(s.bytes for s in stores) + sum(t.bytes for t in totals),
            files=sum(load.files for load in loads) + sum(e.segments for e in extents),
            bytes=sum(load.bytes for load in loads) + sum(e.bytes for e in extents),
        )

    def what_if(self) -> tuple[TargetOutcome, ...]:
        """All logs together: sums, and the sum of what each was at most."""
        return together([log.what_if for log in self.logs if log.what_if])

    def oldest_windows(self, top: int) -> list[tuple[LogExtent, OpenWindow]]:
        """Return the oldest windows of all logs, by the time of their footprints."""
        windows = [
            (log, window)
            for log in self.logs
            if log.state is not None
            for window in log.state.oldest_windows
        ]
        windows.sort(key=lambda pair: pair[1].timestamp_us)  # stable: a log's own order stays
        return windows[:top]
