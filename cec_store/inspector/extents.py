"""What an operator's restart would have to read, and which windows hold it open. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.chain import Chain
from cec_store.errors import CecError, OutOfRange, RecoveryError
from cec_store.files import Folder
from cec_store.frame import BadHeader, FrameType
from cec_store.inspector.rows import rows_of
from cec_store.inspector.scan import Found
from cec_store.inspector.state_survey import StateSurvey, survey_of
from cec_store.inspector.survey import Part, Survey
from cec_store.rebuild import EventualCheckpoint, rebuild
from cec_store.records import KIND, TIMESTAMP, RecordKind, kinds_of
from cec_store.state_log import StateLog
from cec_store.strand import Strand
from cec_store.units import Extent

Progress = Callable[[int], None]
_LOOKS = 4


@dataclass(frozen=True)
class Totals:
    """What a queue holds, as far as it can be read."""

    segments: int
    frames: int
    bytes: int
    records: int
    first_offset: int
    end_offset: int
    first_timestamp_us: int | None
    last_timestamp_us: int | None
    """Largest of the last frame."""
    kinds: dict[str, int] | None
    """Records of each kind; ``None`` where they were not counted."""
    unreadable: int
    """Places that could not be read."""

    @property
    def write_amplification(self) -> float | None:
        """Control records for each record of output; ``None`` without output, or uncounted."""
        if self.kinds is None or not self.kinds["DATA"] + self.kinds["RESULT"]:
            return None
        control = self.kinds["OPEN"] + self.kinds["CHECK"]
        return control / (self.kinds["DATA"] + self.kinds["RESULT"])


@dataclass(frozen=True)
class OpenWindow:
    """One of the windows that hold the extent open."""

    key: Any
    state: Any
    kind: str
    """OPEN or CHECK: the footprint's."""
    offset: int
    timestamp_us: int
    position: tuple[int, ...]
    """Next unread input, for each input: the footprint reflects what is below."""
    records_back: int
    """q, if this were the oldest window."""
    replay_rows: int
    """u, if this were the oldest window."""


@dataclass(frozen=True)
class OperatorState:
    """The eventual checkpoint at the end of the log, in figures."""

    extent: Extent
    replay_from: tuple[int, ...]
    """T: the input that a restart needs begins here."""
    replay_upto: tuple[int, ...]
    replay_rows: int
    """u: how much of it there is, over all inputs."""
    closed_windows: int
    """Windows closed after T, which the replay must not open again."""
    oldest_timestamp_us: int | None
    """Of the oldest footprint."""
    age_us: int | None
    """From there to the largest timestamp of the last frame."""
    oldest_windows: tuple[OpenWindow, ...]


@dataclass(frozen=True)
class ExtentReport:
    """A queue's totals and, where an operator writes it, what its restart would take."""

    path: str
    epoch: int | None
    totals: Totals
    has_state: bool
    """Whether an operator writes this queue."""
    state: OperatorState | None
    """``None`` where there is none, or where damage keeps it out of reach."""
    damage: str
    """Why something could not be read; empty in a sound queue."""
    version: int | None = None
    """Of a state log; ``None`` of a queue."""


def inspect_extent(
    folder: Folder,
    *,
    at: int | str | None = None,
    top: int = 10,
    counts: bool = True,
    progress: Progress | None = None,
) -> ExtentReport:
    """Totals, the extent, and the ``top`` windows with the oldest footprints.

    ``counts=False`` looks at headers and at the extent alone. ``at`` is a version of a state log.

    Raises:
        NotAQueue: nothing of a queue here.
        OutOfRange: the state log has no such version.
        ValueError: a version wanted of a queue.
    """
    survey = survey_of(folder)
    if isinstance(survey, StateSurvey):
        return _of_state_log(survey, at, top, counts, progress)
    if at is not None:
        raise ValueError(f"{folder.path}: a queue has no versions")
    totals, damage = _totals(survey, counts, progress or (lambda _: None))
    state, has_state = None, False
    for looks_left in reversed(range(_LOOKS)):
        try:
            chain = Chain(folder)
            has_state = chain.schema().inputs > 0
            state = _state(chain, rebuild(chain), top) if has_state else None
        except RecoveryError:
            has_state = False  # written without checkpoints
        except OutOfRange as error:
            # A writer beside this inspection may have trimmed what the chain began with.
            damage = damage or ("" if looks_left else str(error))
            continue
        except CecError as error:
            damage = damage or str(error)
        break
    epoch = survey.manifest.epoch if survey.manifest else None
    return ExtentReport(folder.path, epoch, totals, has_state, state, damage)


def _of_state_log(
    survey: StateSurvey, at: int | str | None, top: int, counts: bool, progress: Progress | None
) -> ExtentReport:
    state = version = None
    totals, damage = _totals(survey, counts, progress or (lambda _: None))
    try:
        log = StateLog(survey.folder)
        lineage = log.lineage(at)
        version = lineage.version
        state = _state(lineage, log.rebuild(at), top)
    except OutOfRange:
        raise
    except CecError as error:
        damage = damage or str(error)
    return ExtentReport(survey.folder.path, None, totals, True, state, damage, version)


