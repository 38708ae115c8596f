"""What one task writes for a queue of many partitions, before a commit takes it in.

docs/format.md §11: a complete segment of its own, on disk before the task says that it is done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from cec_store.errors import CorruptLog
from cec_store.format.bodies import (
    RECORDS_BYTES_MAX,
    Body,
    check_body_size,
    cut_to_frames,
    encode_body,
    encode_columns,
)
from cec_store.format.commit import Staged
from cec_store.format.frame import BadHeader, FrameHeader, FrameType
from cec_store.format.manifest import Manifest
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.log.frames import FrameMarks
from cec_store.log.options import Compression
from cec_store.log.segment import BadFrame, SegmentReader
from cec_store.log.writer import ClockAndEntropy, Cursor, LogWriter, Predecessor
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.names import STAGED_FOLDER, segment_name, staged_name

_FRAME_ROWS = 65_536
_FRAME_BYTES = 4 << 20
_COMPRESSION_LEVEL = 1
_NO_LOG = bytes(16)


def staged_folder(queue: FolderTree, query: str, batch: int) -> FolderTree:
    """Where the tasks of one batch put what they write."""
    return queue.folder(STAGED_FOLDER).folder(staged_name(query, batch))


class Stager:
    """Writes one piece. Rows become visible with the commit that names it, or never."""

    def __init__(
        self,
        queue: FolderTree,
        schema: RecordSchema,
        query: str,
        batch: int,
        partition: int,
        clock_us: Callable[[], int] = now_us,
        compression: Compression = Compression.BODY,
    ) -> None:
        """For one task attempt of a query's batch; nothing is written before the first row."""
        self._folder = staged_folder(queue, query, batch)
        self._partition = partition
        self._schema = schema
        self._clock_us = clock_us
        self._encode = encode_columns if compression is Compression.COLUMNS else encode_body
        self._segment_id = secrets.randbits(63)
        self._writer: LogWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0
        self._frames = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows, in order. Small batches share a frame.

        Raises:
            SchemaMismatch: columns of another type, or a null where the timestamp should be.
            FrameTooLarge: a single row that does not fit in a frame.
        """
        if batch.num_rows == 0:
            return
        timestamps = self._timestamps(batch)
        self._gathered.append(data_records(self._schema, batch, timestamps))
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _FRAME_ROWS or self._gathered_bytes >= _FRAME_BYTES:
            self._flush()

    def _timestamps(self, batch: pa.RecordBatch) -> pa.Array:
        if self._schema.timestamp_column is not None:
            return to_timestamps(batch.column(self._schema.timestamp_column))
        return to_timestamps(pa.array(np.full(batch.num_rows, self._clock_us(), np.int64)))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._gathered_rows = self._gathered_bytes = 0
        if gathered:
            table = pa.Table.from_batches(gathered).combine_chunks()
            for records in table.to_batches():
                self._write(records)

    def _write(self, records: pa.RecordBatch) -> None:
        for part in cut_to_frames(records, RECORDS_BYTES_MAX):
            check_body_size(part, self._folder.path)
            if self._writer is None:
                self._writer = self._begin()
            self._writer.append(self._encode(part, _COMPRESSION_LEVEL), FrameMarks())
            self._frames += 1

    def _begin(self) -> LogWriter:
        self._folder.make()
        manifest = Manifest(0, _NO_LOG, self._segment_id, self._segment_id)
        clock_and_entropy = ClockAndEntropy(self._clock_us)
        writer = LogWriter(self._folder, manifest, self._schema, Cursor(), clock_and_entropy)
        writer.begin_segment(Predecessor(), self._segment_id)
        return writer

    def finish(self) -> Staged | None:
        """Put it on disk, name included; ``None`` where there were no rows."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.complete()
        self._folder.sync_names()
        records = self._writer.cursor.offset
        self.close()
        return Staged(self._partition, self._segment_id, self._frames, records)

    def close(self) -> None:
        """Close the file, finished or not."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class StagedReader:
    """A finished piece, proven to be what the task said that it wrote."""

    def __init__(self, folder: Folder, staged: Staged, schema: RecordSchema) -> None:
        """Raises :class:`CorruptLog` where it is missing, cut, or not what was announced."""
        self._path = f"{folder.path}/{segment_name(staged.segment_id)}"
        self._reader = SegmentReader(folder, staged.segment_id)
        self._frames: list[tuple[int, FrameHeader]] = []
        complete = False
        try:
            for byte, header in self._reader.frames(stop=self._reader.size(), bodies=True):
                complete = header.type == FrameType.FOOTER
                if header.type == FrameType.SCHEMA:
                    self._check_schema(header._replace(schema_byte=byte), schema)
                elif header.type == FrameType.BATCH:
                    self._frames.append((byte, header))
        except BadFrame as error:
            raise CorruptLog(self._path, error.bad.byte, error.bad.reason) from None
        records = sum(header.record_count for _, header in self._frames)
        found = (len(self._frames), records)
        if not complete or found != (staged.frames, staged.records):
            what = f"{found[0]} frames with {found[1]} records, not the {staged.frames} with "
            what += f"{staged.records} that the task wrote" if complete else "no footer"
            raise CorruptLog(self._path, self._reader.size(), what)

    def _check_schema(self, header: FrameHeader, schema: RecordSchema) -> None:
        try:
            found = self._reader.schema(header)
        except BadHeader as error:
            raise CorruptLog(self._path, header.schema_byte, str(error)) from None
        if not found.is_as(schema):
            raise CorruptLog(self._path, header.schema_byte, "not the queue's columns")

    def begins_with(self, copied: Iterable[FrameHeader]) -> bool:
        """Whether these are the frames of this piece, from its first on, as far as they go."""
        own = ((h.record_count, h.raw_bytes, h.body_crc) for _, h in self._frames)
        return all(
            (h.record_count, h.raw_bytes, h.body_crc) == due
            for h, due in zip(copied, own, strict=False)
        )

    def bodies(self, start: int) -> Iterator[Body]:
        """The frames from record ``start`` on, as they are stored, checksums proven.

        Raises:
            CorruptLog: damaged, or no frame begins there.
        """
        if start not in {header.first_offset for _, header in self._frames}:
            raise CorruptLog(self._path, 0, f"no frame begins with record {start}")
        for byte, header in self._frames:
            if header.first_offset < start:
                continue
            try:
                stored = self._reader.body_at(byte, header).to_pybytes()
            except BadHeader as error:
                raise CorruptLog(self._path, byte, str(error)) from None
            yield Body.of_frame(header, stored)
