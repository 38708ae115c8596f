"""Totals of a log as far as it can be read: from headers, and if asked from records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NewType

import numpy as np
import pyarrow.compute as pc

from cec_store.errors import CecError
from cec_store.format.frame import BadHeader, FrameHeader, FrameType
from cec_store.format.records import kinds_of
from cec_store.format.schema import STATE, RecordKind
from cec_store.inspector.damage.faults import Fault
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import ScannedFrame
from cec_store.inspector.damage.state_log_files import LogFiles, StateLogFiles
from cec_store.storage.names import segment_name

MoreBytes = NewType("MoreBytes", int)
BytesSinceLast = Callable[[MoreBytes], None]
"""Called with the bytes read since the last call."""


@dataclass
class LogTotals:
    """A log in numbers; attempts at a version of a state store that were given up count too."""

    segments: int = 0
    frames: int = 0
    bytes: int = 0
    records: int = 0
    first_offset: int = 0
    end_offset: int = 0
    first_timestamp_us: int | None = None
    last_timestamp_us: int | None = None
    """Largest of the last frame with records."""
    kinds: dict[str, int] | None = None
    """Records of each kind; ``None`` where they were not counted."""
    renewed: int | None = None
    """CHECKs that the policy wrote, among those counted; in a queue, all CHECKs."""
    unreadable: int = 0
    """Places that could not be read."""
    is_state: bool = False
    """True for the log of a state store."""

    @property
    def check_overhead(self) -> float | None:
        """CHECKs that the policy wrote for each other record; ``None`` uncounted."""
        if self.kinds is None or self.renewed is None:
            return None
        others = sum(self.kinds.values()) - self.renewed
        return self.renewed / others if others else None

    @property
    def write_amplification(self) -> float | None:
        """Records for each that was asked for: a queue's output, a store's puts and removals.

        ``None`` where nothing was, or uncounted.
        """
        if self.kinds is None or self.renewed is None:
            return None
        asked = self.kinds["DATA"] + self.kinds["RESULT"]
        if self.is_state:
            asked = sum(self.kinds.values()) - self.renewed
        return sum(self.kinds.values()) / asked if asked else None


def sums(counted: Sequence[object], *names: str) -> dict[str, Any]:
    """Return the sum of each named field over all objects."""
    return {name: sum(getattr(item, name) for item in counted) for name in names}


class _Sum(LogTotals):
    """Adds up headers in the order of the log."""

    damage = ""

    def add(self, header: FrameHeader) -> None:
        if not self.frames:
            self.first_offset = header.first_offset
        self.end_offset = header.end_offset
        self.frames += 1
        self.records += header.record_count
        if header.record_count:
            if self.first_timestamp_us is None:
                self.first_timestamp_us = header.min_timestamp_us
            self.last_timestamp_us = header.max_timestamp_us

    def refuse(self, what: str) -> None:
        self.unreadable += 1
        self.damage = self.damage or what


def totals_of(
    files: LogFiles, counts: bool = False, progress: BytesSinceLast | None = None
) -> tuple[LogTotals, str]:
    """The totals, and the first thing that could not be read; empty if all could.

    ``counts`` reads every body and counts records by kind.
    """
    total = _Sum(is_state=isinstance(files, StateLogFiles))
    if counts:
        total.kinds, total.renewed = {kind.name: 0 for kind in RecordKind}, 0
    if files.faults:
        total.damage = files.faults[0].what
    segments = files.segments()
    if isinstance(files, StateLogFiles) and not counts:
        segments = _headers_of(files, total)
    for segment in segments:
        if isinstance(segment, Fault):
            total.refuse(f"{segment.path}: {segment.what}")
            continue
        total.segments += 1
        total.bytes += segment.scan.bytes
        _add_segment(files, segment, total)
        if progress is not None and counts:
            progress(MoreBytes(segment.scan.bytes))
    return total, total.damage


def _headers_of(files: StateLogFiles, total: _Sum) -> Iterator[LogSegment | Fault]:
    """Adds what the tree has read already; gives back the segments that are damaged."""
    for segment_id in files.tree.ids:
        try:
            state_segment = files.tree.segment(segment_id)
            size = files.folder.size(segment_name(segment_id))
        except (CecError, FileNotFoundError) as error:
            if not files.is_trimmed(segment_id):
                total.refuse(str(error))
            continue
        if state_segment.refusal is not None or state_segment.header is None:
            segment = files.segment(segment_id)
            if segment is not None:
                yield segment
            continue
        total.segments += 1
        total.bytes += size
        for frame in state_segment.frames:
            total.add(frame.header)


def _add_segment(files: LogFiles, segment: LogSegment, total: _Sum) -> None:
    for item in segment.acknowledged_items(files.is_trimmed):
        if not isinstance(item, ScannedFrame):
            total.refuse(f"{segment.scan.path}: damage at byte {item.byte}: {item.reason}")
            continue
        if item.header.type != FrameType.BATCH:
            continue
        total.add(item.header)
        if total.kinds is None or total.renewed is None:
            continue
        try:
            records = segment.scan.records(item)
        except (BadHeader, CecError) as error:
            if files.is_trimmed(segment.scan.segment_id):
                return
            total.refuse(f"{segment.scan.path}: damage at byte {item.byte}: {error}")
            continue
        counts = np.bincount(kinds_of(records), minlength=256)
        for kind in RecordKind:
            total.kinds[kind.name] += int(counts[kind])
        if total.is_state:
            total.renewed += pc.sum(records.column(STATE).field("renewed")).as_py() or 0
        else:
            total.renewed += int(counts[RecordKind.CHECK.value])
