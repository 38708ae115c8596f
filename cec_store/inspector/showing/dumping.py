"""Frames and records one by one, over damage and on. Reads only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.format.columns import Ints
from cec_store.format.frame import BadHeader, FrameType
from cec_store.inspector.damage.faults import Fault
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.queue_files import QueueFiles
from cec_store.inspector.damage.segment_scan import Gap, ScannedFrame
from cec_store.inspector.damage.state_log_files import LogFiles, files_of
from cec_store.inspector.decoding.records import Names, RecordDecoder
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, NoteRow, Row, frame_row
from cec_store.state_logs.families import FamilyNames
from cec_store.state_logs.tree import StateTree
from cec_store.storage.folder import Folder


@dataclass(frozen=True)
class Chosen:
    """A frame to be shown, with those of its records that are wanted."""

    segment: LogSegment
    found: ScannedFrame
    rows: Ints | None = None
    """``None``: all, which have not been looked at."""
    records: pa.RecordBatch | None = None
    """Records of the frame, if they have been decoded already."""
    problem: str = ""
    """Reason that they cannot be decoded."""

    @property
    def count(self) -> int:
        """Number of records that are selected."""
        return self.found.header.record_count if self.rows is None else len(self.rows)


class Dumper:
    """Shows the frames of one log, as far as a filter wants them."""

    def __init__(
        self,
        folder: Folder,
        selection: DumpFilter,
        decoder: RowDecoder | None,
        is_trimmed: Callable[[int], bool],
    ) -> None:
        """``is_trimmed``: whether a segment has been removed by now, which is no damage."""
        self._path = folder.path
        self._folder = folder
        self._names: FamilyNames | None = None
        self._looked_again: set[int] = set()
        """Segments for which names were looked for in a tree that was read anew."""
        self._wanted = selection
        self._is_trimmed = is_trimmed
        self._decoder = RecordDecoder(decoder)
        self._noted = ""

    def choose(self, segment: LogSegment, item: ScannedFrame | Gap) -> Iterator[Chosen | DamageRow]:
        """Yield the frame or the damage at one place in the log, if the filter selects it."""
        if isinstance(item, Gap):
            if self._is_trimmed(segment.scan.segment_id):
                return
            acknowledged = segment.is_acknowledged(item.byte)
            yield DamageRow(segment.scan.path, item.byte, item.what, acknowledged)
        elif self._wanted.is_everything:
            yield Chosen(segment, item)
        elif item.header.type == FrameType.BATCH and self._wanted.may_hold(item.header):
            try:
                records = segment.scan.records(item)
            except BadHeader as error:
                yield Chosen(segment, item, problem=str(error))
                return
            keep = self._wanted.rows(records, item.header.first_offset)
            if self._wanted.key is not None:
                names = self._names_at(segment, item, records)
                keep &= self._decoder.matching(records, self._wanted.key, names)
            if keep.any():
                yield Chosen(segment, item, np.flatnonzero(keep), records)

    def show(self, chosen: Iterable[Chosen | DamageRow | NoteRow]) -> Iterator[Row]:
        """Each frame, followed by its records."""
        for item in chosen:
            rows = self._frame(item) if isinstance(item, Chosen) else (item,)
            for row in rows:
                yield from self._note()
                yield row
        yield from self._note()

    def _note(self) -> Iterator[NoteRow]:
        if self._decoder.problem != self._noted:
            self._noted = self._decoder.problem
            yield NoteRow(self._path, self._noted)

    def _frame(self, chosen: Chosen) -> Iterator[Row]:
        segment, frame, problem = chosen.segment, chosen.found, chosen.problem
        if frame.header.type != FrameType.BATCH:
            yield frame_row(segment, frame, segment.scan.body_problem(frame))
            return
        records = chosen.records
        if records is None and not problem:
            try:
                records = segment.scan.records(frame)
            except BadHeader as error:
                problem = str(error)
        if records is None and self._is_trimmed(segment.scan.segment_id):
            return
        yield frame_row(segment, frame, problem)
        if records is None:
            acknowledged = segment.is_acknowledged(frame.byte)
            yield DamageRow(segment.scan.path, frame.byte, problem, acknowledged)
        elif self._wanted.records:
            rows = np.arange(records.num_rows) if chosen.rows is None else chosen.rows
            names = self._names_at(segment, frame, records)
            yield from self._decoder.rows(records, frame.header.first_offset, rows, names)

    def _names_at(
        self, segment: LogSegment, frame: ScannedFrame, records: pa.RecordBatch
    ) -> Names | None:
        """Names of the column families at a frame, where rows are decoded by them."""
        if not self._decoder.needs_names:
            return None
        if self._names is None:
            self._names = FamilyNames(StateTree(self._folder))
        segment_id = segment.scan.segment_id
        asked = segment_id, frame.header.seq, records
        names = self._names.at(*asked)
        if self._names.problem is not None and segment_id not in self._looked_again:
            self._looked_again.add(segment_id)  # it may have come since the tree was read
            self._names = FamilyNames(StateTree(self._folder))
            names = self._names.at(*asked)
        return names

    def last(
        self, chosen: Iterable[Chosen | DamageRow | NoteRow]
    ) -> Iterator[Chosen | DamageRow | NoteRow]:
        """All damage, and the frames with the last records, or the last frames."""
        limit = self._wanted.last
        if limit is None:
            yield from chosen
            return
        kept: deque[Chosen] = deque()
        total = 0
        for item in chosen:
            if not isinstance(item, Chosen):
                yield item
                continue
            kept.append(replace(item, records=None))
            total += self._weight(item)
            while kept and total - self._weight(kept[0]) >= limit:
                total -= self._weight(kept.popleft())
        for item in kept:
            over, total = max(0, total - limit), total - self._weight(item)
            if over and self._wanted.records:
                every = np.arange(item.count) if item.rows is None else item.rows
                item = replace(item, rows=every[over:])
            yield item

    def _weight(self, chosen: Chosen) -> int:
        return chosen.count if self._wanted.records else 1


def dump(
    folder: Folder, selection: DumpFilter | None = None, decoder: RowDecoder | None = None
) -> Iterator[Row]:
    """Each frame, followed by its records, in the order of the log.

    Raises:
        NotAQueue: nothing of a queue here.
        OutOfRange, CorruptLog: the version wanted of a state log is not there.
        ValueError: a version wanted of a queue.
    """
    selection = selection or DumpFilter()
    files = files_of(folder)
    ends = None
    if selection.at is not None:
        if isinstance(files, QueueFiles):
            raise ValueError(f"{folder.path}: a queue has no versions")
        ends = files.ends_at(selection.at)
    dumper = Dumper(folder, selection, decoder, files.is_trimmed)
    return dumper.show(dumper.last(_chosen(files, dumper, selection, ends)))


def _chosen(
    files: LogFiles,
    dumper: Dumper,
    selection: DumpFilter,
    ends: dict[int, int] | None,
) -> Iterator[Chosen | DamageRow]:
    for fault in files.faults:
        yield DamageRow(fault.path, fault.byte, fault.what, True)
    left = selection.max_bytes
    for segment in files.segments():
        if isinstance(segment, Fault):
            yield DamageRow(segment.path, segment.byte, segment.what, True)
            continue
        segment_id = segment.scan.segment_id
        if selection.segment_id not in (None, segment_id):
            continue
        if ends is not None and segment_id not in ends:
            continue
        if segment.scan.problem is not None and not files.is_trimmed(segment_id):
            yield DamageRow(segment.scan.path, 0, str(segment.scan.problem), True)
        for item in segment.scan.frames(segment.stop if ends is None else ends[segment_id]):
            if left is not None:
                left -= item.end_byte - item.byte
                if left < 0:
                    return
            yield from dumper.choose(segment, item)
