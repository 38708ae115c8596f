"""Bytes to headers and back. No I/O. docs/format.md §3–§5."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import unknown_version
from cec_store.format.checksum import crc32c, crc_is_right, with_crc
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

NONE = 2**64 - 1
"""Value in place of a segment id where there is no segment."""
BODY_BYTES_MAX = 64 << 20
RAW_BYTES_MAX = 256 << 20
ONE_RECORD_BYTES_MAX = 2**31 - 65_536
"""Stored and decompressed, of a frame of one record: about the most that Arrow has offsets for."""
RECORD_STREAM = 1
FORMAT_VERSION = 1
SEGMENT_MAGIC = b"CECSEGM\0"
FRAME_MAGIC = int.from_bytes(b"CECF", "little")
FRAME_MAGIC_BYTES = b"CECF"

_SEGMENT = Struct("<8sHHI16sQQQQQQIIq28xI")
assert _SEGMENT.size == 128
SEGMENT_HEADER_BYTES = _SEGMENT.size
_FRAME = Struct("<IBBHIIQQQQQQQqqQQIIIIII")
assert _FRAME.size == 128
FRAME_HEADER_BYTES = _FRAME.size
NUMBERS_END = 2**63
"""Numbers of frames and records stay below, the next one included."""
_RATIO_MAX, _RATIO_SLACK_BYTES = 200, 64 << 10


class FrameType(IntEnum):
    """Frozen on disk: never renumber."""

    BATCH = 1
    SCHEMA = 2
    COMMIT = 3


class Codec(IntEnum):
    """Encoding and compression of a body. Frozen on disk."""

    NONE = 0
    ZSTD = 1
    BLOCKS = 2
    COLUMNS = 3


class FrameFlags(IntFlag):
    """Facts about a BATCH. Frozen on disk; an unknown one is refused."""

    CONTINUES = 1
    """The step goes on in the next BATCH frame."""
    COUNTED = 2
    """N and q are those at the end of the frame; else its state is not in the log, or not yet."""


class SegmentFlags(IntFlag):
    """Facts about a segment. Frozen on disk; an unknown one is refused."""

    COMPACTED = 1
    """Maintenance wrote it, of frames or records of other segments."""


CONTINUES, COUNTED = FrameFlags.CONTINUES.value, FrameFlags.COUNTED.value
_BATCH_FLAGS = CONTINUES | COUNTED
_SEGMENT_FLAGS = SegmentFlags.COMPACTED.value
SEGMENT_TYPES = frozenset((FrameType.BATCH.value, FrameType.SCHEMA.value))
_BATCH = FrameType.BATCH.value  # looked up for each header that is read
_CODECS = frozenset(map(int, Codec))


class SegmentHeader(NamedTuple):
    """The first 128 bytes of a segment; fields as in docs/format.md §3."""

    epoch: int
    log_id: bytes
    segment_id: int
    salt: int
    first_seq: int
    prev_segment: int
    prev_bytes: int
    prev_salt: int
    prev_chain: int
    created_us: int
    flags: int = 0
    """:class:`SegmentFlags`."""

    def encode(self) -> bytes:
        data = _SEGMENT.pack(
            SEGMENT_MAGIC, FORMAT_VERSION, SEGMENT_HEADER_BYTES, self.epoch, self.log_id,
            self.segment_id, self.salt, self.first_seq, self.prev_segment, self.prev_bytes,
            self.prev_salt, self.prev_chain, self.flags, self.created_us, 0,
        )  # fmt: skip
        return with_crc(data)

    @property
    def running_crc(self) -> int:
        """The running CRC of a segment without frames."""
        return crc32c(self.encode()[-4:])


class BadHeader(Exception):
    """Error for bytes that are not what was asked for; the message says why. Callers turn it into
    an error that names the file."""


class NewerVersion(BadHeader):
    """A sound header of a later format."""


def decode_segment_header(data: bytes) -> SegmentHeader:
    """Raises :class:`BadHeader` (:class:`NewerVersion` where the version alone is the matter)."""
    if len(data) < SEGMENT_HEADER_BYTES:
        raise BadHeader(f"segment header cut short at {len(data)} bytes")
    data = data[:SEGMENT_HEADER_BYTES]
    if not data.startswith(SEGMENT_MAGIC):
        raise BadHeader("segment magic is wrong")
    if not crc_is_right(data):
        raise BadHeader("segment header fails its checksum")
    fields = _SEGMENT.unpack(data)
    if fields[1] != FORMAT_VERSION:
        raise NewerVersion(unknown_version(fields[1], FORMAT_VERSION))
    flags = fields[12]
    if flags & ~_SEGMENT_FLAGS:
        raise NewerVersion(f"segment flags {flags:#x}: unknown to this release")
    return SegmentHeader._make((*fields[3:12], fields[13], flags))


class FrameHeader(NamedTuple):
    """The 128 bytes before a frame's body; fields as in docs/format.md §4.

    What is not given is that of an empty frame of records, before all others.
    """

    magic: int = FRAME_MAGIC
    type: int = 0
    codec: int = Codec.NONE
    flags: int = 0
    stream_id: int = RECORD_STREAM
    chain_crc: int = 0
    """The segment's running CRC before this frame."""
    seq: int = 0
    first_offset: int = 0
    prev_segment: int = NONE
    prev_byte: int = 0
    schema_byte: int = SEGMENT_HEADER_BYTES
    durable_upto: int = 0
    salt: int = 0
    min_timestamp_us: int = MAX_TIMESTAMP_US
    max_timestamp_us: int = MIN_TIMESTAMP_US
    extent_records: int = 0
    input_upto: int = 0
    record_count: int = 0
    open_windows: int = 0
    body_bytes: int = 0
    raw_bytes: int = 0
    body_crc: int = 0
    header_crc: int = 0
    """Over the bytes that were read; :meth:`encode` makes it anew."""

    @property
    def frame_bytes(self) -> int:
        return FRAME_HEADER_BYTES + self.body_bytes

    @property
    def continues(self) -> bool:
        """True if the step that it belongs to continues in the next BATCH frame."""
        return bool(self.flags & CONTINUES)

    @property
    def is_counted(self) -> bool:
        """True if N and q are known at its end: a rebuild can begin there."""
        return bool(self.flags & COUNTED)

    @property
    def end_offset(self) -> int:
        """The stream's next offset after this frame."""
        return self.first_offset + self.record_count

    def encode(self) -> bytes:
        return with_crc(_FRAME.pack(*self))


