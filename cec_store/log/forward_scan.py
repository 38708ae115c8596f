"""Reading a segment forward to the first place that is no whole frame. docs/format.md §7.

Everyone who decides what the end of a segment means begins with it: opening for append, readers
of a live log, and readers of state logs. They differ in what they make of the place it ends at.
"""

from __future__ import annotations

from collections.abc import Iterable

from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    FrameType,
    SegmentHeader,
    extend_running_crc,
)
from cec_store.format.scan import Bad
from cec_store.log.segment import BadFrame, SegmentReader


class ForwardScan:
    """The whole frames of a segment from its start on, found in one look or in several."""

    def __init__(self, reader: SegmentReader, noted: DurableEnd | None = None) -> None:
        """Begin at the segment's start, or at the end that was ``noted`` and has been proven."""
        self.reader = reader
        self.bad = Bad(SEGMENT_HEADER_BYTES if noted is None else noted.byte, "")
        """Place where the last look ended: the first byte of no whole frame, or its ``stop``."""
        self.claimed = 0 if noted is None else noted.byte
        """The highest ``durable_upto`` of the frames so far."""
        self._due = reader.header.first_seq if noted is None else noted.seq

    def read_on(
        self, stop: int | None = None, bodies: bool = False
    ) -> list[tuple[int, FrameHeader]]:
        """The frames from :attr:`bad` on, as (byte, header); ``bodies`` checks their CRCs too."""
        frames: list[tuple[int, FrameHeader]] = []
        try:
            # What came before a bad frame stays in the list.
            frames.extend(self.reader.frames(self.bad.byte, stop, bodies, self._due))
            assert stop is not None, "without a stop a scan ends at a bad frame"
            self.bad = Bad(stop, "")
        except BadFrame as error:
            self.bad = error.bad
        if frames:
            last = frames[-1][1]
            self._due = last.seq + (last.type == FrameType.BATCH)
            self.claimed = max(self.claimed, max(header.durable_upto for _, header in frames))
        return frames

    def claimed_beyond(self) -> int:
        """The highest ``durable_upto`` of the intact headers beyond :attr:`bad`; 0 without any."""
        beyond = self.reader.headers_beyond(self.bad.byte)
        return max((header.durable_upto for header in beyond), default=0)


def running_crcs_of(
    segment: SegmentHeader,
    frames: Iterable[tuple[int, FrameHeader]],
    noted: DurableEnd | None = None,
) -> dict[int, int]:
    """The running CRC by the byte at which a frame ends, and at that from which they were read."""
    running_crc = segment.running_crc if noted is None else noted.running_crc
    running_crcs = {SEGMENT_HEADER_BYTES if noted is None else noted.byte: running_crc}
    for byte, header in frames:
        running_crc = extend_running_crc(running_crc, header.header_crc)
        running_crcs[byte + header.frame_bytes] = running_crc
    return running_crcs
