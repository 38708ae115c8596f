"""Simulate another extent target: apply the write side's policy to the recorded history.

The footprints that operators and queries asked for stay as recorded, frame by frame. CHECKs that
the policy wrote are replaced by those that it would have written, so that a target that held
throughout reproduces the recorded history. A simulation does not know budgets of time, which cut
some CHECKs short, nor steps of an operator that left no record, where a U may have asked for some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa

from cec_store.errors import CorruptLog, RecoveryError
from cec_store.format.columns import Ints, flags_of
from cec_store.format.records import closes, kinds_of, of_windows
from cec_store.format.schema import KEY, STATE, RecordKind
from cec_store.inspector.decoding.keys import key_columns, key_encoder
from cec_store.inspector.measuring.extent_history import (
    CommitSummary,
    ExtentHistory,
    RecordedExtent,
    SimulatedQueueExtent,
    SimulatedStoreExtent,
    WhatIf,
)
from cec_store.inspector.measuring.totals import BytesSinceLast, MoreBytes
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.operators.keys.words import grown
from cec_store.state_logs.versions import VersionReader


@dataclass(frozen=True)
class Simulation:
    """The recorded extent history of a log next to those that other targets would have given."""

    others: Ints
    """Records of each commit that no policy wrote."""
    recorded: ExtentHistory
    targets: tuple[tuple[WhatIf, ExtentHistory], ...]


@dataclass(frozen=True)
class TargetOutcome:
    """Outcome of a log's history, as recorded or as simulated with a target."""

    target: str
    """``recorded``, or as in ``--what-if``."""
    extent_records: int
    """q at the end."""
    extent_max: int
    replay_rows: int
    """u at the end."""
    checks: int
    """CHECKs by the policy, over the whole history."""
    other_records: int
    """Records that no policy wrote."""

    @property
    def check_overhead(self) -> float:
        """CHECKs for each other record."""
        return self.checks / max(1, self.other_records)


def outcomes_of(simulation: Simulation) -> tuple[TargetOutcome, ...]:
    """The recorded history, and each target's; nothing where no commit was simulated."""
    if not len(simulation.others):
        return ()

    def outcome(name: str, history: ExtentHistory) -> TargetOutcome:
        return TargetOutcome(
            target=name,
            extent_records=int(history.extent_records[-1]),
            extent_max=int(history.extent_records.max()),
            replay_rows=int(history.replay_rows[-1]),
            checks=int(history.checks.sum()),
            other_records=int(simulation.others.sum()),
        )

    return (
        outcome("recorded", simulation.recorded),
        *(outcome(str(target), history) for target, history in simulation.targets),
    )


def together(logs: Sequence[Sequence[TargetOutcome]]) -> tuple[TargetOutcome, ...]:
    """Return the sums over many logs for each target, also of the largest extents."""
    return tuple(
        TargetOutcome(
            same[0].target, *(sum(row) for row in zip(*(astuple(o)[1:] for o in same), strict=True))
        )
        for same in zip(*logs, strict=True)
    )


def simulate(
    log_reader: LogReader,
    last: Frame | None,
    targets: Sequence[WhatIf],
    progress: BytesSinceLast | None = None,
) -> Simulation:
    """Goes through all records up to ``last`` once, with every target at the same time.

    Begins with the oldest frame that is kept, or where something is trimmed with the first one
    whose windows can all be seen. Holds one commit, some 100 bytes for each open window, and 50 for
    each of them and each target.

    Raises:
        RecoveryError: written without checkpoints.
        OutOfRange: not one frame can be begun with.
        CorruptLog: damage on the way.
        ValueError: a target that such a log cannot have.
    """
    is_state = isinstance(log_reader, VersionReader)
    if is_state and any(target.replay_rows is not None for target in targets):
        raise ValueError("a state store replays no input: give it a target Q alone")
    simulator = _Simulator(
        log_reader,
        [SimulatedStoreExtent(t) if is_state else SimulatedQueueExtent(t) for t in targets],
    )
    for frames in _commits(log_reader, last):
        simulator.take(frames)
        if progress is not None:
            progress(MoreBytes(sum(frame.header.frame_bytes for frame in frames)))
    return simulator.simulation(targets)


def _commits(log_reader: LogReader, last: Frame | None) -> Iterator[list[Frame]]:
    """The frames of each commit up to a frame; of a queue those of each step."""
    pending: list[Frame] = []
    for frame in log_reader.frames() if last is not None else ():
        if last is not None and frame.header.seq > last.header.seq:
            return
        pending.append(frame)
        if frame.header.is_counted:
            yield pending
            pending = []
        elif not frame.header.continues and not isinstance(log_reader, VersionReader):
            raise RecoveryError(
                f"{log_reader.folder.path}: frame {frame.header.seq} was written "
                "without checkpoints"
            )


