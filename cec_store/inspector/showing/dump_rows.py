"""Rows of a dump: a log's frames, its decoded records, and the places that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.format.frame import FrameType
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import ScannedFrame
from cec_store.inspector.decoding.records import RecordRow


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
    """Reason that its body cannot be read; empty if it can."""


@dataclass(frozen=True)
class DamageRow:
    """A place that cannot be read."""

    path: str
    byte: int
    what: str
    acknowledged: bool
    """True if it was acknowledged; else it is an unfinished write at the end, which is no fault."""


@dataclass(frozen=True)
class NoteRow:
    """Something to know about what is shown."""

    path: str
    what: str


Row = FrameRow | RecordRow | DamageRow | NoteRow


def frame_row(segment: LogSegment, frame: ScannedFrame, problem: str) -> FrameRow:
    """Return the row that shows a frame's header."""
    header = frame.header
    has_records = header.record_count > 0
    known = {member.value for member in FrameType}
    return FrameRow(
        segment_id=frame.segment_id,
        byte=frame.byte,
        type=FrameType(header.type).name if header.type in known else f"type {header.type}",
        stream_id=header.stream_id,
        epoch=0 if segment.scan.header is None else segment.scan.header.epoch,
        seq=header.seq,
        first_offset=header.first_offset,
        end_offset=header.end_offset,
        record_count=header.record_count,
        frame_bytes=header.frame_bytes,
        raw_bytes=header.raw_bytes,
        min_timestamp_us=header.min_timestamp_us if has_records else None,
        max_timestamp_us=header.max_timestamp_us if has_records else None,
        open_windows=None if not header.is_counted else header.open_windows,
        extent_records=header.extent_records,
        input_upto=header.input_upto,
        durable_upto=header.durable_upto,
        acknowledged=segment.is_sealed or frame.end_byte <= segment.acknowledged,
        problem=problem,
    )
