"""Segments as objects of a store: made by tasks, read by whoever has a commit that names them.

docs/format.md §11.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from cec_store.errors import CorruptLog, StorageError
from cec_store.format.bodies import (
    Body,
    check_body_size,
    cut_to_frames,
    decode_body,
    encode_columns,
)
from cec_store.format.by_reference.inline import OWN, InlineFrames
from cec_store.format.by_reference.segment_frames import frames_of
from cec_store.format.by_reference.whole_segment import encode_whole
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    NONE,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    SegmentHeader,
)
from cec_store.format.records import fit_batches
from cec_store.format.scan import Bad, refusal
from cec_store.format.schema import RecordSchema
from cec_store.queues.user_rows import records_of_batches
from cec_store.storage.names import data_object_name
from cec_store.storage.stores.store import Store

_COMPRESSION_LEVEL = 1
_FRAME_BYTES = 8 << 20
"""Bytes of a frame's records before compression: small batches share a frame and large ones are
cut, so that readers decode what their processor's cache still holds."""


class SegmentMaker:
    """Rows of one partition that one task attempt has, on their way to one object.

    Compressed frames are kept in memory until :meth:`finish`, or :meth:`finish_inline`. For one
    thread.
    """

    def __init__(self, schema: RecordSchema, clock_us: Callable[[], int]) -> None:
        self._schema = schema
        self._clock_us = clock_us
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._bodies: list[Body] = []
        self.stored_bytes = 0
        """Bytes of the frames so far, without the rows that are gathered for the next one."""

    def append(self, batch: pa.RecordBatch, first_row: int = 0) -> None:
        """Add rows, in order. ``first_row``: the number of the first one, for errors.

        Raises:
            SchemaMismatch: columns of another type, a value that no reader would take, or a null
                where the timestamp should be.
            FrameTooLarge: a single row that does not fit in a frame.
        """
        for fitted in fit_batches(self._schema.data, batch, first_row):
            self.append_fitted(fitted)

    def append_fitted(self, batch: pa.RecordBatch) -> None:
        """Add rows that :func:`.records.fit_batches` returned; raises as :meth:`append` does."""
        for records in records_of_batches(self._schema, [batch], None, self._clock_us):
            self.append_records(records)

    def append_records(self, records: pa.RecordBatch) -> None:
        """Add records as they are stored; raises :class:`FrameTooLarge` as :meth:`append`."""
        self._gathered.append(records)
        self._gathered_bytes += records.nbytes
        if self._gathered_bytes >= _FRAME_BYTES:
            self.flush()

    @property
    def all_bytes(self) -> int:
        """Bytes of the frames so far, and of the gathered rows before they are compressed."""
        return self.stored_bytes + self._gathered_bytes

    def flush(self) -> None:
        """Make a frame of the rows that are gathered."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if not gathered:
            return
        for records in pa.Table.from_batches(gathered).combine_chunks().to_batches():
            for part in cut_to_frames(records, _FRAME_BYTES):
                check_body_size(part)
                body = encode_columns(part, _COMPRESSION_LEVEL)
                self._bodies.append(body)
                self.stored_bytes += FRAME_HEADER_BYTES + len(body.stored)

    def finish(
        self, store: Store, query: str, batch: int, partition: int, flags: int = 0
    ) -> dict[str, Any] | None:
        """Make the object, and return what a commit has to say of it; ``None`` without rows.

        ``first_offset`` is for the commit to say; ``flags`` are those of the segment.
        """
        bodies = self._taken()
        if not bodies:
            return None
        segment_id, salt, written_us = secrets.randbits(63), secrets.randbits(64), self._clock_us()
        header = SegmentHeader(
            epoch=0, log_id=bytes(16), segment_id=segment_id, salt=salt, first_seq=0,
            prev_segment=NONE, prev_bytes=0, prev_salt=0, prev_chain=0,
            created_us=written_us, flags=flags,
        )  # fmt: skip
        parts = encode_whole(header, self._schema, bodies)
        # The header, then each frame's header and body: SCHEMA, every BATCH.
        byte = SEGMENT_HEADER_BYTES + len(parts[1]) + len(parts[2])
        name = data_object_name(query, batch, partition, segment_id)
        store.create(name, parts)
        return _row(partition, name, byte, salt, written_us, bodies)

    def finish_inline(
        self, partition: int, byte: int
    ) -> tuple[dict[str, Any], InlineFrames] | None:
        """Return what a commit has to say of the rows, and their frames, which it has to hold.

        ``None`` without rows. ``byte`` counts from where its inline frames begin.
        """
        bodies = self._taken()
        if not bodies:
            return None
        salt = secrets.randbits(64)
        row = _row(partition, OWN, byte, salt, self._clock_us(), bodies)
        return row, InlineFrames(salt, bodies)

    def _taken(self) -> list[Body]:
        self.flush()
        bodies, self._bodies, self.stored_bytes = self._bodies, [], 0
        return bodies


def _row(
    partition: int, name: str, byte: int, salt: int, written_us: int, bodies: Sequence[Body]
) -> dict[str, Any]:
    """Return what a commit says of these frames, but for ``first_offset``."""
    return {
        "partition": partition,
        "records": sum(body.record_count for body in bodies),
        "file": name,
        "byte": byte,
        "bytes": sum(FRAME_HEADER_BYTES + len(body.stored) for body in bodies),
        "salt": salt,
        "least_us": min(body.min_timestamp_us for body in bodies),
        "greatest_us": max(body.max_timestamp_us for body in bodies),
        "frames": len(bodies),
        "written_us": written_us,
    }


def forget(store: Store, names: Sequence[str]) -> None:
    """Delete objects that no commit will name; those that stay take up room and do no more harm."""
    with suppress(StorageError):
        store.delete(names)


def read_segment(
    url: str,
    read: Callable[[str, int, int], bytes],
    segment: dict[str, Any],
    schema: RecordSchema,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of each frame of a segment. ``segment`` is a row of a commit.

    ``read`` returns bytes of an object of the queue at ``url``; it is asked once.

    Raises:
        CorruptLog: the object is not there, or not what the commit says.
        UnsupportedVersion: a later format wrote it.
    """
    path = f"{url}/{segment['file']}"
    try:
        data = read(segment["file"], segment["byte"], segment["bytes"])
    except FileNotFoundError:
        raise CorruptLog(path, 0, "an object that a commit names is missing") from None
    records = frames = 0
    for item in frames_of(segment, data):
        if isinstance(item, Bad):
            raise item.refusal(path)
        header = item.header
        if item.problem:
            raise CorruptLog(path, item.byte, item.problem)
        try:
            yield decode_body(item.body, header.codec, header.raw_bytes, schema,
                              header.record_count, columns)  # fmt: skip
        except BadHeader as error:
            raise refusal(path, item.byte, error) from None
        records, frames = records + header.record_count, frames + 1
    if (records, frames) != (segment["records"], segment["frames"]):
        what = f"{frames} frames with {records} records, not those of the commit"
        raise CorruptLog(path, segment["byte"] + len(data), what)
