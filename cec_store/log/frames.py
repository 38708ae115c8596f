"""A frame with its place in the log, what is said of it, and where the log ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cec_store.format.frame import CONTINUES, COUNTED, FrameHeader
from cec_store.values import Address


@dataclass(frozen=True)
class FrameMarks:
    """Facts that the writer of records gives about a frame besides its records."""

    open_windows: int | None = 0
    """N at the end of the frame; ``None`` where it is not counted."""
    extent_records: int = 0
    """q at the end of the frame."""
    input_upto: int = 0
    """Input taken when the frame was made, summed over the inputs."""
    continues: bool = False
    """The step goes on in the next frame; the fields above are then not those of a step's end."""

    @classmethod
    def of_part(cls, input_upto: int) -> FrameMarks:
        """Return the marks of a frame whose step goes on in the next."""
        return cls(None, 0, input_upto, True)

    @classmethod
    def of_frame(cls, header: FrameHeader) -> FrameMarks:
        """Return the marks of a frame that is written already, to be written again."""
        open_windows = header.open_windows if header.is_counted else None
        return cls(open_windows, header.extent_records, header.input_upto, header.continues)

    @property
    def flags(self) -> int:
        """The frame's flags (docs/format.md §4)."""
        counted = 0 if self.open_windows is None else COUNTED
        return counted | (CONTINUES if self.continues else 0)


class Frame(NamedTuple):
    """A BATCH frame and where it stands."""

    address: Address
    header: FrameHeader

    @property
    def next_address(self) -> Address:
        return Address(self.address.segment_id, self.address.byte + self.header.frame_bytes)


@dataclass(frozen=True)
class LogEnd:
    """End of the readable log."""

    seq: int
    """The next frame's number."""
    offset: int
    """The next record's offset."""
    address: Address
    """End of the last vouched frame."""
    last: Address | None
    """The last BATCH frame; ``None`` in a queue without records."""
