"""Frames in memory, in order: those that the stored index does not cover (yet)."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from cec_store.indexes.entries import (
    NOTHING_REACHED,
    BadIndex,
    Coverage,
    FrameEntry,
    Row,
    TimestampEntry,
)
from cec_store.log.frames import Frame
from cec_store.values import Address


class RecentFrames:
    """A run of frames without a gap, 52 bytes each; the lock of `TimestampIndex` guards it."""

    def __init__(
        self,
        next_seq: int | None = None,
        next_address: Address | None = None,
        reached_us: int = NOTHING_REACHED,
    ) -> None:
        """Empty; the first frame to add is at ``next_address``, by default the oldest there is."""
        self.next_seq = next_seq
        self.next_address = next_address
        """Address at which to look for the next frame; ``None`` for the oldest segment."""
        self._reached_before_us = reached_us
        self._segments = array("Q")
        self._bytes = array("Q")
        self._offsets = array("Q")
        self._crcs = array("I")
        self._maxima_us = array("q")
        self._reached_us = array("q")

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first_seq(self) -> int:
        """Number of the first frame."""
        return (self.next_seq or 0) - len(self)

    @property
    def reached_us(self) -> int:
        """Largest timestamp so far, over these frames and all before."""
        return self._reached_us[-1] if self._reached_us else self._reached_before_us

    def add(self, frame: Frame) -> None:
        """Take the next frame.

        Raises:
            BadIndex: it is not the next.
        """
        header = frame.header
        if self.next_seq is not None and header.seq != self.next_seq:
            raise BadIndex(f"frame {header.seq} follows where {self.next_seq} was expected")
        self._reached_us.append(max(self.reached_us, header.max_timestamp_us))
        self._maxima_us.append(header.max_timestamp_us)
        self._segments.append(frame.address.segment_id)
        self._bytes.append(frame.address.byte)
        self._offsets.append(header.first_offset)
        self._crcs.append(header.header_crc)
        self.next_seq = header.seq + 1
        self.next_address = frame.next_address

    def forget(self, first_segment: int) -> None:
        """Drop trimmed frames once they are more than half of these.

        The largest timestamp so far is counted anew over those that are left, so this is right
        only where no stored index covers frames before these.
        """
        count = bisect_left(self._segments, first_segment)
        if 2 * count <= len(self):
            return
        for column in (self._segments, self._bytes, self._offsets, self._crcs, self._maxima_us):
            del column[:count]
        self._reached_us = array("q", accumulate(self._maxima_us, max))

    def frame_entry(self, seq: int) -> FrameEntry | None:
        """Return the entry of frame ``seq``; ``None`` if it is none of these."""
        at = seq - self.first_seq
        return self._frame_entry(at) if 0 <= at < len(self) else None

    def entry_of_offset(self, offset: int) -> FrameEntry | None:
        """The last frame that begins at or before record ``offset``; ``None`` before all."""
        at = bisect_right(self._offsets, offset) - 1
        return self._frame_entry(at) if at >= 0 else None

    def timestamp_entry(self, timestamp_us: int) -> TimestampEntry | None:
        """The first of these frames with a timestamp at or above; ``None`` if there is none.

        Right only for a timestamp above the largest before these frames.
        """
        at = bisect_left(self._reached_us, timestamp_us)
        return self._timestamp_entry(at) if at < len(self) else None

    def rows(self, log_id: bytes) -> tuple[list[Row], list[Row]]:
        """All of it as rows of ``frames`` and of ``timestamps``."""
        frames = [self._frame_entry(at).encode(log_id) for at in range(len(self))]
        before = [self._reached_before_us, *self._reached_us[:-1]]
        raising = [at for at in range(len(self)) if self._reached_us[at] > before[at]]
        return frames, [self._timestamp_entry(at).encode(log_id) for at in raising]

    def after(self, reached_us: int) -> RecentFrames:
        """An empty run whose first frame is the next after these."""
        return RecentFrames(self.next_seq, self.next_address, reached_us)

    def coverage(self) -> Coverage:
        """Return the index's coverage once these frames are stored; there must be at least one."""
        return Coverage(self._frame_entry(len(self) - 1), self.reached_us)

    def _frame_entry(self, at: int) -> FrameEntry:
        return FrameEntry(
            self.first_seq + at, self._segments[at], self._bytes[at], self._offsets[at],
            self._crcs[at],
        )  # fmt: skip

    def _timestamp_entry(self, at: int) -> TimestampEntry:
        before_us = self._reached_us[at - 1] if at else self._reached_before_us
        return TimestampEntry(
            self._reached_us[at], self.first_seq + at, self._segments[at], self._bytes[at],
            self._crcs[at], before_us + 1,
        )  # fmt: skip
