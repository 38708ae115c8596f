"""A frame with its place in the log, and where the log ends."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.format.frame import FrameHeader
from cec_store.values import Address


@dataclass(frozen=True)
class Frame:
    """A BATCH frame and where it stands."""

    address: Address
    header: FrameHeader

    @property
    def next_address(self) -> Address:
        return Address(self.address.segment_id, self.address.byte + self.header.frame_bytes)


@dataclass(frozen=True)
class LogEnd:
    """Where the readable log ends."""

    seq: int
    """The next frame's number."""
    offset: int
    """The next record's offset."""
    address: Address
    """End of the last vouched frame."""
    last: Address | None
    """The last BATCH frame; ``None`` in a queue without records."""
