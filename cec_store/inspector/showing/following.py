"""Follow a log and show what its writer adds. Reads only, and holds nothing open.

Each frame is shown once: in a queue as soon as it is durable, so that no frame is shown that a
crash can take back; in a state log as soon as it is whole. A place is reported as damage only when
several looks find it bad: until then its writer may be in the middle of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.errors import CorruptLog
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import RECORD_STREAM, SEGMENT_HEADER_BYTES, FrameType
from cec_store.format.manifest import Manifest
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.queue_files import is_trimmed
from cec_store.inspector.damage.segment_scan import Gap, ScannedFrame, SegmentScan
from cec_store.inspector.damage.state_log_files import StateLogFiles
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, NoteRow, Row
from cec_store.inspector.showing.dumping import Chosen, Dumper
from cec_store.log.epochs import read_manifest
from cec_store.log.known_end import read_known_end
from cec_store.log.positions import replaced
from cec_store.state_logs.segments import MERGED
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_id_of, segment_name

_LOOKS = 4
_Shown = Iterator[Chosen | DamageRow | NoteRow]


@dataclass
class _Progress:
    """Progress of showing one segment."""

    byte: int = SEGMENT_HEADER_BYTES
    claimed: int = 0
    """Bytes that its own frames vouch for."""
    size: int = -1
    """Bytes of the segment at the last look that met something bad."""
    bad_looks: int = 0
    """Number of looks in a row that have met it."""
    is_reported: bool = False
    """True once it is reported that the segment has no sound header."""
    shown: array[int] = field(default_factory=lambda: array("Q"))
    """Identities of the frames shown, in a state log."""

    def is_bad_for_good(self, size: int) -> bool:
        """Count this look, and return True once the size has not changed for several looks."""
        self.bad_looks = self.bad_looks + 1 if size == self.size else 1
        self.size = size
        return self.bad_looks >= _LOOKS

    def pass_over(self) -> None:
        """Go on behind what was judged; the next bad place is looked at anew."""
        self.bad_looks = 0


class Follower(ABC):
    """One log, from its beginning on and along with its writer."""

    def __init__(self, folder: Folder, selection: DumpFilter, decoder: RowDecoder | None) -> None:
        self._folder = folder
        self._segment_id = selection.segment_id
        self._dumper = Dumper(folder, selection, decoder, self._is_gone)
        self._segments: dict[int, _Progress] = {}
        self._has_polled = False

    def poll(self) -> Iterator[Row]:
        """Yield the rows that have been added since the last look.

        Raises:
            NotAQueue, CorruptLog, UnsupportedVersion: a queue's manifest cannot be read.
            QueueReplaced: it is another queue's.
        """
        shown = self._new()
        if not self._has_polled:
            self._has_polled = True
            shown = self._dumper.last(shown)
        return self._dumper.show(shown)

    @abstractmethod
    def _new(self) -> _Shown:
        """Yield the frames and damage in the log that have not been shown."""

    @abstractmethod
    def _is_gone(self, segment_id: int) -> bool:
        """Return True if a segment has been removed by now."""

    def _choose(self, segment: LogSegment, item: ScannedFrame | Gap) -> _Shown:
        if self._segment_id in (None, segment.scan.segment_id):
            yield from self._dumper.choose(segment, item)


class QueueFollower(Follower):
    """A queue: its segments in order, over rolls and trims."""

    _at = -1
    """The segment that is being shown."""
    _log_id: bytes | None = None
    _due_offset: int | None = None
    """The next record; ``None`` where damage hides which it is."""

    def _is_gone(self, segment_id: int) -> bool:
        return is_trimmed(self._folder, segment_id)

    def _new(self) -> _Shown:
        manifest, noted = self._known_end()
        if self._log_id not in (None, manifest.log_id):
            raise replaced(self._folder.path)
        self._log_id = manifest.log_id
        self._at = max(self._at, manifest.first_segment)
        while True:
            progress = self._segments.setdefault(self._at, _Progress())
            is_newest = self._at == manifest.newest_segment
            scan = SegmentScan.if_there(self._folder, self._at)
            if scan is not None:
                stop = None if is_newest else self._stop(scan)
                if noted is not None and noted.salt == scan.salt:
                    progress.claimed = max(progress.claimed, noted.byte)
                yield from self._segment(scan, progress, stop)
                is_done = stop is not None and progress.byte >= stop
            else:
                is_done = self._is_gone(self._at)
                if not is_done and progress.is_bad_for_good(-1):
                    path = f"{self._folder.path}/{segment_name(self._at)}"
                    yield DamageRow(path, 0, "the segment is missing", True)
                    self._due_offset, is_done = None, True
            if is_newest or not (is_done or self._is_gone(self._at)):
                return
            del self._segments[self._at]
            self._at += 1

    def _known_end(self) -> tuple[Manifest, DurableEnd | None]:
        """Return the manifest, and the note about its newest segment, read before that is."""
        try:
            known = read_known_end(self._folder)
        except CorruptLog:  # what can be shown is shown, and what is wrong is for `verify` to say
            return read_manifest(self._folder), None
        return known.manifest, known.noted

    def _stop(self, scan: SegmentScan) -> int:
        """Return the end of a segment that has a successor; bytes behind it are not of the log."""
        successor = SegmentScan.if_there(self._folder, scan.segment_id + 1)
        header = successor.header if successor is not None else None
        is_next = header is not None and header.prev_segment == scan.segment_id
        return header.prev_bytes if header is not None and is_next else scan.bytes

    def _segment(self, scan: SegmentScan, progress: _Progress, stop: int | None) -> _Shown:
        if scan.problem is not None and not progress.is_reported:
            if not progress.is_bad_for_good(scan.bytes) or self._is_gone(scan.segment_id):
                return
            progress.pass_over()
            progress.is_reported = True
            yield DamageRow(scan.path, 0, str(scan.problem), True)
        waiting: deque[ScannedFrame | Gap] = deque()
        for item in scan.frames(scan.bytes if stop is None else stop, progress.byte):
            waiting.append(item)
            if isinstance(item, ScannedFrame):
                progress.claimed = max(progress.claimed, _claim(item))
            while waiting and (stop is not None or _is_vouched(waiting[0], progress.claimed)):
                due = waiting.popleft()
                if isinstance(due, Gap):
                    if not progress.is_bad_for_good(scan.bytes):
                        return
                    progress.pass_over()
                    self._due_offset = None
                else:
                    yield from self._trimmed(scan, due)
                reached = scan.bytes if stop is None else stop
                segment = LogSegment(
                    scan, reached, progress.claimed, stop is not None, stop is None
                )
                progress.byte = due.end_byte
                yield from self._choose(segment, due)

    def _trimmed(self, scan: SegmentScan, frame: ScannedFrame) -> Iterator[NoteRow]:
        """Yield a note on records that were trimmed before they could be shown."""
        header = frame.header
        if header.stream_id != RECORD_STREAM:
            return
        due, self._due_offset = self._due_offset, header.end_offset
        if due is not None and due < header.first_offset:
            what = f"records {due:,} to {header.first_offset - 1:,} were trimmed before they"
            yield NoteRow(scan.path, f"{what} could be shown")


def _claim(frame: ScannedFrame) -> int:
    """Return the byte up to which a frame says that its segment is on disk."""
    # A segment is published only once its first frame is on disk.
    is_first = frame.byte == SEGMENT_HEADER_BYTES
    return frame.end_byte if is_first else frame.header.durable_upto


def _is_vouched(item: ScannedFrame | Gap, claimed: int) -> bool:
    return (item.byte < claimed) if isinstance(item, Gap) else (item.end_byte <= claimed)


class StateFollower(Follower):
    """A state log: all its segments, each with a writer of its own; maintenance merges them."""

    def _is_gone(self, segment_id: int) -> bool:
        return segment_name(segment_id) not in self._folder.names()

    def _new(self) -> _Shown:
        names = self._folder.names()
        ids = sorted(number for number in map(segment_id_of, names) if number is not None)
        for segment_id in ids:
            progress = self._segments.get(segment_id, _Progress())
            try:
                is_same = self._folder.size(segment_name(segment_id)) == progress.byte
            except FileNotFoundError:
                continue
            scan = None if is_same else SegmentScan.if_there(self._folder, segment_id)
            if scan is not None:
                yield from self._segment(scan, progress)
            self._segments[segment_id] = progress
        for segment_id in self._segments.keys() - {*ids}:
            del self._segments[segment_id]

    def _segment(self, scan: SegmentScan, progress: _Progress) -> _Shown:
        known = self._shown_before(scan.segment_id)
        segment = LogSegment.whole(scan)
        if scan.problem is not None and not progress.is_reported:
            if not self._is_damage(scan, progress, 0):
                return
            progress.is_reported = True
            yield DamageRow(scan.path, 0, str(scan.problem), True)
        has_noted = False
        for item in scan.frames(scan.bytes, progress.byte):
            is_bad = isinstance(item, Gap) or scan.body_problem(item) != ""
            if is_bad and not self._is_damage(scan, progress, item.byte):
                return
            progress.byte = item.end_byte
            if isinstance(item, ScannedFrame):
                name = (item.header.seq & 0xFFFFFFFF) << 32 | item.header.body_crc
                progress.shown.append(name)
                index = int(np.searchsorted(known, name))
                if index < len(known) and known[index] == name:
                    if not has_noted and item.header.type == FrameType.BATCH:
                        what = "made by maintenance: frames that stand above are not shown again"
                        yield NoteRow(scan.path, what)
                        has_noted = True
                    continue
            yield from self._choose(segment, item)

    def _shown_before(self, segment_id: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return the sorted identities of shown frames that may now be in this merged segment."""
        others = [p.shown for other, p in self._segments.items() if other != segment_id]
        if not segment_id & MERGED or not others:
            return np.empty(0, np.uint64)
        return np.sort(np.concatenate([np.frombuffer(shown, np.uint64) for shown in others]))

    def _is_damage(self, scan: SegmentScan, progress: _Progress, byte: int) -> bool:
        """Return True if a bad place is damage, and not a write that may still be finished."""
        if not progress.is_bad_for_good(scan.bytes) or progress.bad_looks > _LOOKS:
            return False  # judged once, as long as nothing is added
        segment = StateLogFiles(self._folder).segment(scan.segment_id)
        is_damage = segment is not None and byte < segment.acknowledged
        if is_damage:
            progress.pass_over()
        return is_damage