def decode_frame_header(
    data: bytes, at: int = 0, types: Collection[int] = SEGMENT_TYPES
) -> FrameHeader:
    """Return the header at ``data[at:]``, its checksum and limits proven.

    Raises:
        BadHeader: not a sound frame header of one of these types.
    """
    if len(data) - at < FRAME_HEADER_BYTES:
        raise BadHeader(f"frame header cut short at {max(0, len(data) - at)} bytes")
    # Names and not attributes: a queue of small frames has this as its greatest cost.
    fields = _FRAME.unpack_from(data, at)
    (magic, kind, codec, flags, _, _, seq, first_offset, _, _, _, _, _, _, _, extent_records, _,
     records, windows, body_bytes, raw_bytes, _, header_crc) = fields  # fmt: skip
    if magic != FRAME_MAGIC:
        raise BadHeader("frame magic is wrong")
    if crc32c(data[at : at + FRAME_HEADER_BYTES - 4]) != header_crc:
        raise BadHeader("frame header fails its checksum")
    if kind not in types:
        raise NewerVersion(f"frame type {kind} is unknown to this release")
    if flags & ~(_BATCH_FLAGS if kind == _BATCH else 0) or codec not in _CODECS:
        raise NewerVersion(f"frame flags {flags:#x}, codec {codec}: unknown to this release")
    if seq >= NUMBERS_END or first_offset + records >= NUMBERS_END:
        raise BadHeader(f"number {seq} or offset {first_offset + records} is over 63 bits")
    if flags & CONTINUES and flags & COUNTED:
        raise BadHeader("a step that goes on has no open windows to count yet")
    if not flags & COUNTED and (windows or extent_records):
        raise BadHeader(f"{windows} open windows, extent {extent_records}: not counted")
    if body_bytes > (bytes_max := body_bytes_max(records)):
        raise BadHeader(f"body of {body_bytes} bytes is over {bytes_max}")
    if raw_bytes > raw_bytes_max(body_bytes, records):
        raise BadHeader(f"raw size {raw_bytes} is impossible for {body_bytes} bytes")
    return tuple.__new__(FrameHeader, fields)


