"""Read from frame headers how extent, windows and bytes of a log have grown. Reads only.

At most :data:`BUCKETS_MAX` buckets hold it, however long the log: when there are more, pairs of
them become one, which keeps the smallest and the largest extent of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from cec_store.errors import CorruptLog
from cec_store.format.frame import FrameHeader, FrameType
from cec_store.inspector.damage.faults import Fault
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import ScannedFrame
from cec_store.inspector.damage.state_log_files import LogFiles, StateLogFiles, files_of
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.storage.folder import Folder
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

BUCKETS_MAX = 1024
_NO_EXTENT = 2**63


@dataclass(slots=True)
class HistoryBucket:
    """Neighbouring frames of a log."""

    number: int
    """Number of the last frame: the version in a state log, else ``seq``."""
    timestamp_us: int
    """The largest so far."""
    open_windows: int | None
    """N at the end; ``None`` where no frame says."""
    extent_low: int
    """The smallest q of frames whose windows are counted; huge without any."""
    extent_high: int
    """The largest; 0 without any."""
    records: int
    bytes: int
    first_us: int
    """The least timestamp of its records; huge without any."""
    last_us: int
    """The greatest timestamp of its records; that of the smallest int64 without any."""

    def take(self, later: HistoryBucket) -> None:
        """Reach to the end of the next one as well."""
        self.number = later.number
        self.timestamp_us = max(self.timestamp_us, later.timestamp_us)
        if later.open_windows is not None:
            self.open_windows = later.open_windows
        self.extent_low = min(self.extent_low, later.extent_low)
        self.extent_high = max(self.extent_high, later.extent_high)
        self.records += later.records
        self.bytes += later.bytes
        self.first_us = min(self.first_us, later.first_us)
        self.last_us = max(self.last_us, later.last_us)


def merged_buckets(buckets: Iterable[HistoryBucket], shift: int) -> list[HistoryBucket]:
    """Return buckets in which all numbers that are equal after a right shift are one bucket."""
    merged: list[HistoryBucket] = []
    for bucket in buckets:
        if merged and merged[-1].number >> shift == bucket.number >> shift:
            merged[-1].take(bucket)
        else:
            merged.append(replace(bucket))
    return merged


@dataclass(slots=True)
class SegmentUse:
    """A segment, and what of it a restart needs."""

    segment_id: int
    bytes: int
    abandoned_bytes: int = 0
    """Bytes of attempts that no version builds on, and of unfinished writes."""
    records: int = 0
    first_offset: int = -1
    """Offset of the first record; -1 without any."""
    end_offset: int = -1
    extent_bytes: int = 0
    """Frames that a rebuild reads."""
    extent_raw_bytes: int = 0
    """The same frames, decompressed."""
    extent_records: int = 0

    def take(self, header: FrameHeader, extent_from: int) -> None:
        """The next frame with records."""
        if self.first_offset < 0:
            self.first_offset = header.first_offset
        self.end_offset = header.end_offset
        self.records += header.record_count
        needed = header.end_offset - max(header.first_offset, extent_from)
        if needed > 0:
            self.extent_records += needed
            self.extent_bytes += header.frame_bytes
            self.extent_raw_bytes += header.raw_bytes


@dataclass
class LogHistory:
    """A log from its oldest frame to its newest."""

    segments: list[SegmentUse] = field(default_factory=list)
    damage: list[Fault] = field(default_factory=list)
    """Places that could not be read."""
    frames: int = 0
    """Frames with records, as are all of these figures."""
    records: int = 0
    bytes: int = 0
    """Bytes of all segments."""
    shift: int = 0
    """Numbers that are the same after a shift by so many bits are in one bucket."""
    buckets: list[HistoryBucket] = field(default_factory=list)

    def take(self, header: FrameHeader, number: int) -> None:
        """The next frame with records."""
        self.frames += 1
        self.records += header.record_count
        is_counted = header.is_counted
        new = HistoryBucket(
            number=number,
            # For a frame without records this is the minimum int64.
            timestamp_us=header.max_timestamp_us,
            open_windows=header.open_windows if is_counted else None,
            extent_low=header.extent_records if is_counted else _NO_EXTENT,
            extent_high=header.extent_records if is_counted else 0,
            records=header.record_count,
            bytes=header.frame_bytes,
            first_us=header.min_timestamp_us if header.record_count else MAX_TIMESTAMP_US,
            last_us=header.max_timestamp_us if header.record_count else MIN_TIMESTAMP_US,
        )
        last = self.buckets[-1] if self.buckets else None
        if last is not None:
            new.timestamp_us = max(last.timestamp_us, new.timestamp_us)
        if last is not None and last.number >> self.shift == number >> self.shift:
            last.take(new)
            return
        self.buckets.append(new)
        if len(self.buckets) > BUCKETS_MAX:
            self.shift += 1
            self.buckets = merged_buckets(self.buckets, self.shift)


def read_log_history(
    folder: Folder,
    log_reader: LogReader | None = None,
    last: Frame | None = None,
    extent_from: int = _NO_EXTENT,
) -> LogHistory:
    """Walk through every header of a log, over damage and on.

    ``log_reader`` says which frames count, up to ``last``, and ``extent_from`` is the offset of the
    oldest record that a rebuild there needs. Without one (damage keeps the log out of reach)
    all sound frames count.

    Raises:
        NotAQueue: neither a queue here nor a state log.
    """
    files = files_of(folder)
    is_state = isinstance(files, StateLogFiles)
    last_number = _NO_EXTENT
    if last is not None:
        last_number = last.header.input_upto if is_state else last.header.seq
    history = LogHistory(damage=list(files.faults))
    ends = _ends(log_reader) if log_reader is not None else None
    for segment in files.segments():
        if isinstance(segment, Fault):
            history.damage.append(segment)
            continue
        stop = segment.acknowledged if ends is None else ends.get(segment.scan.segment_id, 0)
        use = SegmentUse(segment.scan.segment_id, segment.scan.bytes)
        for item in _frames(files, segment, history.damage):
            number = item.header.input_upto if is_state else item.header.seq
            if item.end_byte > stop:
                # Frames behind it are newer than this history; they are not abandoned.
                is_later = number > last_number
                use.abandoned_bytes += 0 if is_later else item.header.frame_bytes
            elif item.header.type == FrameType.BATCH and number <= last_number:
                history.take(item.header, number)
                use.take(item.header, extent_from)
        history.segments.append(use)
        history.bytes += segment.scan.bytes
    return history


def _ends(log_reader: LogReader) -> dict[int, int] | None:
    """Return, for each segment, the bytes that count; ``None`` where damage hides them."""
    try:
        return {
            segment_id: log_reader.segment_end(segment_id) for segment_id in log_reader.segments
        }
    except CorruptLog:
        return None


def _frames(files: LogFiles, segment: LogSegment, damage: list[Fault]) -> Iterator[ScannedFrame]:
    """Sound frames of what was acknowledged; what is none goes to the damage."""
    for item in segment.acknowledged_items(files.is_trimmed):
        if isinstance(item, ScannedFrame):
            yield item
        else:
            damage.append(segment.fault("frame-damaged", item.byte, item.what))
