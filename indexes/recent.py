"""Frames in memory, in order: those that the stored index does not cover (yet)."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from cec_store.indexes.entries import NOTHING_REACHED, About, Broken, Place, Reach, Row
from cec_store.log.frames import Frame
from cec_store.values import Address


class Recent:
    """A run of frames without a gap, 52 bytes each. Not for use by two threads at once."""

    def __init__(
        self,
        next_seq: int | None = None,
        next_address: Address | None = None,
        reached_us: int = NOTHING_REACHED,
    ) -> None:
        """Empty; it goes on at ``next_address``, by default with the oldest frame there is."""
        self.next_seq = next_seq
        self.next_address = next_address
        """Where to look for the next frame; ``None``: at the oldest segment."""
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
        return (self.next_seq or 0) - len(self)

    @property
    def reached_us(self) -> int:
        """Largest timestamp so far, over these frames and all before."""
        return self._reached_us[-1] if self._reached_us else self._reached_before_us

    def add(self, frame: Frame) -> None:
        """Take the next frame.

        Raises:
            Broken: it is not the next.
        """
        header = frame.header
        if self.next_seq is not None and header.seq != self.next_seq:
            raise Broken(f"frame {header.seq} follows where {self.next_seq} was expected")
        self._reached_us.append(max(self.reached_us, header.max_timestamp_us))
        self._maxima_us.append(header.max_timestamp_us)
        self._segments.append(frame.address.segment_id)
        self._bytes.append(frame.address.byte)
        self._offsets.append(header.first_offset)
        self._crcs.append(header.header_crc)
        self.next_seq = header.seq + 1
        self.next_address = frame.next_address

    def forget(self, first_segment: int) -> None:
        """Let trimmed frames go once they are most of all, and let those shine that they outshone.

        Only where these are all the frames there are.
        """
        count = bisect_left(self._segments, first_segment)
        if 2 * count <= len(self):
            return
        for column in (self._segments, self._bytes, self._offsets, self._crcs, self._maxima_us):
            del column[:count]
        self._reached_us = array("q", accumulate(self._maxima_us, max))

    def place(self, seq: int) -> Place | None:
        """Where frame ``seq`` stands; ``None`` if it is none of these."""
        at = seq - self.first_seq
        return self._place(at) if 0 <= at < len(self) else None

    def place_of_offset(self, offset: int) -> Place | None:
        """The last frame that begins at or before record ``offset``; ``None`` before all."""
        at = bisect_right(self._offsets, offset) - 1
        return self._place(at) if at >= 0 else None

    def reach(self, timestamp_us: int) -> Reach | None:
        """The first of these frames with a timestamp at or above; ``None`` if there is none.

        Right only for a timestamp above the largest before these frames.
        """
        at = bisect_left(self._reached_us, timestamp_us)
        return self._reach(at) if at < len(self) else None

    def rows(self, log_id: bytes) -> tuple[list[Row], list[Row]]:
        """All of it as rows of ``frames`` and of ``timestamps``."""
        frames = [self._place(at).encode(log_id) for at in range(len(self))]
        before = [self._reached_before_us, *self._reached_us[:-1]]
        raising = [at for at in range(len(self)) if self._reached_us[at] > before[at]]
        return frames, [self._reach(at).encode(log_id) for at in raising]

    def after(self, reached_us: int) -> Recent:
        """An empty one that goes on where this one ends."""
        return Recent(self.next_seq, self.next_address, reached_us)

    def about(self) -> About:
        """The index's own row once all these frames are in it; there must be one."""
        return About(self._place(len(self) - 1), self.reached_us)

    def _place(self, at: int) -> Place:
        return Place(
            self.first_seq + at, self._segments[at], self._bytes[at], self._offsets[at],
            self._crcs[at],
        )  # fmt: skip

    def _reach(self, at: int) -> Reach:
        before_us = self._reached_us[at - 1] if at else self._reached_before_us
        return Reach(
            self._reached_us[at], self.first_seq + at, self._segments[at], self._bytes[at],
            self._crcs[at], before_us + 1,
        )  # fmt: skip
