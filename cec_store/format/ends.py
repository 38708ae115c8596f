"""The end of a segment, judged by facts about its first bad byte. docs/format.md §7, §9."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class LogKind(Enum):
    """Kind of a log, by what vouches for its frames."""

    QUEUE = "queue"
    """Headers of later frames, and the note of the durable end (§7)."""
    STATE = "state"
    """Spark's commit log: every whole frame counts (§9)."""


class Verdict(Enum):
    """Kind of the place at which the whole frames of a segment end."""

    COMPLETE = "complete"
    """The end of a segment that has a successor."""
    CLEAN_END = "clean end"
    """The end of the log, and of the file."""
    TORN_TAIL = "torn tail"
    """The end of the log; what stands behind is an unfinished write."""
    DAMAGE = "damage"
    """Something that was acknowledged is not there, or not what was written."""
    NEWER = "newer"
    """A sound frame of a later format."""

    @property
    def is_refused(self) -> bool:
        """True if there is an error instead of an end."""
        return self in (Verdict.DAMAGE, Verdict.NEWER)


class EndFacts(NamedTuple):
    """Facts about the bad byte o: the first byte of a segment that begins no whole frame."""

    byte: int
    """o."""
    file_bytes: int
    """Length of the file."""
    claimed: int = 0
    """Bytes for which something intact vouches: headers before and behind o, a note, and in state
    logs other segments that build on this one."""
    sealed_end: int | None = None
    """Byte at which the successor says that the segment ends; ``None`` without a successor."""
    step_byte: int | None = None
    """First byte of the step that the frames before o leave open; ``None`` where they end one."""
    is_newer: bool = False
    """A sound header of an unknown type, codec or flag stands at o."""
    has_frame_beyond: bool = False
    """An intact frame of the segment stands behind o. Asked of state logs only."""
    is_unfinished: bool = False
    """Bytes too short for a frame, or zeros, stand at o. Asked of state logs only."""


def judge(kind: LogKind, facts: EndFacts) -> tuple[Verdict, int]:
    """Return what the bad byte means, and the byte at which the log, or its damage, begins."""
    byte = facts.byte
    if facts.sealed_end is not None and byte == facts.sealed_end:
        if facts.step_byte is not None:
            return Verdict.DAMAGE, facts.step_byte
        return Verdict.COMPLETE, byte
    if facts.is_newer:
        return Verdict.NEWER, byte
    if facts.sealed_end is not None or facts.claimed > byte:
        return Verdict.DAMAGE, byte
    if kind is LogKind.QUEUE and facts.step_byte is not None:
        return Verdict.TORN_TAIL, facts.step_byte
    if byte >= facts.file_bytes:
        return Verdict.CLEAN_END, byte
    if kind is LogKind.STATE and (facts.has_frame_beyond or not facts.is_unfinished):
        return Verdict.DAMAGE, byte
    return Verdict.TORN_TAIL, byte
