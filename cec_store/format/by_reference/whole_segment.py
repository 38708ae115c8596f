"""A segment that is complete, as one piece of bytes: what stores without append hold.

docs/format.md §3 to §6, §11: its header, a SCHEMA frame, BATCH frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from cec_store.errors import CorruptLog, upgrade_needed
from cec_store.format.bodies import Body, decode_body
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    NONE,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentHeader,
    body_is_sound,
    decode_frame_header,
    decode_segment_header,
    follows,
)
from cec_store.format.schema import RecordSchema


class WholeSegment(NamedTuple):
    """A complete segment that was read and proven, but for the bodies of its records."""

    header: SegmentHeader
    schema: RecordSchema
    frames: list[tuple[int, FrameHeader]]
    """Its BATCH frames and the byte of each."""
    data: pa.Buffer
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
            body = self.data.slice(byte + FRAME_HEADER_BYTES, header.body_bytes)
            try:
                if not body_is_sound(header, body):
                    raise BadHeader("body fails its checksum")
                batches.append(decode_body(body, header.codec, header.raw_bytes, self.schema,
                                         header.record_count, columns))  # fmt: skip
            except BadHeader as error:
                raise CorruptLog(self.path, byte, str(error)) from None
        return batches


def encode_whole(
    header: SegmentHeader,
    schema: RecordSchema,
    bodies: Sequence[Body],
) -> list[bytes]:
    """The segment's bytes, in parts. ``seq`` and offsets count from 0."""
    parts = [header.encode()]
    running_crc, at_byte = header.running_crc, SEGMENT_HEADER_BYTES

    def add(frame: FrameHeader, body: bytes) -> None:
        nonlocal running_crc, at_byte
        encoded = frame._replace(
            salt=header.salt, chain_crc=running_crc, body_bytes=len(body), body_crc=crc32c(body)
        ).encode()
        parts.extend((encoded, body))
        running_crc = crc32c(encoded[-4:], running_crc)
        at_byte += len(encoded) + len(body)

    message = schema.encode()
    add(FrameHeader(type=FrameType.SCHEMA, raw_bytes=len(message)), message)
    seq = offset = 0
    previous = (NONE, 0)
    for body in bodies:
        byte = at_byte
        frame = FrameHeader(
            type=FrameType.BATCH, codec=body.codec, seq=seq,
            first_offset=offset, prev_segment=previous[0], prev_byte=previous[1],
            min_timestamp_us=body.min_timestamp_us, max_timestamp_us=body.max_timestamp_us,
            record_count=body.record_count, raw_bytes=body.raw_bytes,
        )  # fmt: skip
        add(frame, body.stored)
        previous = (header.segment_id, byte)
        seq, offset = seq + 1, offset + body.record_count
    return parts


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
        byte, running_crc = SEGMENT_HEADER_BYTES, header.running_crc
        buffer = pa.py_buffer(data)
        schema: RecordSchema | None = None
        frames: list[tuple[int, FrameHeader]] = []
        while schema is None or byte < len(data):
            frame = decode_frame_header(data, byte)
            start = byte + FRAME_HEADER_BYTES
            body = buffer.slice(start, min(frame.body_bytes, len(data) - start))
            _check(frame, header, frames, body, schema is None)
            running_crc = follows(running_crc, frame)
            if schema is None:
                schema = RecordSchema.decode(body.to_pybytes())
            else:
                frames.append((byte, frame))
            byte += frame.frame_bytes
        return WholeSegment(header, schema, frames, buffer, path)
    except NewerVersion as error:
        raise upgrade_needed(path, f"byte {byte}: {error}") from None
    except BadHeader as error:
        raise CorruptLog(path, byte, str(error)) from None


def _check(
    frame: FrameHeader,
    segment: SegmentHeader,
    before: list[tuple[int, FrameHeader]],
    body: pa.Buffer,
    is_first: bool,
) -> None:
    """Check that a frame may stand where it does; bodies of BATCH frames are checked later."""
    if frame.salt != segment.salt:
        raise BadHeader("the frame belongs to another segment")
    if body.size < frame.body_bytes:
        raise BadHeader("body cut short")
    if is_first is not (frame.type == FrameType.SCHEMA):
        raise BadHeader("a segment starts with its schema, and has one")
    if frame.type != FrameType.BATCH:
        if not body_is_sound(frame, body):
            raise BadHeader("body fails its checksum")
        return
    seq, offset = (before[-1][1].seq + 1, before[-1][1].end_offset) if before else (0, 0)
    if (frame.seq, frame.first_offset) != (seq, offset):
        raise BadHeader(
            f"frame {frame.seq} at offset {frame.first_offset}, where {seq} at {offset} is due"
        )
    if frame.stream_id != RECORD_STREAM:
        raise BadHeader(f"a frame of stream {frame.stream_id}, not {RECORD_STREAM}")
