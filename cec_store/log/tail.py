"""What the end of a segment means, as a table of cases. docs/format.md §7."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Footer,
    FrameHeader,
    FrameType,
    extend_running_crc,
)
from cec_store.log.segment import Bad, BadFrame, SegmentReader


class Verdict(Enum):
    """What the first bad byte of a segment is."""

    COMPLETE = "the end of a sealed segment"
    CLEAN_END = "the end of the log"
    TORN_TAIL = "an unfinished write: the end of the log"
    DAMAGE = "damage to what was acknowledged"


@dataclass(frozen=True)
class Facts:
    """What is known about the first bad byte."""

    sealed: bool
    """A successor, or the segment's own FOOTER, says where it ends."""
    at_seal: bool
    """The bad byte is that end."""
    vouched_beyond: bool
    """Some intact header says that bytes beyond it are on disk."""
    at_file_end: bool
    """Nothing follows."""


@dataclass(frozen=True)
class Case:
    """``None`` matches either."""

    sealed: bool | None
    at_seal: bool | None
    vouched_beyond: bool | None
    at_file_end: bool | None
    verdict: Verdict

    def matches(self, facts: Facts) -> bool:
        wanted = (self.sealed, self.at_seal, self.vouched_beyond, self.at_file_end)
        found = (facts.sealed, facts.at_seal, facts.vouched_beyond, facts.at_file_end)
        return all(w is None or w == f for w, f in zip(wanted, found, strict=True))


CASES = (
    Case(True, True, None, None, Verdict.COMPLETE),
    Case(True, False, None, None, Verdict.DAMAGE),
    Case(False, None, True, None, Verdict.DAMAGE),
    Case(False, None, False, True, Verdict.CLEAN_END),
    Case(False, None, False, False, Verdict.TORN_TAIL),
)


def judge(facts: Facts) -> Verdict:
    """The verdict of the one case that matches."""
    (case,) = [case for case in CASES if case.matches(facts)]
    return case.verdict


@dataclass(frozen=True)
class Tail:
    """The end of a segment."""

    verdict: Verdict
    frames: tuple[tuple[int, FrameHeader], ...]
    """Every whole frame before the bad byte, as (byte, header)."""
    end: int
    """The first bad byte."""
    vouched_end: int
    """End of the last frame that some intact header, or the successor, vouches for."""
    running_crc: int
    """Running CRC at ``vouched_end``."""
    file_bytes: int
    reason: str

    @property
    def torn_bytes(self) -> int:
        """Bytes beyond the last whole frame."""
        return max(0, self.file_bytes - self.end)


def read_tail(reader: SegmentReader, sealed_end: int | None = None) -> Tail:
    """Read a segment from its start and decide what its end means; every CRC is checked.

    ``sealed_end`` is where a successor says the segment ends.

    Raises:
        CorruptLog: damage; nothing was changed.
        UnsupportedVersion: a sound frame of a later format.
    """
    frames: list[tuple[int, FrameHeader]] = []
    file_bytes = reader.size()
    bad = Bad(sealed_end or file_bytes, "")
    try:
        # Without a seal even the end of the file must show itself as "no header here".
        frames.extend(reader.frames(stop=sealed_end, bodies=True))
    except BadFrame as error:
        bad = error.bad
    footer_end = _footer_end(reader, frames)
    seal = sealed_end if sealed_end is not None else footer_end
    claims = [header.durable_upto for _, header in frames]
    if bad.byte < file_bytes and seal is None:  # at a live log's end a writer may be appending
        claims += [header.durable_upto for header in reader.headers_beyond(bad.byte)]
    claimed = max(claims, default=0)
    # A frame's own header may vouch for what stands before it, never for itself.
    verdict = judge(
        Facts(seal is not None, bad.byte == seal, claimed > bad.byte, bad.byte >= file_bytes)
    )
    if bad.newer and verdict is not Verdict.COMPLETE:
        # First: frames behind it may well vouch for it, and upgrading mends it.
        raise UnsupportedVersion(f"{reader.path}: byte {bad.byte}: {bad.reason}: upgrade cec-store")
    if verdict is Verdict.DAMAGE:
        raise CorruptLog(reader.path, bad.byte, bad.reason or f"the segment goes on beyond {seal}")
    end = bad.byte
    # A segment is published only when its SCHEMA frame is on disk.
    published = frames[0][0] + frames[0][1].frame_bytes if frames else SEGMENT_HEADER_BYTES
    # A FOOTER says where the segment ends, not that it is on disk itself: the process may have died
    # before the sync of it. A successor does say so.
    vouched = end if sealed_end is not None else min(max(claimed, published), end)
    vouched_end, running_crc = _running_crc_to(reader, frames, vouched)
    return Tail(verdict, tuple(frames), end, vouched_end, running_crc, file_bytes, bad.reason)


def _footer_end(reader: SegmentReader, frames: list[tuple[int, FrameHeader]]) -> int | None:
    """End of the segment by its own FOOTER, which must agree with what stands before it."""
    if not frames or frames[-1][1].type != FrameType.FOOTER:
        return None
    byte, header = frames[-1]
    try:
        footer = Footer.decode(reader.body_at(byte, header).to_pybytes())
    except BadHeader as error:
        raise CorruptLog(reader.path, byte, str(error)) from None
    _, running_crc = _running_crc_to(reader, frames[:-1], byte)
    if footer != Footer(len(frames) - 1, byte, running_crc):
        raise CorruptLog(reader.path, byte, f"the footer says {footer}, found {len(frames) - 1}")
    return byte + header.frame_bytes


def _running_crc_to(
    reader: SegmentReader, frames: list[tuple[int, FrameHeader]], limit: int
) -> tuple[int, int]:
    """Where the last frame that ends at or below ``limit`` ends, and the running CRC there."""
    end = SEGMENT_HEADER_BYTES
    running_crc = extend_running_crc(0, int.from_bytes(reader.header.encode()[-4:], "little"))
    for byte, header in frames:
        if byte + header.frame_bytes > limit:
            break
        end = byte + header.frame_bytes
        running_crc = extend_running_crc(running_crc, header.header_crc)
    return end, running_crc