def body_bytes_max(record_count: int) -> int:
    """The most that the body of a frame of so many records may have, as stored."""
    return ONE_RECORD_BYTES_MAX if record_count == 1 else BODY_BYTES_MAX


def raw_bytes_max(body_bytes: int, record_count: int = 0) -> int:
    """The most that a body of this size and so many records may say it inflates to."""
    limit = ONE_RECORD_BYTES_MAX if record_count == 1 else RAW_BYTES_MAX
    by_ratio = _RATIO_MAX * body_bytes + _RATIO_SLACK_BYTES
    return by_ratio if by_ratio < limit else limit


def prove_body(header: FrameHeader, body: pa.Buffer | bytes) -> None:
    """Raise :class:`BadHeader` unless these are the bytes that the header describes."""
    if len(body) < header.body_bytes:
        raise BadHeader("the body is cut short")
    if len(body) > header.body_bytes:
        raise BadHeader(f"the body has {len(body)} bytes, its header says {header.body_bytes}")
    if crc32c(body) != header.body_crc:
        raise BadHeader("the body fails its checksum")


def follows(running_crc: int, header: FrameHeader) -> int:
    """Return the running CRC at the frame's end.

    Raises:
        BadHeader: before it stands something else than when it was written.
    """
    if header.chain_crc != running_crc:
        raise BadHeader("its chain CRC is not that of the frames before it")
    return extend_running_crc(running_crc, header.header_crc)


def extend_running_crc(running_crc: int, header_crc: int) -> int:
    """The CRC over all header CRCs of a segment, with one more (docs/format.md §4: chain CRC)."""
    return crc32c(header_crc.to_bytes(4, "little"), running_crc)


_COLUMN_TYPES = (
    "<u4 u1 u1 <u2 <u4 <u4 <u8 <u8 <u8 <u8 <u8 <u8 <u8 <i8 <i8 <u8 <u8 <u4 <u4 <u4 <u4 <u4 <u4"
)
HEADER = np.dtype([*zip(FrameHeader._fields, _COLUMN_TYPES.split(" "), strict=True)])
"""A frame header as docs/format.md §4 has it."""
assert HEADER.itemsize == FRAME_HEADER_BYTES


def are_sound(headers: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return one flag for each header of an array of :data:`HEADER`.

    It is True where :func:`decode_frame_header` raises nothing, but for the checksum.
    """
    kinds, flags = headers["type"], headers["flags"]
    records, windows = headers["record_count"], headers["open_windows"]
    is_batch, is_counted = kinds == FrameType.BATCH.value, (flags & COUNTED) != 0
    is_one = records == 1
    stored, raw = headers["body_bytes"].astype(np.int64), headers["raw_bytes"].astype(np.int64)
    seq, first, extent = headers["seq"], headers["first_offset"], headers["extent_records"]
    known = np.where(is_batch, CONTINUES | COUNTED, 0)
    sound: NDArray[np.bool_] = (
        (headers["magic"] == FRAME_MAGIC)
        & (is_batch | (kinds == FrameType.SCHEMA.value))
        & ((flags & ~known) == 0)
        & np.isin(headers["codec"], [codec.value for codec in Codec])
        & (seq < np.uint64(NUMBERS_END))
        & (first < np.uint64(NUMBERS_END))
        & (first + records < np.uint64(NUMBERS_END))
        & ~(is_counted & ((flags & CONTINUES) != 0))
        & (is_counted | ((windows == 0) & (extent == 0)))
        & (stored <= np.where(is_one, body_bytes_max(1), body_bytes_max(0)))
        & (raw <= _raw_bytes_max(stored, is_one))
    )
    return sound


def _raw_bytes_max(stored: NDArray[np.int64], is_one: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return :func:`raw_bytes_max` of each of these bodies."""
    slack = raw_bytes_max(0)
    by_ratio = slack + (raw_bytes_max(1) - slack) * stored
    limits = np.where(is_one, raw_bytes_max(NUMBERS_END, 1), raw_bytes_max(NUMBERS_END))
    return np.minimum(limits, by_ratio)