def _totals(survey: Survey | StateSurvey, counts: bool, progress: Progress) -> tuple[Totals, str]:
    segments = frames = size = records = unreadable = 0
    kinds = np.zeros(256, np.int64)
    ends: list[tuple[int, int]] = []
    times_us: list[tuple[int, int]] = []
    damage = survey.faults[0].what if survey.faults else ""
    for part in survey.parts():
        if not isinstance(part, Part):
            unreadable += 1
            damage = damage or f"{part.path}: {part.what}"
            continue
        segments += 1
        for item in part.scan.frames(min(part.stop, part.scan.bytes)):
            if item.byte >= part.acknowledged:
                break  # nobody vouched for it
            if not isinstance(item, Found):
                if survey.is_trimmed(part.scan.segment_id):
                    break  # a writer has removed it meanwhile
                unreadable += 1
                damage = damage or f"{part.scan.path}: damage at byte {item.byte}: {item.reason}"
                continue
            header = item.header
            if header.type != FrameType.BATCH:
                continue
            frames += 1
            records += header.record_count
            ends = [*ends[:1], (header.first_offset, header.end_offset)]
            if header.record_count:
                times_us = [*times_us[:1], (header.min_timestamp_us, header.max_timestamp_us)]
            if counts:
                try:
                    batch = part.scan.records(item)
                    kinds += np.bincount(kinds_of(batch), minlength=256)
                except BadHeader as error:
                    if survey.is_trimmed(part.scan.segment_id):
                        break
                    unreadable += 1
                    damage = damage or f"{part.scan.path}: damage at byte {item.byte}: {error}"
            progress(size + item.byte)
        size += part.scan.bytes
    totals = Totals(
        segments=segments,
        frames=frames,
        bytes=size,
        records=records,
        first_offset=ends[0][0] if ends else 0,
        end_offset=ends[-1][1] if ends else 0,
        first_timestamp_us=times_us[0][0] if times_us else None,
        last_timestamp_us=times_us[-1][1] if times_us else None,
        kinds={kind.name: int(kinds[kind]) for kind in RecordKind} if counts else None,
        unreadable=unreadable,
    )
    return totals, damage


def _state(chain: Strand, found: EventualCheckpoint, top: int) -> OperatorState:
    last = chain.last()
    windows = _oldest_windows(chain, found, top)
    oldest_us = windows[0].timestamp_us if windows else None
    if found.open_windows and not windows:
        oldest_us = _oldest_windows(chain, found, 1)[0].timestamp_us
    age_us = None
    if oldest_us is not None and last is not None:
        age_us = last.header.max_timestamp_us - oldest_us
    return OperatorState(
        extent=found.extent,
        replay_from=tuple(found.replay_from.tolist()),
        replay_upto=tuple(found.replay_upto.tolist()),
        replay_rows=int((found.replay_upto - found.replay_from).sum()),
        closed_windows=len(found.closed_keys),
        oldest_timestamp_us=oldest_us,
        age_us=age_us,
        oldest_windows=windows,
    )


def _oldest_windows(chain: Strand, found: EventualCheckpoint, top: int) -> tuple[OpenWindow, ...]:
    """Rows of the checkpoint stand in the order of their footprints, so these are the first."""
    count = min(top, found.open_windows)
    if count == 0:
        return ()
    footprints = _footprints(chain, found.offsets[:count].tolist())
    keys, states = (rows_of(column.slice(0, count)) for column in (found.keys, found.states))
    return tuple(
        OpenWindow(
            key=key,
            state=state,
            kind=RecordKind(kind).name,
            offset=offset,
            timestamp_us=timestamp_us,
            position=tuple(position.tolist()),
            records_back=found.end_offset - offset,
            replay_rows=int((found.replay_upto - position).sum()),
        )
        for key, state, (offset, kind, timestamp_us), position in zip(
            keys, states, footprints, found.positions[:count], strict=True
        )
    )


def _footprints(chain: Strand, offsets: list[int]) -> list[tuple[int, int, int]]:
    """(offset, kind, timestamp) of the records at these offsets, which rise."""
    found: list[tuple[int, int, int]] = []
    first = chain.find_offset(offsets[0])
    for frame in chain.frames(first.address) if first else ():
        here = [o for o in offsets[len(found) :] if o < frame.header.end_offset]
        if here:
            rows = pa.array([o - frame.header.first_offset for o in here])
            records = chain.records(frame).select([KIND, TIMESTAMP]).take(rows)
            times = records.column(TIMESTAMP).cast(pa.int64()).to_pylist()
            found += zip(here, records.column(KIND).to_pylist(), times, strict=True)
        if len(found) == len(offsets):
            break
    return found
