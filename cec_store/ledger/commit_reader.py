"""The rows of one commit of a queue of one writer, read as a segment. docs/format.md §13."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.frame import (
    NONE,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    FrameType,
    SegmentHeader,
)
from cec_store.format.scan import Bad, Numbers
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.log.segment import BadFrame, SegmentReader
from cec_store.log.segment_file import SegmentFile
from cec_store.storage.names import LOG_FOLDER, commit_object_name


class InlineRows(NamedTuple):
    """Row of the ledger about the frames in a commit."""

    number: int
    """Number of the commit."""
    first_offset: int
    records: int
    frames: int
    byte: int
    """Byte of the first frame in the commit's object."""
    bytes: int
    salt: int
    written_us: int

    @property
    def end(self) -> int:
        """Return the byte behind the last frame."""
        return self.byte + self.bytes


class InlineCommits(NamedTuple):
    """The commits with frames that count, in their order."""

    numbers: npt.NDArray[np.int64]
    rows: pa.Table

    @classmethod
    def of(cls, state: QueueState, path: str) -> InlineCommits:
        """Raises :class:`CorruptLog` for rows in other objects than commits, or out of order."""
        rows = state.segments_of(0)
        files = rows.column("file")
        place = f"{path}/{commit_object_name(state.number)}"
        are_own = pc.all(pc.starts_with(files, f"{LOG_FOLDER}/")).as_py()
        if are_own is False or len(rows) < len(state.live):
            raise CorruptLog(place, 0, "rows that are no commit's own, in a queue of one writer")
        stem = commit_object_name(0)
        digits = slice(stem.rindex("/") + 1, stem.rindex("."))
        texts = pc.utf8_slice_codeunits(files, digits.start, digits.stop)
        numbers: npt.NDArray[np.int64] = pc.cast(texts, pa.int64()).to_numpy()
        if np.any(np.diff(numbers) <= 0):
            raise CorruptLog(place, 0, "rows that are not in the order of their commits")
        return cls(numbers, rows)

    def row(self, at: int) -> InlineRows:
        """Return what the ledger says of one of them."""
        names = InlineRows._fields[1:]
        values = (self.rows.column(name)[at].as_py() for name in names)
        return InlineRows(int(self.numbers[at]), *values)


class CommitReader(SegmentReader):
    """Reads the BATCH frames of one commit, and refuses what is not sound.

    They are read by one request, and kept until :meth:`reload`.
    """

    def __init__(
        self,
        url: str,
        read: Callable[[str, int, int], bytes],
        log_id: bytes,
        rows: InlineRows,
        schema: RecordSchema,
        is_trimmed: Callable[[int], bool],
    ) -> None:
        """``read`` returns bytes of an object of the queue at ``url``.

        ``is_trimmed`` looks whether the rows of a commit whose object is gone count no more."""
        name = commit_object_name(rows.number)
        SegmentFile.__init__(self, f"{url}/{name}", name, rows.number)
        self.rows_at = rows
        self.salt: int = rows.salt
        self.header = SegmentHeader(
            epoch=0, log_id=log_id, segment_id=rows.number, salt=rows.salt,
            first_seq=0, prev_segment=NONE, prev_bytes=0, prev_salt=0, prev_chain=0,
            created_us=rows.written_us,
        )  # fmt: skip
        self._read_object = read
        self._schema = schema
        self._is_trimmed = is_trimmed
        self._data: bytes | None = None

    def _read(self, byte: int, size: int) -> bytes:
        first = self.rows_at.byte
        if self._data is None:
            try:
                self._data = self._read_object(self.name, first, self.rows_at.bytes)
            except FileNotFoundError:
                if not self._is_trimmed(self.segment_id):
                    raise CorruptLog(self.path, 0, "a commit is missing") from None
                what = f"{self.path}: the rows of this commit have been trimmed"
                raise OutOfRange(what) from None
        # Nothing before the rows is asked for, but who reads backward loads what stands there.
        before = bytes(max(0, min(first, byte + size) - byte))
        return before + self._data[max(0, byte - first) : max(0, byte + size - first)]

    def reload(self) -> None:
        """Forget what was read."""
        super().reload()
        self._data = None

    def size(self) -> int:
        """Return the byte behind the last frame."""
        return self.rows_at.end

    def schema(self, header: FrameHeader) -> RecordSchema:
        """Return the queue's schema, which commit 0 has."""
        return self._schema

    def frames(self, start: int = SEGMENT_HEADER_BYTES, stop: int | None = None,
               bodies: bool = False, due: int | None = None
               ) -> Iterator[tuple[int, FrameHeader]]:  # fmt: skip
        """Frames in ``[start, stop)``, from the first one on where ``start`` is before it.

        Raises:
            BadFrame: at the first place that is no whole frame, or where the frames are not as many
                as the commit says.
        """
        count = 0
        first = max(start, self.rows_at.byte)
        end = self.rows_at.end if stop is None else stop
        for item in self.whole_frames(first, end, Numbers(due), bodies):
            if isinstance(item, Bad):
                raise BadFrame(item)
            if item[1].type != FrameType.BATCH:
                raise BadFrame(Bad(item[0], "a frame without records among those of a commit"))
            count += 1
            yield item
        if (first, end) == (self.rows_at.byte, self.rows_at.end) and count != self.rows_at.frames:
            what = f"{count} frames, and the commit says {self.rows_at.frames}"
            raise BadFrame(Bad(first, what))

    def proven_frames(self) -> Iterator[tuple[int, FrameHeader]]:
        """All frames, as (byte, header).

        Raises:
            CorruptLog: one is not sound, or they are not as many as the commit says.
            OutOfRange: they have been trimmed, and deleted.
        """
        try:
            yield from self.frames()
        except BadFrame as error:
            raise error.bad.refusal(self.path) from None

    def first_frame(self) -> FrameHeader:
        """Return the header of the first frame; raises as :meth:`proven_frames`."""
        return next(self.proven_frames())[1]
