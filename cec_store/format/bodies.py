"""Records to the bytes of a frame, and back. docs/format.md §6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from cec_store.errors import FrameTooLarge
from cec_store.format import blocks
from cec_store.format.alike import are_alike, read_alike
from cec_store.format.arrow_limits import ARROW_ERRORS, is_lone_batch, is_plain_batch
from cec_store.format.arrow_values import has_union
from cec_store.format.by_columns import body as by_columns
from cec_store.format.frame import (
    BODY_BYTES_MAX,
    ONE_RECORD_BYTES_MAX,
    BadHeader,
    Codec,
    FrameHeader,
    raw_bytes_max,
)
from cec_store.format.records import empty_batch
from cec_store.format.schema import KEY, STATE_SCHEMA, RecordSchema
from cec_store.format.zstd_frames import Inflater, inflate
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

RECORDS_BYTES_MAX = BODY_BYTES_MAX - (1 << 20)
"""Limit of many records in one frame: an incompressible body must still fit."""
COLUMNS_BYTES_MIN = 32 << 10
"""Bytes before compression below which a body is compressed as a whole, which takes less."""
_KEY_CHARS_MAX = 200


@dataclass(frozen=True)
class Body:
    """A BATCH frame's body, ready to be written, and what its header says of it."""

    stored: bytes
    raw_bytes: int
    codec: Codec
    record_count: int
    min_timestamp_us: int
    max_timestamp_us: int

    @classmethod
    def of_frame(cls, header: FrameHeader, stored: bytes) -> Body:
        """The body of a frame that is written already, to be written again."""
        return cls(
            stored, header.raw_bytes, Codec(header.codec), header.record_count,
            header.min_timestamp_us, header.max_timestamp_us,
        )  # fmt: skip


def check_body_size(records: pa.RecordBatch, path: str = "") -> int:
    """Bytes of the body before compression. ``path`` is that of the log, for the error.

    Raises:
        FrameTooLarge: they would not fit in one frame.
    """
    size = int(pa.ipc.get_record_batch_size(records))
    if records.num_rows == 1:
        if size > ONE_RECORD_BYTES_MAX:
            raise FrameTooLarge(f"{path}: {_too_large(records, size)}".removeprefix(": "))
    elif size > RECORDS_BYTES_MAX:
        raise FrameTooLarge(
            f"{records.num_rows} records of {size} bytes do not fit in one frame "
            f"({RECORDS_BYTES_MAX} bytes): append smaller batches"
        )
    return size


def _too_large(record: pa.RecordBatch, size: int) -> str:
    sizes = {name: record.select([name]).get_total_buffer_size() for name in record.schema.names}
    largest = max(sizes, key=lambda name: sizes[name])
    key = ""
    if KEY in sizes and record[KEY].null_count == 0:
        key = _key_text(record[KEY][0])
    return (
        f"one record{key} has {size} bytes, most of them in the column {largest!r}, and no frame "
        f"may hold more than {ONE_RECORD_BYTES_MAX}: keep such a value elsewhere, and a reference "
        "to it here"
    )


def _key_text(key: pa.Scalar) -> str:
    try:
        return f" of the key {key.as_py()!r:.{_KEY_CHARS_MAX}}"
    except UnicodeDecodeError:
        return ""


