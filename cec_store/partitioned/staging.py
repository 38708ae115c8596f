"""What one task has written for a queue of version 1, until a commit has taken it in.

docs/format.md §11: a complete segment of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cec_store.errors import CorruptLog
from cec_store.format.bodies import (
    Body,
)
from cec_store.format.commit import Staged
from cec_store.format.frame import BadHeader, FrameHeader, FrameType
from cec_store.format.schema import RecordSchema
from cec_store.log.segment import BadFrame, SegmentReader
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.names import STAGED_FOLDER, segment_name, staged_name


def staged_folder(queue: FolderTree, query: str, batch: int) -> FolderTree:
    """Where the tasks of one batch put what they write."""
    return queue.folder(STAGED_FOLDER).folder(staged_name(query, batch))


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
