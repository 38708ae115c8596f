"""A segment with how much of it belongs to its log, and the faults that it shows by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cec_store.format.frame import NewerVersion
from cec_store.inspector.damage.faults import Fault
from cec_store.inspector.damage.segment_scan import Gap, ScannedFrame, SegmentScan


@dataclass(frozen=True)
class LogSegment:
    """A segment of a log."""

    scan: SegmentScan
    stop: int
    """End of the segment as its successor says; its length where none says."""
    acknowledged: int
    """Bytes below this are vouched for."""
    is_sealed: bool
    """A successor says where it ends, or it was made whole and its last frame says so."""
    is_newest: bool

    @classmethod
    def whole(cls, scan: SegmentScan) -> LogSegment:
        """A segment of a state log of which every byte counts."""
        return cls(scan, scan.bytes, scan.bytes, False, True)

    def fault(self, kind: str, byte: int, what: str) -> Fault:
        """A fault in this segment."""
        return Fault(kind, self.scan.path, byte, what, byte < self.acknowledged)

    def gap_fault(self, gap: Gap) -> Fault:
        """The fault that a gap between frames is."""
        if gap.newer:
            return self.fault("version", gap.byte, gap.reason)
        if gap.byte >= self.scan.bytes:
            what = f"the file ends {gap.bytes} bytes before the segment does"
            return self.fault("segment-cut", gap.byte, what)
        return self.fault("frame-damaged", gap.byte, gap.what)

    def header_fault(self) -> Fault | None:
        """Return the fault in the segment's header alone, or ``None``."""
        scan, header = self.scan, self.scan.header
        if header is None:
            kind = "version" if isinstance(scan.problem, NewerVersion) else "segment-header"
            return Fault(kind, scan.path, 0, str(scan.problem), True)
        if header.segment_id != scan.segment_id:
            what = f"the header is that of segment {header.segment_id}"
            return Fault("segment-foreign", scan.path, 32, what, True)
        return None

    def is_acknowledged(self, byte: int) -> bool:
        """Return True if the frame that begins at this byte was acknowledged."""
        return self.is_sealed or byte < self.acknowledged

    def acknowledged_items(self, is_trimmed: Callable[[int], bool]) -> Iterator[ScannedFrame | Gap]:
        """Frames and gaps that were vouched for; ends where the segment was removed meanwhile."""
        for item in self.scan.frames(min(self.stop, self.scan.bytes)):
            if item.byte >= self.acknowledged:
                return
            if isinstance(item, Gap) and is_trimmed(self.scan.segment_id):
                return
            yield item