class _Simulator:
    """Feeds each commit of the log to the recorded extent and to the simulated ones."""

    def __init__(self, log_reader: LogReader, simulated: Sequence[RecordedExtent]) -> None:
        self._log_reader = log_reader
        self._is_state = isinstance(log_reader, VersionReader)
        self._keys = key_encoder(log_reader.schema())
        self._is_open = np.zeros(1024, np.bool_)
        self._first_offset = log_reader.first_offset()
        self._recorded = RecordedExtent(end=self._first_offset)
        self._simulated = simulated
        self._commits: list[tuple[int, int]] = []
        self._begun_at: int | None = 0 if self._first_offset == 0 else None
        """The first commit that all have taken; None: windows are open that cannot be seen."""
        self._others: list[int] = []

    def take(self, frames: list[Frame]) -> None:
        """The next commit."""
        header = frames[-1].header
        commit = self._commit(frames)
        self._recorded.take(commit)
        if self._begun_at is not None:
            for extent in self._simulated:
                extent.take(commit)
            self._check(frames[-1], commit)
        self._others.append(commit.others)
        if self._begun_at is None:
            self._commits.append((frames[0].header.first_offset, len(frames)))
            if header.end_offset - header.extent_records >= self._first_offset:
                self._begin(len(self._others))
        if self._keys.wants_trim(header.open_windows):
            self._keys.trim(np.flatnonzero(self._is_open))

    def _begin(self, first: int) -> None:
        self._begun_at = first
        windows = self._recorded.windows.oldest(self._recorded.windows.open_windows)
        for extent in self._simulated:
            extent.begin(windows, self._recorded.end, self._commits)
        self._commits = []

    def _check(self, frame: Frame, commit: CommitSummary) -> None:
        """Raise CorruptLog unless the records taken apart add up to the frame's N and q."""
        stated = (frame.header.open_windows, frame.header.extent_records)
        counted = (self._recorded.windows.open_windows, self._recorded.figures[-1][0])
        if stated != counted:
            path = self._log_reader.reader(frame.address.segment_id).path
            raise CorruptLog(
                path, frame.address.byte,
                f"the frame counts N = {stated[0]} and q = {stated[1]}, its records say {counted}",
            )  # fmt: skip

    def _commit(self, frames: list[Frame]) -> CommitSummary:
        header = frames[-1].header
        names = [name for name in (KEY, STATE) if name in self._log_reader.schema().arrow.names]
        parts = [self._log_reader.records(frame) for frame in frames]
        kinds = np.concatenate([kinds_of(part) for part in parts])
        is_renewed = kinds == RecordKind.CHECK.value
        slots = np.full(len(kinds), -1, np.int64)
        if KEY in names:
            rows = np.flatnonzero(of_windows(kinds))
            records = pa.concat_batches([part.select(names) for part in parts]).take(pa.array(rows))
            slots[rows] = self._keys.encode(key_columns(records.column(KEY)))
            if self._is_state:
                is_renewed[rows] &= flags_of(records.column(STATE).field("renewed"))
        (others,) = np.nonzero(~is_renewed)
        is_footprint = (kinds[others] == RecordKind.OPEN.value) | (
            kinds[others] == RecordKind.CHECK.value
        )
        (footprint_rows,) = np.nonzero(is_footprint)
        closed = np.unique(slots[closes(kinds)])
        if self._keys.bound > len(self._is_open):
            self._is_open = grown(self._is_open, self._keys.bound)
        closed = closed[(closed >= 0) & self._is_open[closed]]
        footprints = slots[others[footprint_rows]]
        self._is_open[closed] = False
        self._is_open[footprints] = True
        renewed = slots[is_renewed]
        self._is_open[renewed] = True  # of one that opened before the oldest frame that is kept
        return CommitSummary(
            position=header.input_upto,
            closed=closed,
            footprints=footprints,
            footprint_rows=footprint_rows,
            others=len(others),
            renewed=renewed,
            frames=len(frames),
            open_windows=header.open_windows,
        )

    def simulation(self, targets: Sequence[WhatIf]) -> Simulation:
        """The recorded history beside the simulated ones, from where all of them begin."""
        first = len(self._others) if self._begun_at is None else self._begun_at
        histories = [extent.history(0) for extent in self._simulated]
        return Simulation(
            others=np.array(self._others[first:], np.int64),
            recorded=self._recorded.history(first),
            targets=tuple(zip(targets, histories, strict=True)),
        )
