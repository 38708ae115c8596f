"""Frames and records of a partition of a partitioned queue, over damage and on. Reads only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.format.bodies import decode_body
from cec_store.format.by_reference.segment_frames import ReferencedFrame, frames_of
from cec_store.format.columns import Ints
from cec_store.format.frame import NONE, BadHeader
from cec_store.format.scan import Bad
from cec_store.format.schema import RecordSchema
from cec_store.inspector.damage.reference_objects import (
    Read,
    part_of,
    read_all,
)
from cec_store.inspector.decoding.records import RecordDecoder
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, FrameRow, NoteRow, Row
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.names import commit_number_of, segment_id_of


def dump_reference(queue: ReferenceQueue, number: int, selection: DumpFilter) -> Iterator[Row]:
    """Yield the rows of a partition: a note for each segment, then its frames and their records."""
    segments = [
        part for part in queue.state.segments_of(number).to_pylist() if _may_hold(part, selection)
    ]
    dumper = _Dumper(queue.path, queue.schema, selection)
    data_of = read_all(queue.store, map(part_of, segments))
    shown = (
        row
        for segment, data in zip(segments, data_of, strict=True)
        for row in dumper.segment(segment, data)
    )
    return shown if selection.last is None else _last(shown, selection)


def _may_hold(segment: dict[str, Any], selection: DumpFilter) -> bool:
    """Return True if a segment may hold selected records, by its commit; others are not read."""
    end = segment["first_offset"] + segment["records"]
    return bool(
        end > selection.since_offset
        and (selection.until_offset is None or segment["first_offset"] < selection.until_offset)
        and segment["greatest_us"] >= selection.since_us
        and (selection.until_us is None or segment["least_us"] < selection.until_us)
    )


class ReferenceFollower:
    """A partition, from its beginning on and along with the commits that the queue has seen.

    Each record is shown once: what a merge puts elsewhere keeps its offset.
    """

    def __init__(self, queue: ReferenceQueue, number: int, selection: DumpFilter) -> None:
        self._queue = queue
        self._number = number
        self._wanted = selection
        self._due: int | None = None
        """The next record; ``None`` before the first look."""

    def poll(self) -> Iterator[Row]:
        """Yield the rows that have been added since the last look, as far as the queue was
        refreshed.
        """
        queue, selection, due = self._queue, self._wanted, self._due
        first, end = queue.first(self._number), queue.ends()[self._number]
        if due is not None:
            if due < first:
                what = f"records {due:,} to {first - 1:,} were trimmed before they could be shown"
                yield NoteRow(queue.path, what)
            since = max(due, first, selection.since_offset)
            selection = replace(selection, since_offset=since, last=None)
        self._due = end
        if due is None or due < end:
            yield from dump_reference(queue, self._number, selection)


class _Dumper:
    def __init__(self, url: str, schema: RecordSchema, selection: DumpFilter) -> None:
        self._url = url
        self._schema = schema
        self._wanted = selection
        self._decoder = RecordDecoder(None)
        self._left = selection.max_bytes

    def segment(self, segment: dict[str, Any], data: Read) -> Iterator[Row]:
        path = f"{self._url}/{segment['file']}"
        name = segment["file"].rpartition("/")[2]
        segment_id = commit_number_of(name)  # the commit's, where it holds the frames itself
        if segment_id is None:
            segment_id = segment_id_of(name.rpartition("-")[2])
        if self._wanted.segment_id not in (None, segment_id):
            return
        end = segment["first_offset"] + segment["records"]
        what = f"a segment with records {segment['first_offset']:,} to {end - 1:,}"
        yield NoteRow(path, f"{what}, by commit {segment['added']:,} or one before it")
        if isinstance(data, Exception):
            gone = isinstance(data, FileNotFoundError)
            yield DamageRow(path, 0, "the object is missing" if gone else str(data), True)
            return
        for frame in frames_of(segment, data):
            if isinstance(frame, Bad):
                yield DamageRow(path, frame.byte, frame.reason, True)
            elif not self._is_over(frame):
                yield from self._frame(frame, path, NONE if segment_id is None else segment_id)

    def _is_over(self, frame: ReferencedFrame) -> bool:
        if self._left is not None:
            self._left -= frame.header.frame_bytes
        return self._left is not None and self._left < 0

    def _frame(self, frame: ReferencedFrame, path: str, segment_id: int) -> Iterator[Row]:
        header, problem = frame.header, frame.problem
        if not self._wanted.may_hold(header):
            return
        records: pa.RecordBatch | None = None
        try:
            if not problem:
                records = decode_body(
                    frame.body, header.codec, header.raw_bytes, self._schema,
                    header.record_count,
                )  # fmt: skip
        except BadHeader as error:
            problem = str(error)
        rows = None if records is None else self._rows(records, header.first_offset)
        if rows is not None and not len(rows):
            return
        yield _frame_row(frame, segment_id, problem)
        if records is None or rows is None:
            yield DamageRow(path, frame.byte, problem, True)
        elif self._wanted.records:
            yield from self._decoder.rows(records, header.first_offset, rows)

    def _rows(self, records: pa.RecordBatch, first_offset: int) -> Ints:
        keep = self._wanted.rows(records, first_offset)
        if self._wanted.key is not None:
            keep &= self._decoder.matching(records, self._wanted.key)
        return np.flatnonzero(keep)


def _frame_row(frame: ReferencedFrame, segment_id: int, problem: str) -> FrameRow:
    header = frame.header
    return FrameRow(
        segment_id=segment_id, byte=frame.byte, type="BATCH", stream_id=header.stream_id,
        epoch=0, seq=header.seq, first_offset=header.first_offset,
        end_offset=header.end_offset, record_count=header.record_count,
        frame_bytes=header.frame_bytes, raw_bytes=header.raw_bytes,
        min_timestamp_us=header.min_timestamp_us, max_timestamp_us=header.max_timestamp_us,
        open_windows=None, extent_records=0, input_upto=0, durable_upto=0, acknowledged=True,
        problem=problem,
    )  # fmt: skip


def _last(shown: Iterator[Row], selection: DumpFilter) -> Iterator[Row]:
    """All damage, and the last records, or the last frames, with what stands around them."""
    assert selection.last is not None
    kept: deque[Row] = deque()
    count = 0
    for row in shown:
        kept.append(row)
        count += _is_counted(row, selection)
        while count > selection.last:
            gone = kept.popleft()
            count -= _is_counted(gone, selection)
            if isinstance(gone, DamageRow):
                yield gone
    yield from kept if selection.last else (row for row in kept if isinstance(row, DamageRow))


def _is_counted(row: Row, selection: DumpFilter) -> bool:
    if isinstance(row, (DamageRow, NoteRow)):
        return False
    return isinstance(row, FrameRow) is not selection.records
