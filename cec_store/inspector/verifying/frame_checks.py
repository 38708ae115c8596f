"""Checks the frames of a queue one after the other, and goes on after each fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    NONE,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    extend_running_crc,
)
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import ScannedFrame
from cec_store.inspector.damage.whole_segments import SoundFrames
from cec_store.inspector.verifying.record_checks import RecordChecks

_REPEATS_MAX = 3


class FrameChecks:
    """Checks the frames of a stream in order: each goes on where the one before has ended."""

    def __init__(self, with_records: bool, is_whole: bool) -> None:
        """``is_whole``: nothing is trimmed, so that the stream begins at 0."""
        self.faults: list[Fault] = []
        self.frames = self.records = 0
        """Intact ones: frames with records, and their records."""
        self.checks: RecordChecks | None = None
        self.newest: FrameHeader | None = None
        """Header of the last frame with records."""
        self.first_offset = 0
        self.in_step = False
        """The last frame with records says that its step goes on."""
        self._with_records = with_records
        self._unending: list[int] = []
        """Faults of which it is not known yet where records go on."""
        self._seq = 0 if is_whole else None
        self._offset = 0 if is_whole else None
        self._previous: tuple[int, int] | None = (NONE, 0)
        self._shift: tuple[int, int] | None = None
        """Segment of the frame before the last one, and by how many bytes its link was off."""
        """Address of the last BATCH; ``None`` where the next one says it."""
        self._has_schema = False
        self._repeats: dict[tuple[str, str], int] = {}
        self._link: tuple[int, int] | None = None
        """Byte at which the next frame begins, and the chain CRC before it."""

    @property
    def end_offset(self) -> int:
        """Offset behind the last record seen; 0 before the first."""
        return self._offset or 0

    def start_at(self, seq: int, offset: int, previous: tuple[int, int] | None) -> None:
        """The stream goes on with this frame and record."""
        self._seq, self._offset, self._previous = seq, offset, previous
        self.first_offset = offset

    def lose(self, fault: Fault) -> None:
        """Records are out of reach, from the expected one on; where they go on is seen later."""
        self._unending.append(len(self.faults))
        self.faults.append(replace(fault, first_offset=self._offset))

    def restart(self, faults: int) -> None:
        """Segments were trimmed meanwhile: only the first ``faults`` count, and all begins anew."""
        del self.faults[faults:]
        self._unending = [index for index in self._unending if index < faults]
        self._seq = self._offset = None

    def add(self, segment: LogSegment, kind: str, byte: int, what: str) -> None:
        """A fault that keeps no record out of reach. One cause may show in many frames."""
        repeated = (segment.scan.path, kind)
        self._repeats[repeated] = self._repeats.get(repeated, 0) + 1
        if self._repeats[repeated] <= _REPEATS_MAX:
            self.faults.append(segment.fault(kind, byte, what))

    def unlisted(self) -> list[Note]:
        """Return notes that count the faults found beyond those that are listed."""
        return [
            Note(path, 0, f"{count - _REPEATS_MAX} more faults of the kind {kind} in this segment")
            for (path, kind), count in self._repeats.items()
            if count > _REPEATS_MAX
        ]

    def begin_segment(self) -> None:
        """Another segment begins."""
        self._has_schema = self.in_step = False

    def end_segment(self, segment: LogSegment) -> str:
        """Return a note if the segment ends with an unfinished write: a step without all of its
        frames.

        The note is empty otherwise; a segment that must be complete gets a fault instead.
        """
        if not self.in_step or self._unending:
            return ""
        is_complete = segment.is_sealed or not segment.is_newest
        if is_complete or self._last_byte() < segment.acknowledged:  # whole steps are vouched for
            self.add(segment, "step", self._last_byte(), "the segment ends within its step")
            return ""
        return "the last frames are of a step that was not finished; not a fault"

    def _last_byte(self) -> int:
        """Return the byte of the last frame with records in its segment; 0 if unknown."""
        return 0 if self._previous is None else self._previous[1]

    def frame(self, segment: LogSegment, scanned: ScannedFrame, is_sound: bool = False) -> None:
        """The next frame of the segment whose header verifies; ``is_sound``: its body does too."""
        header = scanned.header
        if self.in_step and header.type != FrameType.BATCH:
            what = f"its step goes on, but a frame of another type follows at byte {scanned.byte}"
            self.add(segment, "step", self._last_byte(), what)
            self.in_step = False
        self._check_link(segment, scanned)
        # The last frame of an object vouches for itself: it is made whole or not at all.
        is_whole = header.durable_upto == scanned.end_byte == segment.scan.bytes
        if header.durable_upto > scanned.byte and not is_whole:
            what = f"it vouches for {header.durable_upto} bytes, of which it is a part itself"
            self.add(segment, "durable-mark", scanned.byte, what)
        if header.seq != self._seq and self._seq is not None and not self._unending:
            what = f"its number is {header.seq}, not {self._seq}"
            self.lose(segment.fault("sequence", scanned.byte, what))
        self._seq = header.seq
        if header.stream_id == RECORD_STREAM:
            self._resume(scanned)
            self._check_position(segment, scanned)
        problem = "" if is_sound else segment.scan.body_problem(scanned)
        if problem:
            self.faults.append(
                replace(
                    segment.fault("body-checksum", scanned.byte, problem),
                    first_offset=header.first_offset if header.record_count else None,
                    end_offset=header.end_offset,
                )
            )
        if header.type == FrameType.SCHEMA:
            self._check_schema(segment, scanned, bool(problem))
        if header.type == FrameType.BATCH:
            self._check_records(segment, scanned, bool(problem))
            self._seq, self._offset = header.seq + 1, header.end_offset
            self._previous = (scanned.segment_id, scanned.byte)
            self.newest, self.in_step = header, header.continues
            self.frames += 1
            self.records += header.record_count

    def _check_link(self, segment: LogSegment, scanned: ScannedFrame) -> None:
        if scanned.byte == SEGMENT_HEADER_BYTES and segment.scan.header is not None:
            self._link = (scanned.byte, segment.scan.first_running_crc())
        header = scanned.header
        byte, due = self._link or (-1, 0)
        if byte == scanned.byte and header.chain_crc != due:
            what = f"its chain CRC {header.chain_crc:08x} is not that of the frames before it"
            self.add(segment, "link", scanned.byte, what)
        running_crc = extend_running_crc(header.chain_crc, header.header_crc)
        self._link = (scanned.byte + header.frame_bytes, running_crc)

    def take(self, segment: LogSegment, sound: SoundFrames) -> None:
        """A segment of sound frames: all at once where each stands as it should."""
        self.frame(segment, sound.found(0), is_sound=True)
        if not self._take_rest(segment, sound):
            for number in range(1, len(sound)):
                self.frame(segment, sound.found(number), is_sound=True)

    def _take_rest(self, segment: LogSegment, sound: SoundFrames) -> bool:
        """Every check of :meth:`frame`; nothing is taken where one fails."""
        assert segment.scan.header is not None
        headers, starts = sound.headers[1:], sound.starts[1:]
        is_batch = headers["type"] == FrameType.BATCH.value
        if not len(headers):
            return True
        if self._unending or self._with_records or not self._has_schema or self._offset is None:
            return False
        batches, at = headers[is_batch], starts[is_batch]
        counts = batches["record_count"].astype(np.int64)
        offsets = self._offset + np.cumsum(counts) - counts
        numbers = (self._seq or 0) + np.cumsum(is_batch) - is_batch
        links = np.stack([np.full(len(at), segment.scan.segment_id), np.roll(at, 1)])
        stated = np.stack([batches["prev_segment"], batches["prev_byte"]]).astype(np.int64)
        if len(at):
            links[:, 0] = stated[:, 0]
            if self._previous is not None:
                links[:, 0] = np.array(self._previous, np.uint64).astype(np.int64)
        durable = headers["durable_upto"].astype(np.int64)
        ends = starts + FRAME_HEADER_BYTES + headers["body_bytes"].astype(np.int64)
        is_right = (
            # The chain CRC of the last frame covers the headers of all others.
            int(headers["chain_crc"][-1]) == sound.running_crc(len(sound) - 1)
            and ((durable <= starts) | ((durable == ends) & (ends == segment.scan.bytes))).all()
            and (headers["stream_id"] == RECORD_STREAM).all()
            and (headers["seq"].astype(np.int64) == numbers).all()
            and (batches["first_offset"].astype(np.int64) == offsets).all()
            and (batches["schema_byte"] == SEGMENT_HEADER_BYTES).all()
            and (stated == links).all()
        )
        if is_right and len(at):
            last = int(np.flatnonzero(is_batch)[-1]) + 1
            self.newest = sound.found(last).header
            self.in_step = self.newest.continues
            self._seq, self._offset = self.newest.seq + 1, self.newest.end_offset
            self._previous = (segment.scan.segment_id, int(at[-1]))
            self.frames += len(at)
            self.records += int(counts.sum())
        return bool(is_right)

    def _resume(self, scanned: ScannedFrame) -> None:
        """Take from this frame where the stream goes on, and so where what was lost ends."""
        header = scanned.header
        if self._offset is None:
            self.first_offset = header.first_offset
        if self._unending or self._offset is None:
            for index in self._unending:
                fault = self.faults[index]
                first = self.first_offset if fault.first_offset is None else fault.first_offset
                self.faults[index] = replace(
                    fault, first_offset=first, end_offset=header.first_offset
                )
            self._unending.clear()
            if self.checks is not None and self._offset != header.first_offset:
                self.checks.forget(header.first_offset)
            self._seq, self._offset = header.seq, header.first_offset
            self._previous = (header.prev_segment, header.prev_byte)

    def _check_position(self, segment: LogSegment, scanned: ScannedFrame) -> None:
        header = scanned.header
        if header.first_offset != self._offset:
            what = f"its first record is {header.first_offset}, not {self._offset}"
            self.add(segment, "offsets", scanned.byte, what)
            self._offset = header.first_offset
            if self.checks is not None:
                self.checks.forget(header.first_offset)
        link = (header.prev_segment, header.prev_byte)
        due = link if self._previous is None else self._previous
        # Behind bytes that are gone all frames are off by as many: the first one says it.
        shift = (due[0], due[1] - link[1]) if link[0] == due[0] else None
        if link != due and (shift is None or shift != self._shift):
            what = "it names byte {1} of segment {0} as the frame before".format(*link)
            if link[0] == NONE:
                what = "it names no frame before it, though there is one"
            self.add(segment, "previous", scanned.byte, what)
        self._shift = shift

    def _check_schema(self, segment: LogSegment, scanned: ScannedFrame, is_damaged: bool) -> None:
        if scanned.byte != SEGMENT_HEADER_BYTES:
            self.add(segment, "schema", scanned.byte, "a schema that does not begin the segment")
        header = segment.scan.header
        if header is not None and header.first_seq != scanned.header.seq:
            what = f"the segment is said to begin with frame {header.first_seq}"
            self.add(segment, "sequence", 48, f"{what}, but begins with {scanned.header.seq}")
        if is_damaged:
            return
        try:
            schema = segment.scan.schema(scanned.header._replace(schema_byte=scanned.byte))
        except BadHeader as error:
            self.add(segment, "schema", scanned.byte, str(error))
            return
        self._has_schema = True
        if self.checks is None or self.checks.schema.arrow != schema.arrow:
            if self.checks is not None:
                self.add(
                    segment, "schema", scanned.byte, "other columns than in the segment before"
                )
            self.checks = RecordChecks(schema)

    def _check_records(self, segment: LogSegment, scanned: ScannedFrame, is_damaged: bool) -> None:
        header, checks = scanned.header, self.checks
        if header.schema_byte != SEGMENT_HEADER_BYTES:
            what = f"it names byte {header.schema_byte} as its schema"
            self.add(segment, "schema", scanned.byte, what)
        # Without its schema no record of a segment can be read; that is a fault of its own.
        if is_damaged or checks is None or not self._has_schema:
            if checks is not None:
                checks.forget(header.end_offset)
            return
        if not self._with_records:
            return
        try:
            records = segment.scan.records(scanned)
        except BadHeader as error:
            self.add(segment, "body-structure", scanned.byte, str(error))
            checks.forget(header.end_offset)
            return
        for kind, what in checks.check(header, records):
            self.add(segment, kind, scanned.byte, what)
