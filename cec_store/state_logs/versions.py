"""One version of a state log with all that it builds on, read as a log of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from cec_store.errors import CorruptLog
from cec_store.log.frames import Frame, LogEnd
from cec_store.log.reader import LogReader
from cec_store.log.segment import SegmentReader
from cec_store.state_logs.tree import StateTree


class VersionReader(LogReader):
    """Reads a state log up to the end of one version; shows no frames of later ones."""

    def __init__(self, tree: StateTree, last: Frame) -> None:
        self.folder = tree.folder
        self._tree = tree
        self.last_frame = last

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.last_frame.header.input_upto

    @property
    def built_on(self) -> int:
        """Version that the oldest of these segments continues; 0 for the empty state."""
        return self._schema_frame(self.segments[0]).input_upto

    @property
    def end(self) -> LogEnd:
        """The end of the version's last frame."""
        header, address = self.last_frame.header, self.last_frame.next_address
        return LogEnd(header.seq + 1, header.end_offset, address, self.last_frame.address)

    def refresh(self) -> LogEnd:
        """The same end as ever: a version never changes."""
        return self.end

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Bytes of each segment that this version builds on, oldest segment first.

        Begins with the oldest that is left: what came before may have been forgotten.
        """
        ends: list[tuple[int, int]] = []
        frame: Frame | None = self.last_frame
        while frame is not None:
            segment_id = frame.address.segment_id
            ends.append((segment_id, frame.next_address.byte))
            is_oldest = self._tree.missing_base(segment_id) is not None
            frame = None if is_oldest else self._tree.base(segment_id)
        return dict(reversed(ends))

    @property
    def segments(self) -> Sequence[int]:
        """Numbers of the segments that this version builds on, oldest first."""
        return list(self._ends)

    def reader(self, segment_id: int) -> SegmentReader:
        return self._tree.reader(segment_id)

    def segment_end(self, segment_id: int) -> int:
        return self._ends[segment_id]

    def chain_crc_after(self, frame: Frame) -> int:
        """Return the chain CRC of its segment at a frame's end."""
        segment = self._tree.segment(frame.address.segment_id)
        return segment.running_crcs[frame.next_address.byte]

    def check_body(self, frame: Frame) -> None:
        """Raises :class:`CorruptLog` where a frame's body is not what was written."""
        self._tree.check_body(frame)

    def before(self, frame: Frame) -> Frame | None:
        """The frame before, in this segment or at the place that it builds on."""
        segment_id, header = frame.address.segment_id, frame.header
        previous = self._tree.segment(segment_id).frame_of(header.seq - 1)
        if previous is None:
            previous = self._tree.base(segment_id)
        if previous is not None and (previous.header.seq, previous.header.end_offset) != (
            header.seq - 1,
            header.first_offset,
        ):
            path = self.reader(previous.address.segment_id).path
            reason = f"not the frame before number {header.seq} of segment {segment_id}"
            raise CorruptLog(path, previous.address.byte, reason)
        return previous
