"""The end of a segment: a torn end, or damage. docs/format.md §7."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.errors import CorruptLog
from cec_store.format.durable_end import DurableEnd
from cec_store.format.ends import EndFacts, LogKind, Verdict, judge
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
)
from cec_store.format.scan import refusal
from cec_store.log.forward_scan import ForwardScan, running_crcs_of
from cec_store.log.known_end import prove_noted
from cec_store.log.segment import SegmentReader


@dataclass(frozen=True)
class Tail:
    """The end of a segment."""

    reader: SegmentReader
    verdict: Verdict
    frames: tuple[tuple[int, FrameHeader], ...]
    """The first frame, and each whole one of a whole step from where the reading began, as
    (byte, header)."""
    end: int
    """The first bad byte, or before it the beginning of a step that was not finished."""
    vouched_end: int
    """End of the last frame that some intact header, or the successor, vouches for."""
    running_crc: int
    """Running CRC at ``vouched_end``."""
    file_bytes: int
    reason: str
    noted: DurableEnd | None = None
    """Durable end at which the reading began; ``None`` for the start of the segment."""

    @property
    def torn_bytes(self) -> int:
        """Bytes beyond the last whole step."""
        return max(0, self.file_bytes - self.end)


def read_tail(
    reader: SegmentReader,
    sealed_end: int | None = None,
    noted: DurableEnd | None = None,
    proven: DurableEnd | None = None,
) -> Tail:
    """Read a segment and decide what its end means; every CRC of what is read is checked.

    From its start on, or from where its writer has ``noted`` its durable end; what was ``proven``
    of it a moment ago is not read again. ``sealed_end`` is where a successor says the segment ends.

    Raises:
        CorruptLog: damage; nothing was changed.
        UnsupportedVersion: a sound frame of a later format.
    """
    file_bytes = reader.size()
    frames: list[tuple[int, FrameHeader]] = []
    if noted is not None:
        if noted != proven:
            prove_noted(noted, reader)
        frames = [_first_frame(reader)]
    scan = ForwardScan(reader, noted)
    # Without a seal even the end of the file must show itself as "no header here".
    scanned = scan.read_on(sealed_end, bodies=True)
    frames += scanned
    bad = scan.bad
    running_crcs = running_crcs_of(reader.header, scanned, noted)
    claimed = scan.claimed
    if bad.byte < file_bytes and sealed_end is None:
        claimed = max(claimed, scan.claimed_beyond())
    whole = without_unfinished_step(frames)
    is_whole = len(whole) == len(frames)
    step_byte = None if is_whole else frames[len(whole)][0]
    facts = EndFacts(bad.byte, file_bytes, claimed, sealed_end, step_byte, bad.newer)
    verdict, end = judge(LogKind.QUEUE, facts)
    reason = bad.reason if end == bad.byte else "a step of several frames was not finished"
    if verdict is Verdict.DAMAGE and end != bad.byte:
        raise CorruptLog(reader.path, end, f"{reason}, and yet the segment is said to be")
    if verdict.is_refused:
        raise bad.refusal(reader.path)
    frames = whole
    # A segment is published only when its SCHEMA frame is on disk.
    published = frames[0][0] + frames[0][1].frame_bytes if frames else SEGMENT_HEADER_BYTES
    vouched = end if sealed_end is not None else min(max(claimed, published), end)
    vouched_end = max(byte for byte in running_crcs if byte <= max(vouched, SEGMENT_HEADER_BYTES))
    crc = running_crcs[vouched_end]
    return Tail(reader, verdict, tuple(frames), end, vouched_end, crc, file_bytes, reason, noted)


def without_unfinished_step(
    frames: list[tuple[int, FrameHeader]],
) -> list[tuple[int, FrameHeader]]:
    """The frames before a step whose last frame is not among them; all, where there is none."""
    batches = [at for at, (_, header) in enumerate(frames) if header.type == FrameType.BATCH]
    begins = len(frames)
    while batches and frames[batches[-1]][1].continues:
        begins = batches.pop()
    return frames[:begins]


def _first_frame(reader: SegmentReader) -> tuple[int, FrameHeader]:
    try:
        header = reader.header_at(SEGMENT_HEADER_BYTES)
        reader.body_at(SEGMENT_HEADER_BYTES, header)
    except BadHeader as error:
        raise refusal(reader.path, SEGMENT_HEADER_BYTES, error) from None
    return SEGMENT_HEADER_BYTES, header
