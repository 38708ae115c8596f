"""The segments that the commits of a partitioned queue name. docs/format.md §11. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cec_store.errors import CecError, CorruptLog
from cec_store.format.bodies import decode_body
from cec_store.format.by_reference.commits import WRITER_SETTING
from cec_store.format.by_reference.inline import prove_chain
from cec_store.format.by_reference.segment_frames import ReferencedFrame, frames_of
from cec_store.format.by_reference.whole_segment import decode_whole
from cec_store.format.columns import values_of
from cec_store.format.frame import BadHeader, FrameHeader, decode_frame_header
from cec_store.format.records import kinds_of
from cec_store.format.scan import Bad
from cec_store.format.schema import TIMESTAMP, RecordKind, RecordSchema
from cec_store.inspector.damage.faults import Fault, Note, kind_of
from cec_store.inspector.damage.reference_objects import (
    Read,
    Wanted,
    claims_of,
    read_all,
    segment_fault,
)
from cec_store.inspector.verifying.one_writer import OneWriterChecks
from cec_store.inspector.verifying.results import BytesSoFar, TotalBytes, Verification
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.sweeping import data_objects
from cec_store.storage.names import DATA_FOLDER, LOG_FOLDER, commit_number_of
from cec_store.storage.stores.store import Store

_READABLE = "no record is lost: readers go by what the commit says of the frames"


@dataclass
class _Found:
    """Counts and faults of one partition."""

    segments: int = 0
    frames: int = 0
    records: int = 0
    bytes: int = 0
    faults: list[Fault] = field(default_factory=list)
    kinds: np.ndarray[tuple[int], np.dtype[np.int64]] = field(
        default_factory=lambda: np.zeros(256, np.int64)
    )


class SegmentChecks:
    """Reads every object that counts, once."""

    def __init__(
        self,
        store: Store,
        state: QueueState,
        schema: RecordSchema,
        with_records: bool,
        progress: BytesSoFar,
    ) -> None:
        self._store = store
        self._state = state
        self._schema = schema
        self._with_records = with_records
        self._progress = progress
        self._bytes = 0
        self._one_writer: OneWriterChecks | None = None

    def partition(self, number: int) -> Verification:
        """One partition against what the commits say of it."""
        counts = _Found()
        segments = self._state.segments_of(number).to_pylist()
        if WRITER_SETTING in self._state.commit.settings:
            is_whole = not self._state.commit.starts[number]
            self._one_writer = OneWriterChecks(self._schema, is_whole)
        parts = [Wanted(item["file"]) for item in segments]
        for segment, data in zip(segments, read_all(self._store, parts), strict=True):
            self._check(counts, segment, data)
            self._bytes += segment["bytes"]
            self._progress(TotalBytes(self._bytes))
        commit = self._state.commit
        one_writer = self._one_writer
        if one_writer is not None:
            counts.kinds = one_writer.records.counts
        kinds = {kind.name: int(counts.kinds[kind]) for kind in RecordKind}
        return Verification(
            path=self._store.url,
            faults=tuple(counts.faults),
            notes=(),
            epoch=None,
            segments=counts.segments,
            frames=counts.frames,
            records=counts.records,
            bytes=counts.bytes,
            first_offset=commit.starts[number],
            end_offset=commit.ends[number],
            kinds=kinds if self._with_records else {},
            recounted_frames=0 if one_writer is None else one_writer.records.recounted_frames,
            index="none",
        )

    def _check(self, counts: _Found, segment: dict[str, Any], data: Read) -> None:
        path = f"{self._store.url}/{segment['file']}"
        first, end = segment["first_offset"], segment["first_offset"] + segment["records"]
        if not isinstance(data, bytes):
            counts.faults.append(segment_fault(data, path, first, end))
            if self._one_writer is not None:
                self._one_writer.lose(end)
            return
        counts.segments += 1
        counts.bytes += segment["bytes"]
        known = len(counts.faults)
        frames = data[segment["byte"] : segment["byte"] + segment["bytes"]]
        headers = [*self._sound_frames(counts, segment, frames, path)]
        counts.frames += len(headers)
        counts.records += sum(header.record_count for header in headers)
        if len(counts.faults) > known:
            if self._one_writer is not None:
                self._one_writer.lose(end)
            return
        stated = {name: segment[name] for name in ("records", "frames", "least_us", "greatest_us")}
        actual = claims_of(headers)
        for name in (name for name in stated if stated[name] != actual[name]):
            what = f"{name}: {actual[name]}, and the commit says {stated[name]}"
            counts.faults.append(Fault("commit-record", path, segment["byte"], what, True))
        counts.faults += self._around(segment, data, path)

    def _sound_frames(
        self, counts: _Found, segment: dict[str, Any], data: bytes, path: str
    ) -> Iterator[FrameHeader]:
        """Yield the headers of sound frames, and add the others to the faults.

        One damaged frame makes its segment unreadable, because readers read its frames as one.
        """
        first, end = segment["first_offset"], segment["first_offset"] + segment["records"]
        for item in frames_of(segment, data):
            if isinstance(item, Bad):
                counts.faults.append(segment_fault(item, path, first, end))
            elif item.problem:
                fault = Fault("body-checksum", path, item.byte, item.problem, True, first, end)
                counts.faults.append(fault)
            else:
                yield item.header
                if self._one_writer is not None:
                    counts.faults += self._numbers(segment, item, data, path)
                if self._with_records:
                    counts.faults += self._records(counts, item, path)
        if self._one_writer is not None:
            for kind, what in self._one_writer.end_commit():
                counts.faults.append(Fault(kind, path, segment["byte"], what, True))

    def _numbers(
        self, segment: dict[str, Any], frame: ReferencedFrame, data: bytes, path: str
    ) -> Iterator[Fault]:
        """Yield faults of a frame's numbers, which the writer of the queue has given."""
        assert self._one_writer is not None
        stated = decode_frame_header(data, frame.byte - segment["byte"])
        name = commit_number_of(segment["file"].rpartition("/")[2])
        faults = self._one_writer.frame(
            -1 if name is None else name, frame.byte, stated, frame.header.first_offset
        )
        for kind, what in faults:
            yield Fault(kind, path, frame.byte, what, True)

    def _records(self, counts: _Found, frame: ReferencedFrame, path: str) -> Iterator[Fault]:
        header = frame.header
        here = (path, frame.byte)
        try:
            records = decode_body(
                frame.body, header.codec, header.raw_bytes, self._schema, header.record_count
            )
        except BadHeader as error:
            end = header.end_offset
            yield Fault("body-structure", *here, str(error), True, header.first_offset, end)
            return
        if self._one_writer is not None:
            for kind, what in self._one_writer.check(header, records):
                yield Fault(kind, *here, what, True)
            return
        counts.kinds += np.bincount(kinds_of(records), minlength=len(counts.kinds))
        if counts.kinds[: RecordKind.DATA].any() or counts.kinds[RecordKind.DATA + 1 :].any():
            yield Fault("kinds", *here, "a record that is no output", True)
        times = values_of(records.column(TIMESTAMP), "i8")
        if len(times) and (times.min(), times.max()) != (
            header.min_timestamp_us, header.max_timestamp_us
        ):  # fmt: skip
            yield Fault("timestamps", *here, "not the least and greatest of its records", True)

    def _around(self, segment: dict[str, Any], data: bytes, path: str) -> Iterator[Fault]:
        """Yield faults around the frames: in header and schema, and in bytes behind them."""
        is_inline = segment["file"].startswith(f"{LOG_FOLDER}/")
        try:
            if is_inline:
                prove_chain(data, path)
                return
            whole = decode_whole(data, path)
        except CorruptLog as error:
            kind = "segment-header" if not error.byte else "frame-damaged"
            yield Fault(kind, path, error.byte, error.reason, True, effect=_READABLE)
            return
        except CecError as error:
            yield Fault(kind_of(error), path, 0, str(error), True, effect=_READABLE)
            return
        if not self._schema.is_as(whole.schema):
            yield Fault("schema", path, 0, "not the queue's columns", True)
        if whole.body_bytes != range(segment["byte"], segment["byte"] + segment["bytes"]):
            what = f"its frames are {whole.body_bytes}, and the commit names others"
            yield Fault("commit-record", path, segment["byte"], what, True)


def rubbish(store: Store, named: set[str], is_all_known: bool) -> list[Note]:
    """Objects that no commit has ever named: dead tasks have left them."""
    count = size = 0
    for name, object_bytes in data_objects(store):
        if name not in named:
            count, size = count + 1, size + object_bytes
    if not count:
        return []
    what = f"{count:,} objects of {size:,} bytes that no commit names, of tasks that have died"
    if not is_all_known:
        what += ", or of the commits that cannot be read"
    return [Note(f"{store.url}/{DATA_FOLDER}", 0, what)]