def cut_to_frames(records: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """The records in parts of at most so many bytes before compression, or of one record each."""
    size, rows = int(pa.ipc.get_record_batch_size(records)), records.num_rows
    if size <= bytes_max or rows <= 1:
        yield records
        return
    cuts = np.linspace(0, rows, min(rows, -(-size // bytes_max)) + 1).astype(np.int64)
    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        yield from cut_to_frames(records.slice(start, stop - start), bytes_max)


def encode_body(records: pa.RecordBatch, level: int) -> Body:
    """Serialise and compress as a whole; releases the GIL for most of its time."""
    raw = records.serialize()
    return _body(records, *compress(raw, level, records.num_rows))


def compress(raw: pa.Buffer | bytes, level: int, record_count: int) -> tuple[bytes, int, Codec]:
    """Return a body as stored, its size in bytes before, and its codec; it may stay as it is."""
    stored = zstandard.ZstdCompressor(level=level, write_checksum=False).compress(raw)
    inflates = len(raw) > raw_bytes_max(len(stored), record_count)
    if inflates or len(stored) > max(len(raw), BODY_BYTES_MAX):
        # Readers refuse a body that inflates so much, whoever wrote it, and one above the limit.
        return bytes(raw), len(raw), Codec.NONE
    return stored, len(raw), Codec.ZSTD


def inflated(stored: pa.Buffer, codec: int, raw_bytes: int) -> pa.Buffer:
    """Return a body that is stored as a whole, as it was before.

    Raises:
        BadHeader: it does not have the size that its header says.
        OSError, zstandard.ZstdError: it is not what its codec says.
    """
    raw = stored if codec == Codec.NONE else inflate(stored, raw_bytes)
    if raw.size != raw_bytes:
        raise BadHeader(f"body of {raw.size} bytes, its header says {raw_bytes}")
    return raw


def encode_columns(records: pa.RecordBatch, level: int) -> Body:
    """Serialise and compress each column apart; as a whole where that takes less or can only be so.

    Releases the GIL for most of its time.
    """
    raw_bytes = int(pa.ipc.get_record_batch_size(records))
    # pyarrow ends the process where it compresses an empty union that it has read before.
    if raw_bytes < COLUMNS_BYTES_MIN or any(map(has_union, records.schema.types)):
        return encode_body(records, level)
    stored = by_columns.pack(records, level)
    # As in encode_body: what a reader would refuse must not be written.
    fits = len(stored) <= min(raw_bytes, BODY_BYTES_MAX)
    inflates = raw_bytes > raw_bytes_max(len(stored), records.num_rows)
    if not fits or inflates or not by_columns.is_within(stored, raw_bytes):
        return encode_body(records, level)
    return _body(records, stored, raw_bytes, Codec.COLUMNS)


def encode_blocks(records: pa.RecordBatch, level: int, rows_per_block: int = 0) -> Body:
    """Return the records of a version of a state log in blocks; see :func:`blocks.pack`."""
    return _body(records, *blocks.pack(records, level, rows_per_block), Codec.BLOCKS)


def _body(records: pa.RecordBatch, stored: bytes, raw_bytes: int, codec: Codec) -> Body:
    span = pc.min_max(records.column(1).cast(pa.int64())).as_py()
    low = MAX_TIMESTAMP_US if span["min"] is None else span["min"]
    high = MIN_TIMESTAMP_US if span["max"] is None else span["max"]
    return Body(stored, raw_bytes, codec, records.num_rows, low, high)


def decode_body(
    stored: pa.Buffer,
    codec: int,
    raw_bytes: int,
    schema: RecordSchema,
    record_count: int,
    columns: Sequence[str] | None = None,
    keep_dictionaries: bool = False,
) -> pa.RecordBatch:
    """The records of a body whose CRC has been checked; of these columns only, if they are given.

    ``keep_dictionaries``: what is stored as dictionary and indices is returned so.

    Raises:
        BadHeader: sizes, compression or Arrow structure are not what they claim.
    """
    try:
        if codec == Codec.COLUMNS:
            return by_columns.unpack(
                stored, raw_bytes, schema.arrow, record_count, columns, keep_dictionaries
            )
        if codec == Codec.BLOCKS:
            if schema.arrow != STATE_SCHEMA.arrow:
                raise BadHeader("body: in blocks, which only state logs have")
            records = blocks.unpack(stored, raw_bytes, record_count)
            return records if columns is None else records.select(columns)
        raw = inflated(stored, codec, raw_bytes)
        message = _message(raw)
        records = pa.ipc.read_record_batch(message, schema.checked)
        # Offsets may point outside the buffers: whoever made the body could make its CRC right.
        (records if columns is None else records.select(columns)).validate(full=True)
        if schema.checked is not schema.arrow:
            records = pa.ipc.read_record_batch(message, schema.arrow)
        checked = records if columns is None else records.select(columns)
    except (*ARROW_ERRORS, zstandard.ZstdError) as error:
        raise BadHeader(f"body: {error}") from error
    if records.num_rows != record_count:
        raise BadHeader(f"body has {records.num_rows} records, its header says {record_count}")
    return checked


def decode_together(
    bodies: Sequence[tuple[FrameHeader, pa.Buffer]], schema: RecordSchema
) -> pa.RecordBatch | None:
    """Return the records of many small bodies as one batch, in far less time than one by one.

    ``None`` where :func:`decode_body` has to be asked of each: they are not all compressed as a
    whole, or one of them is not sound. The checks are the same; the CRCs have been checked before.
    """
    if {header.codec for header, _ in bodies} != {Codec.ZSTD}:
        return None
    inflater = Inflater()
    try:
        raws = [inflater.inflate(body, header.raw_bytes) for header, body in bodies]
        alike = are_alike(raws)
        if not all(map(is_lone_batch, raws[:1] if alike else raws)):
            return None
        records, rows = _read_all(raws, schema.checked, alike)
        records.validate(full=True)
        if schema.checked is not schema.arrow:
            records, _ = _read_all(raws, schema.arrow, alike)
    except (*ARROW_ERRORS, zstandard.ZstdError, BadHeader):
        return None  # decode_body says which of them, and why
    if [header.raw_bytes for header, _ in bodies] != [len(raw) for raw in raws]:
        return None
    if [header.record_count for header, _ in bodies] != rows:
        return None
    batches = records.combine_chunks().to_batches()
    return batches[0] if batches else empty_batch(schema.arrow)


def _read_all(raws: Sequence[bytes], schema: pa.Schema, alike: bool) -> tuple[pa.Table, list[int]]:
    """The records of all messages, and how many each has."""
    rows = read_alike(raws, schema) if alike else None
    if rows is not None:
        return pa.Table.from_batches([rows]), [rows.num_rows // len(raws)] * len(raws)
    stream = b"".join([schema.serialize(), *raws])
    records = pa.ipc.open_stream(stream).read_all()
    return records, [len(chunk) for chunk in records.column(0).chunks]


def _message(raw: pa.Buffer) -> pa.ipc.Message:
    message = pa.ipc.read_message(raw)
    if not is_plain_batch(message):
        raise BadHeader("body: no record batch, or one that Arrow itself has compressed")
    return message
