"""A whole queue against docs/format.md. Reads only."""

from __future__ import annotations

from dataclasses import replace

from cec_store.format.ends import EndFacts, LogKind, Verdict, judge
from cec_store.format.frame import SEGMENT_HEADER_BYTES, extend_running_crc
from cec_store.format.schema import RecordKind
from cec_store.inspector.damage.faults import EFFECTS, Fault, Note
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.queue_files import QueueFiles
from cec_store.inspector.damage.segment_scan import Gap, ScannedFrame
from cec_store.inspector.damage.whole_segments import SoundFrames, read_whole
from cec_store.inspector.verifying.frame_checks import FrameChecks
from cec_store.inspector.verifying.index import check_index
from cec_store.inspector.verifying.results import BytesSoFar, TotalBytes, Verification
from cec_store.storage.folder import Folder


def verify_queue(folder: Folder, records: bool, progress: BytesSoFar) -> Verification:
    """Verify a queue, as :func:`cec_store.inspector.verifying.log.verify` does."""
    return _QueueVerifier(QueueFiles(folder), records, progress).run()


class _QueueVerifier:
    def __init__(self, files: QueueFiles, with_records: bool, progress: BytesSoFar) -> None:
        self._files = files
        self._with_records = with_records
        self._progress = progress
        self._notes = list(files.notes)
        is_whole = files.manifest is not None and files.first_segment == 0
        self._frame_checks = FrameChecks(with_records, is_whole)
        self._frame_checks.faults += [*files.faults, *files.consumer_faults()]
        self._segments = self._bytes = 0
        self._running_crc: int | None = None
        """Running CRC at the end of the segment before; ``None`` where some of it is damaged."""

    def run(self) -> Verification:
        frame_checks, previous = self._frame_checks, None
        due = self._files.first_segment
        for segment in self._files.segments():
            known, number = len(frame_checks.faults), due
            due += 1
            if isinstance(segment, Fault):
                frame_checks.lose(segment)
                previous = None
                continue
            if segment.scan.segment_id != number:
                # A writer beside this inspection has trimmed what was due.
                frame_checks.restart(known)
                previous, due = None, segment.scan.segment_id + 1
            previous = segment if self._check_segment(segment, previous) else None
            if len(frame_checks.faults) > known and self._files.is_trimmed(segment.scan.segment_id):
                frame_checks.restart(known)
                previous = None
        index, fault = check_index(self._files.folder)
        frame_checks.faults += [fault] if fault is not None else []
        finding = self._files.beyond_note()
        if isinstance(finding, Note):
            self._notes.append(finding)
        elif finding is not None:
            frame_checks.faults.append(finding)
        checks, manifest = frame_checks.checks, self._files.manifest
        kinds = {}
        if checks is not None and self._with_records:
            kinds = {kind.name: int(checks.counts[kind]) for kind in RecordKind}
        return Verification(
            path=self._files.folder.path,
            faults=tuple(replace(f, effect=self._effect(f)) for f in frame_checks.faults),
            notes=(*self._notes, *frame_checks.unlisted()),
            epoch=manifest.epoch if manifest else None,
            segments=self._segments,
            frames=frame_checks.frames,
            records=frame_checks.records,
            bytes=self._bytes,
            first_offset=frame_checks.first_offset,
            end_offset=frame_checks.end_offset,
            kinds=kinds,
            recounted_frames=checks.recounted_frames if checks else 0,
            index=index,
        )

    # -- segments -----------------------------------------------------------------------------

    def _check_segment(self, segment: LogSegment, previous: LogSegment | None) -> bool:
        """Check a segment and return True if it is one of this queue."""
        faults = list(self._files.header_faults(segment, previous))
        # Readers refuse a foreign one, and its frames would only seem to be out of order.
        is_foreign = any(fault.kind == "segment-foreign" for fault in faults)
        if is_foreign:
            self._frame_checks.lose(faults[0])
        else:
            self._frame_checks.faults += faults
            if previous is not None:
                self._check_link(segment)
            self._check_frames(segment)
        self._segments += 1
        self._bytes += segment.scan.bytes
        self._progress(TotalBytes(self._bytes))
        return not is_foreign

    def _check_frames(self, segment: LogSegment) -> None:
        scan, frame_checks = segment.scan, self._frame_checks
        frame_checks.begin_segment()
        self._running_crc = scan.first_running_crc() if scan.header is not None else None
        done = self._bytes
        sound = read_whole(
            self._files.folder,
            scan,
            segment.stop,
            lambda byte: self._progress(TotalBytes(done + byte)),
        )
        if sound is not None:
            self._sound_segment(segment, sound)
        else:
            self._frame_by_frame(segment)
        unfinished = frame_checks.end_segment(segment)
        if unfinished:
            self._notes.append(Note(scan.path, segment.stop, unfinished))
        if segment.stop < scan.bytes:
            what = (
                f"{scan.bytes - segment.stop} bytes behind the segment's end; they are never read"
            )
            self._notes.append(Note(scan.path, segment.stop, what))

    def _sound_segment(self, segment: LogSegment, sound: SoundFrames) -> None:
        self._frame_checks.take(segment, sound)
        self._running_crc = sound.running_crc(len(sound))

    def _frame_by_frame(self, segment: LogSegment) -> None:
        scan, frame_checks = segment.scan, self._frame_checks
        for item in scan.frames(segment.stop):
            torn = self._torn_reason(segment, item)
            if torn:
                size = scan.bytes - item.byte
                what = f"torn tail: {size} bytes of an unfinished write ({torn}); not a fault"
                self._notes.append(Note(scan.path, item.byte, what))
                break
            self._progress(TotalBytes(self._bytes + item.byte))
            if isinstance(item, Gap):
                self._running_crc = None
                frame_checks.lose(segment.gap_fault(item))
                continue
            frame_checks.frame(segment, item)
            if self._running_crc is not None:
                self._running_crc = extend_running_crc(self._running_crc, item.header.header_crc)

    @staticmethod
    def _torn_reason(segment: LogSegment, item: ScannedFrame | Gap) -> str:
        """Return a note if an unacknowledged, unfinished write begins here; empty if none does."""
        reason = item.reason if isinstance(item, Gap) else segment.scan.body_problem(item)
        if not reason:
            return ""
        facts = EndFacts(
            byte=item.byte,
            file_bytes=segment.scan.bytes,
            claimed=segment.acknowledged,
            sealed_end=segment.stop if segment.is_sealed else None,
            is_newer=isinstance(item, Gap) and item.newer,
        )
        verdict, _ = judge(LogKind.QUEUE, facts)
        return reason if verdict is Verdict.TORN_TAIL else ""

    def _check_link(self, segment: LogSegment) -> None:
        """The header against what the segment before was found to be."""
        header = segment.scan.header
        if header is None or self._running_crc is None or header.prev_chain == self._running_crc:
            return
        if header.prev_segment == segment.scan.segment_id - 1:
            what = f"segment {header.prev_segment} is not the one that it continues (chain CRC)"
            self._frame_checks.add(segment, "chain", 80, what)

    # -- effects ------------------------------------------------------------------------------

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
        newest = self._frame_checks.newest
        checks = self._frame_checks.checks
        if newest is None or checks is None or not checks.schema.inputs:
            return text
        if end is None:
            return f"{text}, and with them the operator's state at the end"
        if end > newest.end_offset - newest.extent_records:
            return f"{text}; the operator's state at the end needs some of them"
        return f"{text}; the operator's state at the end does not need them"
