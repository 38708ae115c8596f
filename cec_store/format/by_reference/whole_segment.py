"""A segment that is complete, as one piece of bytes: what stores without append hold.

docs/format.md §3 to §6, §11: its header, a SCHEMA frame, BATCH frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from cec_store.format.bodies import Body, decode_body
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    NONE,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    SegmentHeader,
    decode_segment_header,
    follows,
)
from cec_store.format.scan import Bad, FramesInMemory, Numbers, refusal, whole_frames
from cec_store.format.schema import RecordSchema


class WholeSegment(NamedTuple):
    """A complete segment that was read and proven, but for the bodies of its records."""

    header: SegmentHeader
    schema: RecordSchema
    frames: list[tuple[int, FrameHeader]]
    """Its BATCH frames and the byte of each."""
    data: FramesInMemory
    path: str

    @property
    def body_bytes(self) -> range:
        """Bytes of all BATCH frames: from behind the SCHEMA frame to the end."""
        if not self.frames:
            return range(0)
        last_byte, last = self.frames[-1]
        return range(self.frames[0][0], last_byte + last.frame_bytes)

    def records(self, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
        """Return the records of all frames, a batch each, or these columns of them.

        Raises:
            CorruptLog: one fails its checksum, or is not what its header says.
        """
        batches = []
        for byte, header in self.frames:
            try:
                batches.append(decode_body(self.data.body_at(byte, header), header.codec,
                                         header.raw_bytes, self.schema, header.record_count,
                                         columns))  # fmt: skip
            except BadHeader as error:
                raise refusal(self.path, byte, error) from None
        return batches


class FrameParts:
    """An object's bytes in the making: its header, and frames one behind the other."""

    def __init__(self, header: SegmentHeader) -> None:
        self._header = header
        self._running_crc = header.running_crc
        self.parts: list[bytes] = [header.encode()]
        self.bytes = SEGMENT_HEADER_BYTES

    def add(self, frame: FrameHeader, body: bytes, salt: int | None = None) -> None:
        """Add a frame, of the object's salt if none is given."""
        encoded = frame._replace(
            salt=self._header.salt if salt is None else salt, chain_crc=self._running_crc,
            body_bytes=len(body), body_crc=crc32c(body),
        ).encode()  # fmt: skip
        self.parts += (encoded, body)
        self._running_crc = crc32c(encoded[-4:], self._running_crc)
        self.bytes += len(encoded) + len(body)

    def add_numbered(
        self, frames: Sequence[tuple[FrameHeader, bytes]], previous: tuple[int, int], salt: int
    ) -> None:
        """Add BATCH frames that have numbers and marks, behind the BATCH frame at ``previous``."""
        for header, body in frames:
            byte = self.bytes
            self.add(header._replace(prev_segment=previous[0], prev_byte=previous[1]), body, salt)
            previous = (self._header.segment_id, byte)

    def add_records(
        self,
        bodies: Sequence[Body],
        schema_byte: int = SEGMENT_HEADER_BYTES,
        salt: int | None = None,
    ) -> None:
        """Add BATCH frames, whose ``seq`` and offsets count from 0."""
        offset = 0
        previous = (NONE, 0)
        for seq, body in enumerate(bodies):
            byte = self.bytes
            frame = FrameHeader(
                type=FrameType.BATCH, codec=body.codec, seq=seq, schema_byte=schema_byte,
                first_offset=offset, prev_segment=previous[0], prev_byte=previous[1],
                min_timestamp_us=body.min_timestamp_us, max_timestamp_us=body.max_timestamp_us,
                record_count=body.record_count, raw_bytes=body.raw_bytes,
            )  # fmt: skip
            self.add(frame, body.stored, salt)
            previous = (self._header.segment_id, byte)
            offset += body.record_count


def encode_whole(
    header: SegmentHeader,
    schema: RecordSchema,
    bodies: Sequence[Body],
) -> list[bytes]:
    """Return the segment's bytes, in parts. ``seq`` and offsets count from 0."""
    frames = FrameParts(header)
    message = schema.encode()
    frames.add(FrameHeader(type=FrameType.SCHEMA, raw_bytes=len(message)), message)
    frames.add_records(bodies)
    return frames.parts


def decode_whole(data: bytes, path: str) -> WholeSegment:
    """A segment whose headers are sound to its last byte; bodies are proven when they are read.

    Whether it is all that was written is for whoever names it to say. ``path`` is where the bytes
    are from, for errors.

    Raises:
        CorruptLog: it is not whole, or anything in it is not what it ought to be.
        UnsupportedVersion: a later format wrote it.
    """
    byte = 0
    try:
        header = decode_segment_header(data)
        byte, frames = SEGMENT_HEADER_BYTES, FramesInMemory(data, header.salt)
        order = _Order(frames, header.running_crc)
        for item in whole_frames(frames.header_at, byte, len(data), Numbers(0), order.prove):
            if isinstance(item, Bad):
                raise item.refusal(path)
        if order.schema is None:
            raise BadHeader("it ends before its schema")
        return WholeSegment(header, order.schema, order.batches, frames, path)
    except BadHeader as error:
        raise refusal(path, byte, error) from None


class _Order:
    """The order in which frames stand in a whole segment: its schema, and then records."""

    def __init__(self, frames: FramesInMemory, running_crc: int) -> None:
        self.schema: RecordSchema | None = None
        self.batches: list[tuple[int, FrameHeader]] = []
        self._frames = frames
        self._running_crc = running_crc
        self._offset = 0

    def prove(self, byte: int, header: FrameHeader) -> None:
        """Raise :class:`BadHeader` unless the frame may stand there.

        The bodies of BATCH frames have to be there, and are proven when they are read.
        """
        if (self.schema is None) is not (header.type == FrameType.SCHEMA):
            raise BadHeader("a segment starts with its schema, and has one")
        if self.schema is None:
            self.schema = RecordSchema.decode(self._frames.body_at(byte, header).to_pybytes())
        else:
            if header.first_offset != self._offset:
                raise BadHeader(f"record {header.first_offset} where {self._offset} is due")
            if header.stream_id != RECORD_STREAM:
                raise BadHeader(f"a frame of stream {header.stream_id}, not {RECORD_STREAM}")
            self.batches.append((byte, header))
            self._offset = header.end_offset
        self._running_crc = follows(self._running_crc, header)
