"""One segment of a state log: how far it is sound, and which versions it has. docs/format.md §9."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.ends import EndFacts, LogKind, Verdict, judge
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    SegmentHeader,
    decode_frame_header,
)
from cec_store.format.scan import Bad, intact_headers
from cec_store.log.epochs import newest_claim
from cec_store.log.forward_scan import ForwardScan, running_crcs_of
from cec_store.log.frames import Frame
from cec_store.log.segment import SegmentReader
from cec_store.storage.folder import Folder
from cec_store.storage.names import WRITER_LOCK, segment_id_of, segment_name
from cec_store.values import Address

MERGED = 1
"""This bit of a segment's number says that maintenance made it out of others."""
_FIRST_ID = 1 << 32  # an ordinal is at least 1


def is_state_log(folder: Folder) -> bool:
    """Return True if a state store left its log here: segments, and nothing that a queue has."""
    names = folder.names() if folder.exists() else []
    if newest_claim(names) >= 0 or WRITER_LOCK in names:
        return False
    return any((segment_id_of(name) or 0) >= _FIRST_ID for name in names)


def unique_id(frame: Frame) -> str:
    """Return the unique id of Spark's checkpoint format V2 for the version that this frame ends."""
    header = frame.header
    return f"{frame.address.segment_id:016x}-{header.salt:016x}-{header.seq:x}"


class RunningCrcs(Protocol):
    """The running CRC for each byte at which a frame ends."""

    def __getitem__(self, byte: int, /) -> int: ...


@dataclass(frozen=True)
class StateSegment:
    """One segment, up to the first place that is no whole frame."""

    segment_id: int
    path: str
    reason: str
    """Reason that bytes beyond ``end`` are no frame; empty where the file ends there."""
    refusal: CorruptLog | UnsupportedVersion | None
    """Damage: something vouches for what is beyond. ``None`` for an unfinished write."""
    header: SegmentHeader | None = None
    schema: FrameHeader | None = None
    """Its SCHEMA frame, which says on which version the segment builds."""
    frames: Sequence[Frame] = ()
    end: int = 0
    running_crcs: RunningCrcs = field(default_factory=dict[int, int])
    """The running CRC by the byte at which a frame ends."""

    def frame_of(self, seq: int) -> Frame | None:
        """The frame of this number, if it is here."""
        number = seq - self.frames[0].header.seq if self.frames else -1
        return self.frames[number] if 0 <= number < len(self.frames) else None

    @property
    def commits(self) -> Iterator[Frame]:
        """The last frame of each commit."""
        return (f for f in self.frames if f.header.is_counted)

    @cached_property
    def last_of(self) -> dict[int, Frame]:
        """The last frame of each version; of several attempts, of the last."""
        return {frame.header.input_upto: frame for frame in self.commits}

    @cached_property
    def newest_version(self) -> int:
        """The newest version that is whole here, or else the one built on; -1: unknown."""
        base = -1 if self.schema is None else self.schema.input_upto
        return max((frame.header.input_upto for frame in self.commits), default=base)

    def may_have_held(self, version: int) -> bool:
        """Return True if this version may have been here, and been acknowledged."""
        return self.refusal is not None and version > self.newest_version

    def error(self) -> CorruptLog | UnsupportedVersion:
        """The error for a caller that needs what is beyond the end."""
        return self.refusal or CorruptLog(self.path, self.end, self.reason or "the file ends here")


def read_segment(folder: Folder, reader: SegmentReader, vouched: int) -> StateSegment:
    """Read a segment's frame headers; other segments build on its first ``vouched`` bytes."""
    segment = _read_once(folder, reader, vouched)
    while segment.refusal:
        # Read again: its writer may have appended between two reads, so only lasting faults count.
        reader.reload()
        again = _read_once(folder, reader, vouched)
        if again.end == segment.end:
            break
        segment = again
    return segment


def _read_once(folder: Folder, reader: SegmentReader, vouched: int) -> StateSegment:
    segment_id = reader.header.segment_id
    scan = ForwardScan(reader)
    frames, bad = scan.read_on(), scan.bad
    schema = frames[0][1] if frames else None
    if schema is not None and schema.type != FrameType.SCHEMA:
        schema, frames, bad = (
            None,
            [],
            Bad(SEGMENT_HEADER_BYTES, "a segment starts with its schema"),
        )
    elif schema is not None and (fault := _fault_of_schema(reader, schema)):
        # Its header is sound, and says on which version the segment builds.
        frames, bad = [], Bad(SEGMENT_HEADER_BYTES, fault)
    file_bytes, claimed = reader.size(), max(vouched, scan.claimed)
    facts = EndFacts(bad.byte, file_bytes, claimed, is_newer=bad.newer)
    if bad.byte < file_bytes:
        rest = folder.read(reader.name, bad.byte, file_bytes - bad.byte)
        # Behind the bad place: it may itself be the header of a frame that was cut short.
        has_frame = any(reader.headers_beyond(bad.byte + 1))
        facts = facts._replace(has_frame_beyond=has_frame, is_unfinished=_is_unfinished(rest))
    verdict, _ = judge(LogKind.STATE, facts)
    return StateSegment(
        segment_id=segment_id,
        path=reader.path,
        header=reader.header,
        schema=schema,
        frames=tuple(
            Frame(Address(segment_id, byte), header)
            for byte, header in frames
            if header.type == FrameType.BATCH
        ),
        end=bad.byte,
        reason="" if verdict is Verdict.CLEAN_END else bad.reason,
        refusal=bad.refusal(reader.path) if verdict.is_refused else None,
        running_crcs=running_crcs_of(reader.header, frames),
    )


def _fault_of_schema(reader: SegmentReader, schema: FrameHeader) -> str:
    """Return the reason why a segment's schema is not sound; empty if it is, and then kept."""
    try:
        reader.schema(schema)
    except BadHeader as error:
        return str(error)
    return ""


def _is_unfinished(data: bytes) -> bool:
    """Return True if an unfinished write can leave this at a file's end: too little, or zeros."""
    if len(data) < FRAME_HEADER_BYTES or not any(data[FRAME_HEADER_BYTES - 4 :]):
        return True
    try:
        return decode_frame_header(data).frame_bytes > len(data)
    except BadHeader:
        return False


def newest_in(folder: Folder, segment: StateSegment) -> float:
    """The newest version of a damaged segment, if its last frame shows it; infinity if not."""
    name = segment_name(segment.segment_id)
    data = folder.read(name, segment.end, folder.size(name) - segment.end)
    salt = None if segment.header is None else segment.header.salt
    intact = [one for one in intact_headers(data) if salt in (None, one[1].salt)]
    if not intact:
        return math.inf
    at, header = intact[-1]
    is_last = at + header.frame_bytes == len(data)
    return max(header.input_upto, segment.newest_version) if is_last else math.inf


def segment_without_header(
    folder: Folder, segment_id: int, error: CorruptLog | UnsupportedVersion, vouched: int
) -> StateSegment:
    """A segment whose header is not sound: an unfinished write, unless something shows damage."""
    name = segment_name(segment_id)
    data = folder.read(name, 0, folder.size(name))
    is_damage = vouched > 0 or not _is_unfinished(data) or any(intact_headers(data))
    return StateSegment(
        segment_id,
        f"{folder.path}/{name}",
        reason=error.reason if isinstance(error, CorruptLog) else str(error),
        refusal=error if is_damage or isinstance(error, UnsupportedVersion) else None,
    )
