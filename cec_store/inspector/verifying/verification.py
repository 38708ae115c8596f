"""A whole queue against docs/format.md. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Footer,
    FrameType,
    extend_running_crc,
)
from cec_store.format.schema import RecordKind
from cec_store.inspector.damage.faults import EFFECTS, Fault, Note
from cec_store.inspector.damage.scan import Found, Gap
from cec_store.inspector.damage.survey import Part, Survey
from cec_store.inspector.damage.whole_segments import SoundFrames, read_whole
from cec_store.inspector.verifying.audit import Audit, body_problem
from cec_store.inspector.verifying.index_verification import check_index
from cec_store.storage.folder import Folder

Progress = Callable[[int], None]
"""Called with the bytes read so far."""


@dataclass(frozen=True)
class Verification:
    """What is wrong with a queue, and what was looked at."""

    path: str
    faults: tuple[Fault, ...]
    notes: tuple[Note, ...]
    epoch: int | None
    segments: int
    frames: int
    """Intact ones with records."""
    records: int
    bytes: int
    first_offset: int
    end_offset: int
    kinds: dict[str, int]
    """Records of each kind; empty where records were not looked at."""
    recounted_frames: int
    """Frames whose N and q were counted anew."""
    index: str
    """What the index is like."""
    versions: int | None = None
    """How many can be rebuilt; ``None`` of a queue."""
    first_version: int | None = None
    last_version: int | None = None
    """The oldest and the newest of them."""

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify_queue(
    folder: Folder, *, records: bool = True, progress: Progress | None = None
) -> Verification:
    """Check every header, body, link and mark; with ``records`` also what the records say.

    Raises:
        NotAQueue: nothing of a queue here.
    """
    return _Run(Survey(folder), records, progress or (lambda _: None)).run()


class _Run:
    def __init__(self, survey: Survey, with_records: bool, progress: Progress) -> None:
        self._survey = survey
        self._with_records = with_records
        self._progress = progress
        self._notes = list(survey.notes)
        is_whole = survey.manifest is not None and survey.first_segment == 0
        self._audit = Audit(with_records, is_whole)
        self._audit.faults += [*survey.faults, *survey.consumer_faults()]
        self._segments = self._bytes = 0
        self._chain: int | None = None
        """Chain CRC at the end of the segment before; ``None`` where a part of it is damaged."""

    def run(self) -> Verification:
        audit, previous = self._audit, None
        due = self._survey.first_segment
        for part in self._survey.parts():
            known, number = len(audit.faults), due
            due += 1
            if isinstance(part, Fault):
                audit.lose(part)
                previous = None
                continue
            if part.scan.segment_id != number:
                # A writer beside this inspection has trimmed what was due.
                audit.restart(known)
                previous, due = None, part.scan.segment_id + 1
            self._part(part, previous)
            previous = None if self._is_foreign(part) else part
            if len(audit.faults) > known and self._survey.is_trimmed(part.scan.segment_id):
                audit.restart(known)
                previous = None
        index, fault = check_index(self._survey.folder)
        audit.faults += [fault] if fault is not None else []
        checks, manifest = audit.checks, self._survey.manifest
        kinds = {}
        if checks is not None and self._with_records:
            kinds = {kind.name: int(checks.counts[kind]) for kind in RecordKind}
        return Verification(
            path=self._survey.folder.path,
            faults=tuple(map(self._with_effect, audit.faults)),
            notes=(*self._notes, *audit.unlisted()),
            epoch=manifest.epoch if manifest else None,
            segments=self._segments,
            frames=audit.frames,
            records=audit.records,
            bytes=self._bytes,
            first_offset=audit.first_offset,
            end_offset=audit.end_offset,
            kinds=kinds,
            recounted_frames=checks.recounted_frames if checks else 0,
            index=index,
        )

    # -- segments -----------------------------------------------------------------------------

    def _part(self, part: Part, previous: Part | None) -> None:
        faults = list(self._survey.header_faults(part, previous))
        if self._is_foreign(part):
            self._audit.lose(faults[0])
        else:
            self._audit.faults += faults
            if previous is not None:
                self._check_chain(part)
            self._segment(part)
        self._segments += 1
        self._bytes += part.scan.bytes
        self._progress(self._bytes)

    def _is_foreign(self, part: Part) -> bool:
        """Readers refuse such a segment, and its frames would only seem to be out of order."""
        faults = self._survey.header_faults(part, None)
        return any(fault.kind == "segment-foreign" for fault in faults)

    def _segment(self, part: Part) -> None:
        scan, audit = part.scan, self._audit
        audit.segment()
        self._chain = scan.first_chain() if scan.header is not None else None
        done = self._bytes
        sound = read_whole(
            self._survey.folder, scan, part.stop, lambda byte: self._progress(done + byte)
        )
        if sound is not None:
            self._sound_segment(part, sound)
        else:
            self._frame_by_frame(part)
        if part.stop < scan.bytes:
            what = f"{scan.bytes - part.stop} bytes behind the segment's end; they are never read"
            self._notes.append(Note(scan.path, part.stop, what))

    def _sound_segment(self, part: Part, sound: SoundFrames) -> None:
        last = sound.found(len(sound) - 1)
        if last.header.type == FrameType.FOOTER:
            self._chain = sound.chain(len(sound) - 1)
            self._check_footer(part, last, len(sound) - 1)
        self._audit.take(part, sound)
        self._chain = sound.chain(len(sound))

    def _frame_by_frame(self, part: Part) -> None:
        scan, audit = part.scan, self._audit
        frames, footer_at = 0, -1
        for item in scan.frames(part.stop):
            torn = self._torn_reason(part, item)
            if torn:
                size = scan.bytes - item.byte
                what = f"torn tail: {size} bytes of an unfinished write ({torn}); not a fault"
                self._notes.append(Note(scan.path, item.byte, what))
                break
            self._progress(self._bytes + item.byte)
            if isinstance(item, Gap):
                self._chain = None
                audit.lose(self._gap(part, item))
                continue
            if footer_at >= 0:
                audit.add(part, "footer", item.byte, f"a frame after the footer at {footer_at}")
            if item.header.type == FrameType.FOOTER:
                footer_at = item.byte
                self._check_footer(part, item, frames)
            audit.frame(part, item)
            frames += 1
            if self._chain is not None:
                self._chain = extend_running_crc(self._chain, item.header.header_crc)

    @staticmethod
    def _torn_reason(part: Part, item: Found | Gap) -> str:
        """Why an unfinished write begins here, which nobody vouched for; empty if none does."""
        if part.is_sealed or not part.is_newest or item.byte < part.acknowledged:
            return ""
        if isinstance(item, Gap):
            return "" if item.newer else item.reason
        return body_problem(part.scan, item)

    @staticmethod
    def _gap(part: Part, gap: Gap) -> Fault:
        size = gap.end_byte - gap.byte
        if gap.newer:
            return part.fault("version", gap.byte, gap.reason)
        if gap.byte >= part.scan.bytes:
            what = f"the file ends {size} bytes before the segment does"
            return part.fault("segment-cut", gap.byte, what)
        return part.fault("frame-damaged", gap.byte, f"{size} bytes are no frame: {gap.reason}")

    def _check_chain(self, part: Part) -> None:
        """The header against what the segment before was found to be."""
        header = part.scan.header
        if header is None or self._chain is None or header.prev_chain == self._chain:
            return
        if header.prev_segment == part.scan.segment_id - 1:
            what = f"segment {header.prev_segment} is not the one that it continues (chain CRC)"
            self._audit.add(part, "chain", 80, what)

    def _check_footer(self, part: Part, found: Found, frames: int) -> None:
        if self._chain is None:
            return
        try:
            footer = part.scan.footer(found)
        except BadHeader:
            return  # told as a body
        if footer != Footer(frames, found.byte, self._chain):
            what = f"the footer says {footer.frames} frames, there are {frames}"
            if footer.frames == frames:
                what = "the footer's size or chain CRC is not that of the frames before it"
            self._audit.add(part, "footer", found.byte, what)

    # -- effects ------------------------------------------------------------------------------

    def _with_effect(self, fault: Fault) -> Fault:
        return replace(fault, effect=self._effect(fault))

    def _effect(self, fault: Fault) -> str:
        is_start = fault.byte == SEGMENT_HEADER_BYTES and fault.path.endswith(".seg")
        if is_start and fault.kind in ("frame-damaged", "body-checksum", "schema"):
            return "no record of this segment can be read: its schema is lost"
        if fault.first_offset is None:
            return EFFECTS[fault.kind]
        first, end = fault.first_offset, fault.end_offset
        if first == end:
            return "no record is lost, but readers stop here"
        text = f"records from {first:,} on cannot be read"
        if end is not None:
            text = f"records {first:,} to {end - 1:,} cannot be read"
        newest = self._audit.newest
        checks = self._audit.checks
        if newest is None or checks is None or not checks.schema.inputs:
            return text
        if end is None:
            return f"{text}, and with them the operator's state at the end"
        if end > newest.end_offset - newest.extent_records:
            return f"{text}; the operator's state at the end needs some of them"
        return f"{text}; the operator's state at the end does not need them"
