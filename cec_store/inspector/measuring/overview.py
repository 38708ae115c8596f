"""Looks at the extents of all logs at a path, one log after the other, over damage and on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.errors import CecError, OutOfRange, StorageError, Unreadable
from cec_store.inspector.built_in.figures import figures_of
from cec_store.inspector.built_in.store_files import StoreFiles
from cec_store.inspector.damage.faults import is_note
from cec_store.inspector.measuring.crash_costs import (
    CALIBRATED,
    LoadRates,
    calibrate,
    fixed_seconds,
)
from cec_store.inspector.measuring.extent_history import WhatIf
from cec_store.inspector.measuring.extents import (
    extent_of,
    inspect_extent,
    reader_at,
)
from cec_store.inspector.measuring.last_restart import last_restart
from cec_store.inspector.measuring.place_extents import At, LogExtent, Overview
from cec_store.inspector.measuring.reference_totals import reference_extent
from cec_store.inspector.measuring.totals import BytesSinceLast, MoreBytes
from cec_store.inspector.measuring.what_if import TargetOutcome, outcomes_of, simulate
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.inspector.places.points import PointInTime, seq_at, version_at
from cec_store.ledger.commit_chain import chain_at


def at_point(place: Place, point: PointInTime | None) -> At:
    """Return the version, unique id or frame number of a point here; ``None`` for the newest.

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
    seq = seq_at(place, chain_at(place.logs[0].folder), point)
    if seq is None:
        raise OutOfRange(f"{place.path}: no record is there before {point.text}")
    return seq


def overview_of(
    place: Place,
    *,
    at: At = None,
    top: int = 10,
    counts: bool = False,
    end_only: bool = False,
    targets: Sequence[WhatIf] = (),
    progress: Callable[[Log, MoreBytes], None] | None = None,
) -> Overview:
    """Looks at one log after the other; one that cannot be read does not stop the others.

    ``at`` as :func:`at_point` gives it. ``end_only`` leaves out totals and the last restart, for
    looks that are repeated. ``progress`` is called with bytes read of a log.

    Raises:
        OutOfRange: the one log there is does not have what ``at`` names.
        ValueError: targets that such logs cannot have.
    """
    place.require_open()
    look = _Look(place, at, top, counts, end_only, targets)
    timestamp_us = look.begin_batch() if place.checkpoint is not None else None
    logs = []
    for log in place.logs:
        report = None if progress is None else (lambda read, log=log: progress(log, read))
        logs.append(look.at_log(log, report))
    faults, notes = tuple(look.faults), tuple(look.notes)
    version = look.at if place.checkpoint is not None and isinstance(look.at, int) else None
    if place.kind is PlaceKind.STATE_STORE and logs[0].report is not None:
        version = logs[0].report.version
    restart = None if end_only else last_restart(place, version)
    return Overview(place, version, timestamp_us, faults, tuple(logs), notes, restart)


@dataclass
class _Look:
    """One pass over the logs of a place, with the problems that it met."""

    place: Place
    at: At
    top: int
    counts: bool
    end_only: bool
    targets: Sequence[WhatIf]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def _add_fault(self, error: Exception) -> None:
        if isinstance(error, Unreadable):  # who may read it learns more
            raise error
        known = self.notes if is_note(error) else self.faults
        if str(error) not in known:
            known.append(str(error))

    def begin_batch(self) -> int | None:
        """Return when the batch began that Spark's files name, in microseconds since 1970.

        ``None`` where that is not known. Sets :attr:`at` to the batch's version.
        """
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

    def at_log(self, log: Log, progress: BytesSinceLast | None) -> LogExtent:
        if self.place.kind is PlaceKind.PARTITIONED_QUEUE:
            number = int(log.partition or 0)
            return LogExtent(log, reference_extent(self.place, number, self.counts), "")
        if self.place.is_built_in:
            return self._at_built_in(log)
        try:
            at = self._named(log)
            report = inspect_extent(
                log.folder, at=at, top=self.top, counts=self.counts, end_only=self.end_only,
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
                simulation = simulate(*reader_at(log.folder, at), self.targets, progress)
                outcomes = outcomes_of(simulation)
            except CecError as error:
                damage = damage or str(error)
        return LogExtent(log, report, damage, outcomes)

    def _at_built_in(self, log: Log) -> LogExtent:
        at = self._named(log)
        version = self.at if isinstance(self.at, int) else None
        try:
            files = StoreFiles(log.folder)
            figures = figures_of(files)
        except (CecError, FileNotFoundError) as error:
            return LogExtent(log, None, str(error))
        try:
            figures = figures.restarted(files, version, at if isinstance(at, str) else None)
        except (CecError, FileNotFoundError) as error:
            return LogExtent(log, None, str(error), store=figures)
        return LogExtent(log, None, "", store=figures)

    def _named(self, log: Log) -> At:
        """Return the log's name of the version; its number where Spark's file of ids is damaged."""
        try:
            return self.place.at(log, self.at)
        except OutOfRange:
            pass
        except CecError as error:
            self._add_fault(error)
        return self.at

    def _decoder(self, log: Log) -> RowDecoder | None:
        try:
            return log.row_decoder
        except (CecError, StorageError) as error:
            self._add_fault(error)
            return None


def calibrated(overview: Overview, known: LoadRates) -> LoadRates | None:
    """Rates timed on the largest extent here; of a small one the fixed cost alone, else ``known``.

    ``None`` where no log has an extent.

    Raises:
        CorruptLog, OutOfRange: it cannot be read.
    """
    sized = [(entry.state.raw_bytes, n) for n, entry in enumerate(overview.logs) if entry.state]
    if not sized:
        return None
    chosen = overview.logs[max(sized)[1]]
    at = chosen.report.version if chosen.report is not None else None
    log_reader, last = reader_at(chosen.log.folder, at)
    rates = calibrate(log_reader, extent_of(log_reader, last)) or known
    fixed_s = fixed_seconds(lambda: reader_at(chosen.log.folder, at))
    return replace(rates, fixed_s=fixed_s, fixed_source=CALIBRATED)
