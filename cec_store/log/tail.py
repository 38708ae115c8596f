"""The end of a segment: a torn end, or damage. docs/format.md §7."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cec_store.errors import CorruptLog
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
)
from cec_store.log.forward_scan import ForwardScan, running_crcs_of
from cec_store.log.known_end import prove_noted
from cec_store.log.segment import Bad, SegmentReader, refusal


class Verdict(Enum):
    """Kind of the first bad byte of a segment."""

    COMPLETE = "the end of a sealed segment"
    CLEAN_END = "the end of the log"
    TORN_TAIL = "an unfinished write: the end of the log"
    DAMAGE = "damage to what was acknowledged"


def judge(sealed: bool, at_seal: bool, vouched_beyond: bool, at_file_end: bool) -> Verdict:
    """Return what the first bad byte of a segment means: docs/format.md §7, row by row.

    ``sealed``: a successor says where it ends. ``at_seal``: the bad byte is that end.
    ``vouched_beyond``: some intact header says that bytes beyond it are on disk.
    """
    if sealed:
        return Verdict.COMPLETE if at_seal else Verdict.DAMAGE
    if vouched_beyond:
        return Verdict.DAMAGE
    return Verdict.CLEAN_END if at_file_end else Verdict.TORN_TAIL


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
    """Where the reading began; ``None`` for the start of the segment."""

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
    found = scan.read_on(sealed_end, bodies=True)
    frames += found
    bad = scan.bad
    running_crcs = running_crcs_of(reader.header, found, noted)
    claimed = scan.claimed
    sealed = sealed_end is not None
    if bad.byte < file_bytes and not sealed:  # at a live log's end a writer may be appending
        claimed = max(claimed, scan.claimed_beyond())
    # A frame's own header may vouch for what stands before it, never for itself.
    verdict = judge(
        sealed, bad.byte == sealed_end, claimed > bad.byte, at_file_end=bad.byte >= file_bytes
    )
    # A later format is named even where frames behind it vouch for it: upgrading mends that.
    if verdict is Verdict.DAMAGE or (bad.newer and verdict is not Verdict.COMPLETE):
        raise refusal(reader, bad)
    end, reason = bad.byte, bad.reason
    whole = without_unfinished_step(frames)
    if len(whole) < len(frames):
        end, reason = frames[len(whole)][0], "a step of several frames was not finished"
        if verdict is Verdict.COMPLETE:
            raise CorruptLog(reader.path, end, f"{reason}, and yet the segment is said to be")
        verdict, frames = Verdict.TORN_TAIL, whole
    # A segment is published only when its SCHEMA frame is on disk.
    published = frames[0][0] + frames[0][1].frame_bytes if frames else SEGMENT_HEADER_BYTES
    vouched = end if sealed else min(max(claimed, published), end)
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
        newer = isinstance(error, NewerVersion)
        raise refusal(reader, Bad(SEGMENT_HEADER_BYTES, str(error), newer)) from None
    return SEGMENT_HEADER_BYTES, header
