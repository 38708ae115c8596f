"""Rows that stand in the object of the commit that adds them. docs/format.md §11: inline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.bodies import Body
from cec_store.format.by_reference.commit_body import SEGMENT_COLUMNS
from cec_store.format.by_reference.whole_segment import FrameParts
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    decode_frame_header,
    decode_segment_header,
    follows,
)
from cec_store.format.scan import Bad, refusal, whole_frames
from cec_store.storage.names import commit_object_name

INLINE_BYTES_MAX = 256 << 10
"""Bytes of the frames of a commit, all partitions together, up to which a writer puts them in."""
NO_SCHEMA = 0
"""Byte of the SCHEMA frame in the headers of inline frames: commit 0 has the schema."""
OWN = ""
"""File of an inline segment in its own commit, as it is stored."""
COMMIT_TYPES = (FrameType.COMMIT.value, FrameType.BATCH.value)
"""Types of the frames of an object of `log/`."""


class InlineFrames(NamedTuple):
    """Frames of one inline segment, before they are encoded."""

    salt: int
    """Random, and other than that of the commit: no other segment's frames pass for these."""
    bodies: Sequence[Body]

    def add_to(self, frames: FrameParts) -> None:
        """Add them to the object of their commit."""
        frames.add_records(self.bodies, NO_SCHEMA, self.salt)


class NumberedFrames(NamedTuple):
    """The frames of a commit of a queue of one writer, which the writer has numbered: §13."""

    salt: int
    """Random, and other than that of the commit."""
    frames: Sequence[tuple[FrameHeader, bytes]]
    """Headers without addresses, salt and checksums, and bodies."""
    previous: tuple[int, int]
    """Commit, and byte of its object, of the BATCH frame before."""

    def add_to(self, frames: FrameParts) -> None:
        """Add them to the object of their commit."""
        frames.add_numbered(self.frames, self.previous, self.salt)


def inline_bytes(segments: pa.RecordBatch) -> int:
    """Return the bytes that a commit's rows say of inline frames, which follow one another.

    Raises:
        ValueError: they do not, or a segment that is removed is one of them.
    """
    own = segments.filter(_is_own(segments))
    if not own.num_rows:
        return 0
    sizes = own.column("bytes").to_numpy()
    ends = np.cumsum(sizes)
    if pc.any(own.column("removed")).as_py() or (sizes <= 0).any() or (ends <= 0).any():
        raise ValueError("inline frames that cannot be")
    if (own.column("byte").to_numpy() != ends - sizes).any():
        raise ValueError("inline frames that do not follow one another")
    return int(ends[-1])


def placed(segments: pa.RecordBatch, number: int, frames_byte: int) -> pa.RecordBatch:
    """Return the rows as all but commit ``number`` have them: inline ones by its name and bytes.

    ``frames_byte`` is where its inline frames begin.
    """
    is_own = _is_own(segments)
    files = pc.if_else(is_own, commit_object_name(number), segments.column("file"))
    bytes_ = segments.column("byte")
    moved = pc.if_else(is_own, pc.add(bytes_, frames_byte), bytes_)
    columns = {"file": files, "byte": moved}
    return pa.RecordBatch.from_arrays(
        [columns.get(name, segments.column(name)) for name in SEGMENT_COLUMNS.names],
        schema=SEGMENT_COLUMNS,
    )


def _is_own(segments: pa.RecordBatch) -> pa.BooleanArray:
    return pc.equal(segments.column("file"), OWN)


def prove_chain(data: bytes, path: str) -> None:
    """See that the headers of all frames of a commit's object stand as they were written.

    Raises:
        CorruptLog: one does not, or is not sound.
        UnsupportedVersion: a later format wrote it.
    """
    try:
        running_crc = decode_segment_header(data).running_crc
    except BadHeader as error:
        raise refusal(path, 0, error) from None

    def prove(_: int, frame: FrameHeader) -> None:
        nonlocal running_crc
        running_crc = follows(running_crc, frame)

    def header_at(byte: int) -> FrameHeader:
        return decode_frame_header(data, byte, COMMIT_TYPES)

    for item in whole_frames(header_at, SEGMENT_HEADER_BYTES, len(data), None, prove):
        if isinstance(item, Bad):
            raise item.refusal(path)
