"""Frames and records one by one, over damage and on. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.columns import values_of
from cec_store.files import Folder
from cec_store.frame import NOT_COUNTED, BadHeader, FrameType
from cec_store.inspector.audit import body_problem
from cec_store.inspector.faults import Fault
from cec_store.inspector.rows import records_as_rows
from cec_store.inspector.scan import Found, Gap
from cec_store.inspector.state_survey import StateSurvey, survey_of
from cec_store.inspector.survey import Part, Survey
from cec_store.records import KEY, KIND, STATE, TIMESTAMP, RecordKind, input_column, kinds_of
from cec_store.units import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US


@dataclass(frozen=True)
class DumpFilter:
    """Which records are wanted; ``until`` is not included. Frames without records come along
    unless something is asked that they cannot answer."""

    kinds: frozenset[RecordKind] = frozenset(RecordKind)
    since_offset: int = 0
    until_offset: int | None = None
    since_us: int = MIN_TIMESTAMP_US
    until_us: int = MAX_TIMESTAMP_US
    segment_id: int | None = None
    at: int | str | None = None
    """Only what this version of a state log builds on."""
    records: bool = True
    """Show records, not only frames."""

    @property
    def is_everything(self) -> bool:
        return self == replace(
            DumpFilter(), segment_id=self.segment_id, at=self.at, records=self.records
        )


@dataclass(frozen=True)
class FrameRow:
    """A frame whose header verifies."""

    segment_id: int
    byte: int
    type: str
    stream_id: int
    epoch: int
    seq: int
    first_offset: int
    end_offset: int
    record_count: int
    frame_bytes: int
    raw_bytes: int
    min_timestamp_us: int | None
    max_timestamp_us: int | None
    open_windows: int | None
    """N; ``None`` where it was not counted."""
    extent_records: int
    input_upto: int
    durable_upto: int
    acknowledged: bool
    problem: str
    """Why its body cannot be read; empty if it can."""


@dataclass(frozen=True)
class RecordRow:
    """A record, decoded."""

    offset: int
    kind: str
    timestamp_us: int
    position: tuple[int, ...]
    key: Any
    state: Any
    data: dict[str, Any] | None


@dataclass(frozen=True)
class DamageRow:
    """A place that cannot be read."""

    path: str
    byte: int
    what: str
    acknowledged: bool
    """If not, it is an unfinished write at the end, which is no fault."""


Row = FrameRow | RecordRow | DamageRow


def dump(folder: Folder, wanted: DumpFilter | None = None) -> Iterator[Row]:
    """Each frame, followed by its records, in the order of the log.

    Raises:
        NotAQueue: nothing of a queue here.
        OutOfRange, CorruptLog: the version wanted of a state log is not there.
        ValueError: a version wanted of a queue.
    """
    wanted = wanted or DumpFilter()
    survey = survey_of(folder)
    if wanted.at is None:
        return _rows(survey, wanted, None)
    if isinstance(survey, Survey):
        raise ValueError(f"{folder.path}: a queue has no versions")
    return _rows(survey, wanted, survey.ends_at(wanted.at))


def _rows(
    survey: Survey | StateSurvey, wanted: DumpFilter, ends: dict[int, int] | None
) -> Iterator[Row]:
    for fault in survey.faults:
        yield DamageRow(fault.path, fault.byte, fault.what, True)
    for part in survey.parts():
        if isinstance(part, Fault):
            yield DamageRow(part.path, part.byte, part.what, True)
            continue
        segment_id = part.scan.segment_id
        if wanted.segment_id not in (None, segment_id):
            continue
        if ends is not None and segment_id not in ends:
            continue
        if part.scan.problem is not None:
            yield DamageRow(part.scan.path, 0, str(part.scan.problem), True)
        for item in part.scan.frames(part.stop if ends is None else ends[segment_id]):
            rows = _gap(part, item) if isinstance(item, Gap) else _frame(part, item, wanted)
            for row in rows:
                if isinstance(row, DamageRow) and survey.is_trimmed(segment_id):
                    break  # a writer has removed the segment meanwhile
                yield row


def _gap(part: Part, gap: Gap) -> Iterator[Row]:
    what = f"{gap.end_byte - gap.byte} bytes are no frame: {gap.reason}"
    yield DamageRow(part.scan.path, gap.byte, what, _is_acknowledged(part, gap.byte))


def _is_acknowledged(part: Part, byte: int) -> bool:
    return part.is_sealed or byte < part.acknowledged


def _frame(part: Part, found: Found, wanted: DumpFilter) -> Iterator[Row]:
    header = found.header
    if header.type != FrameType.BATCH:
        if wanted.is_everything:
            yield _frame_row(part, found, body_problem(part.scan, found))
        return
    if not _may_hold(found, wanted):
        return
    try:
        records = part.scan.records(found)
        rows = _wanted_rows(records, header.first_offset, wanted)
        if len(rows) or wanted.is_everything:
            yield _frame_row(part, found, "")
        if wanted.records:
            yield from _records(records, header.first_offset, rows)
    except BadHeader as error:
        yield _frame_row(part, found, str(error))
        yield DamageRow(part.scan.path, found.byte, str(error), _is_acknowledged(part, found.byte))


def _may_hold(found: Found, wanted: DumpFilter) -> bool:
    header = found.header
    if wanted.is_everything:
        return True  # a frame without records, too
    return (
        header.end_offset > wanted.since_offset
        and (wanted.until_offset is None or header.first_offset < wanted.until_offset)
        and header.max_timestamp_us >= wanted.since_us
        and (header.min_timestamp_us < wanted.until_us or wanted.until_us == MAX_TIMESTAMP_US)
    )


def _wanted_rows(records: pa.RecordBatch, first_offset: int, wanted: DumpFilter) -> Any:
    kinds = kinds_of(records)
    keep = np.ones(len(kinds), np.bool_)
    if wanted.kinds != frozenset(RecordKind):
        keep &= np.isin(kinds, sorted(wanted.kinds))
    offsets = first_offset + np.arange(len(kinds))
    keep &= offsets >= wanted.since_offset
    if wanted.until_offset is not None:
        keep &= offsets < wanted.until_offset
    if (wanted.since_us, wanted.until_us) != (MIN_TIMESTAMP_US, MAX_TIMESTAMP_US):
        times = values_of(records.column(TIMESTAMP), "i8")
        keep &= (times >= wanted.since_us) & (times < wanted.until_us)
    return np.flatnonzero(keep)


def _frame_row(part: Part, found: Found, problem: str) -> FrameRow:
    header = found.header
    has_records = header.record_count > 0
    known = {member.value for member in FrameType}
    return FrameRow(
        segment_id=found.segment_id,
        byte=found.byte,
        type=FrameType(header.type).name if header.type in known else f"type {header.type}",
        stream_id=header.stream_id,
        epoch=header.epoch,
        seq=header.seq,
        first_offset=header.first_offset,
        end_offset=header.end_offset,
        record_count=header.record_count,
        frame_bytes=header.frame_bytes,
        raw_bytes=header.raw_bytes,
        min_timestamp_us=header.min_timestamp_us if has_records else None,
        max_timestamp_us=header.max_timestamp_us if has_records else None,
        open_windows=None if header.open_windows == NOT_COUNTED else header.open_windows,
        extent_records=header.extent_records,
        input_upto=header.input_upto,
        durable_upto=header.durable_upto,
        acknowledged=part.is_sealed or found.end_byte <= part.acknowledged,
        problem=problem,
    )


def _records(records: pa.RecordBatch, first_offset: int, rows: Any) -> Iterator[RecordRow]:
    """Decoded a thousand at a time, so that a huge frame does not become a huge list."""
    names = records.schema.names
    inputs = [name for name in names if name.startswith(input_column(0)[:-1])]
    times = records.column(TIMESTAMP).cast(pa.int64())
    plain = records.drop_columns([TIMESTAMP])
    for start in range(0, len(rows), 1000):
        some = pa.array(rows[start : start + 1000])
        decoded = records_as_rows(plain.take(some))
        for row, offset, time in zip(
            decoded, (first_offset + rows[start : start + 1000]).tolist(),
            times.take(some).to_pylist(), strict=True,
        ):  # fmt: skip
            kind = row.pop(KIND)
            known = {member.value for member in RecordKind}
            position = tuple(row.pop(name) for name in inputs)
            key, state = row.pop(KEY, None), row.pop(STATE, None)
            is_footprint = kind in (RecordKind.OPEN, RecordKind.CHECK)
            yield RecordRow(
                offset=offset,
                kind=RecordKind(kind).name if kind in known else f"kind {kind}",
                timestamp_us=time,
                position=position,
                key=key,
                state=state,
                data=None if is_footprint else row,
            )


def parse_kinds(text: str) -> Collection[RecordKind]:
    """``open,check`` and the like.

    Raises:
        ValueError: no such kind.
    """
    kinds = set()
    for name in text.split(","):
        try:
            kinds.add(RecordKind[name.strip().upper()])
        except KeyError:
            names = ", ".join(kind.name.lower() for kind in RecordKind)
            raise ValueError(f"{name.strip()!r} is no kind of record: {names}") from None
    return kinds
