"""Records: Arrow batches of data and control records, and their bytes. docs/format.md §6."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from numpy.typing import NDArray

from cec_store.arrow_limits import ARROW_ERRORS, holds_dictionary, is_plain_batch
from cec_store.columns import values_of
from cec_store.errors import FrameTooLarge, SchemaMismatch
from cec_store.frame import BODY_BYTES_MAX, BadHeader, Codec, raw_bytes_max
from cec_store.offset_lengths import restore_offsets
from cec_store.units import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

KIND, TIMESTAMP, KEY, STATE = "_kind", "_timestamp", "_key", "_state"
TIMESTAMP_TYPE = pa.timestamp("us", "UTC")
_TIMESTAMP_COLUMN, _KEY_COLUMNS = b"cec.timestamp_column", b"cec.key_columns"
_RAW_BYTES_MAX = BODY_BYTES_MAX - (1 << 20)  # an incompressible body must still fit in a frame
_WINDOW_BYTES_MAX = 8 << 20


class RecordKind(IntEnum):
    """What a record says. Frozen on disk: never renumber, never reuse."""

    DATA = 1
    """Output that closes no window, such as a filter's."""
    OPEN = 2
    """First footprint of a window: its state at the end of the step that opened it."""
    CHECK = 3
    """Later footprint of an open window."""
    RESULT = 4
    """The window's result; it closes the window."""


def input_column(number: int) -> str:
    """Name of the column with the next unread offset of input ``number``."""
    return f"_input_{number}"


@dataclass(frozen=True)
class RecordSchema:
    """The columns of a stream: the user's, some of which may be keys, and those of checkpoints."""

    data: pa.Schema
    key: pa.Schema | None = None
    state: pa.Schema | None = None
    inputs: int = 0
    timestamp_column: str | None = None
    key_columns: tuple[str, ...] = ()
    arrow: pa.Schema = field(init=False, compare=False)
    """The record schema as stored."""

    def __post_init__(self) -> None:
        self._check()
        columns = [pa.field(KIND, pa.uint8()), pa.field(TIMESTAMP, TIMESTAMP_TYPE)]
        columns += [pa.field(input_column(i), pa.int64()) for i in range(self.inputs)]
        if self.key is not None:
            columns.append(pa.field(KEY, pa.struct(list(self.key))))
        if self.state is not None:
            columns.append(pa.field(STATE, pa.struct(list(self.state))))
        columns += [column.with_nullable(True).remove_metadata() for column in self.data]
        metadata = {}
        if self.timestamp_column is not None:
            metadata[_TIMESTAMP_COLUMN] = self.timestamp_column.encode()
        if self.key_columns:
            metadata[_KEY_COLUMNS] = json.dumps(self.key_columns).encode()
        object.__setattr__(self, "arrow", pa.schema(columns, metadata or None))

    def _check(self) -> None:
        names = self.data.names
        if len(set(names)) != len(names):
            raise SchemaMismatch(f"columns of one name: {sorted(names)}")
        for column in self.data:
            if column.name.startswith("_"):
                raise SchemaMismatch(
                    f"column {column.name!r}: names that start with _ are reserved"
                )
        for column in (*self.data, *(self.key or ()), *(self.state or ())):
            if holds_dictionary(column.type):
                raise SchemaMismatch(
                    f"column {column.name!r} is {column.type}: dictionary-encoded columns cannot "
                    "be stored; cast to the type of their values first"
                )
        if self.timestamp_column is not None:
            if self.timestamp_column not in names:
                raise SchemaMismatch(f"there is no timestamp column {self.timestamp_column!r}")
            check_timestamp_type(self.data.field(self.timestamp_column).type)
        for name in self.key_columns:
            if name not in names:
                raise SchemaMismatch(f"there is no key column {name!r}")

    @classmethod
    def from_arrow(cls, arrow: pa.Schema) -> RecordSchema:
        """Read back from the stored schema.

        Raises:
            BadHeader: not a record schema.
        """
        names = arrow.names
        if names[:2] != [KIND, TIMESTAMP]:
            raise BadHeader(f"not a record schema: {names}")
        inputs = sum(name.startswith("_input_") for name in names)
        key = pa.schema(list(arrow.field(KEY).type)) if KEY in names else None
        state = pa.schema(list(arrow.field(STATE).type)) if STATE in names else None
        said = arrow.metadata or {}
        column = said.get(_TIMESTAMP_COLUMN)
        keys = tuple(json.loads(said.get(_KEY_COLUMNS, b"[]")))
        data = pa.schema([f for f in arrow if not f.name.startswith("_")])
        schema = cls(data, key, state, inputs, column.decode() if column else None, keys)
        if schema.arrow != arrow:
            raise BadHeader(f"not a record schema: {arrow}")
        return schema

    def is_as(self, other: RecordSchema) -> bool:
        """Whether both are stored as the same bytes would be."""
        return bool(self.arrow.equals(other.arrow, check_metadata=True))

    def encode(self) -> bytes:
        """Body of a SCHEMA frame."""
        return bytes(self.arrow.serialize())

    @classmethod
    def decode(cls, body: bytes) -> RecordSchema:
        """Raises :class:`BadHeader` where the bytes are no record schema."""
        try:
            return cls.from_arrow(pa.ipc.read_schema(pa.py_buffer(body)))
        except (*ARROW_ERRORS, SchemaMismatch) as error:
            raise BadHeader(f"schema message: {error}") from error


def check_timestamp_type(kind: pa.DataType) -> None:
    """Timestamps are Arrow timestamps or int64 microseconds.

    Raises:
        SchemaMismatch: any other type.
    """
    if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
        raise SchemaMismatch(
            f"timestamps are an Arrow timestamp or int64 microseconds since 1970, not {kind}"
        )


def to_timestamps(values: pa.Array) -> pa.Array:
    """As ``timestamp[us, UTC]``; finer units are cut to microseconds.

    Raises:
        SchemaMismatch: wrong type, a null, or a value outside 64 bits of microseconds.
    """
    if not isinstance(values, pa.Array):
        raise SchemaMismatch(f"timestamps are a pyarrow.Array, not {type(values).__name__}")
    check_timestamp_type(values.type)
    if values.null_count:
        raise SchemaMismatch(f"{values.null_count} timestamps are null")
    try:
        if pa.types.is_int64(values.type):
            return values.cast(TIMESTAMP_TYPE)
        coarse = values.cast(pa.timestamp("us", values.type.tz), safe=values.type.unit != "ns")
        return coarse.cast(pa.int64()).cast(TIMESTAMP_TYPE)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"timestamps: {error}") from error


def data_records(
    schema: RecordSchema, batch: pa.RecordBatch, timestamps: pa.Array
) -> pa.RecordBatch:
    """A user's batch as DATA records.

    Raises:
        SchemaMismatch: columns missing, unknown or of another type.
    """
    columns = fit_columns(schema.data, batch)
    rows = batch.num_rows
    arrays = [pa.array(np.full(rows, RecordKind.DATA, np.uint8)), timestamps]
    extras = schema.arrow.names[2 : len(schema.arrow.names) - len(columns)]
    arrays += [pa.nulls(rows, schema.arrow.field(name).type) for name in extras]
    return pa.RecordBatch.from_arrays(arrays + columns, schema=schema.arrow)


def fit_columns(schema: pa.Schema, batch: pa.RecordBatch) -> list[pa.Array]:
    """The batch's columns in the schema's order.

    Raises:
        SchemaMismatch: columns missing, unknown or of another type.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise SchemaMismatch(f"append takes a pyarrow.RecordBatch, not {type(batch).__name__}")
    if batch.schema.names != schema.names and sorted(batch.schema.names) != sorted(schema.names):
        missing = [n for n in schema.names if n not in batch.schema.names]
        unknown = [n for n in batch.schema.names if n not in schema.names]
        raise SchemaMismatch(f"columns do not fit: missing {missing}, unknown {unknown}")
    columns = [batch.column(name) for name in schema.names]
    for column, wanted in zip(columns, schema, strict=True):
        if column.type != wanted.type:
            raise SchemaMismatch(f"column {wanted.name!r} is {column.type}, not {wanted.type}")
    return columns


@dataclass(frozen=True)
class Body:
    """A BATCH frame's body, ready to be written, and what its header says of it."""

    stored: bytes
    raw_bytes: int
    codec: Codec
    record_count: int
    min_timestamp_us: int
    max_timestamp_us: int


def check_body_size(records: pa.RecordBatch) -> int:
    """Bytes of the body before compression.

    Raises:
        FrameTooLarge: they would not fit in one frame.
    """
    size = int(pa.ipc.get_record_batch_size(records))
    if size > _RAW_BYTES_MAX:
        raise FrameTooLarge(
            f"{records.num_rows} records of {size} bytes do not fit in one frame "
            f"({_RAW_BYTES_MAX} bytes): append smaller batches"
        )
    return size


def encode_body(records: pa.RecordBatch, level: int) -> Body:
    """Serialise and compress; releases the GIL for most of its time."""
    raw = records.serialize()
    span = pc.min_max(records.column(1).cast(pa.int64())).as_py()
    low = MAX_TIMESTAMP_US if span["min"] is None else span["min"]
    high = MIN_TIMESTAMP_US if span["max"] is None else span["max"]
    stored = zstandard.ZstdCompressor(level=level, write_checksum=False).compress(raw)
    if raw.size > raw_bytes_max(len(stored)):
        # Readers refuse a body that inflates so much, whoever wrote it.
        return Body(raw.to_pybytes(), raw.size, Codec.NONE, records.num_rows, low, high)
    return Body(stored, raw.size, Codec.ZSTD, records.num_rows, low, high)


def decode_body(
    stored: pa.Buffer, codec: int, raw_bytes: int, schema: RecordSchema, record_count: int
) -> pa.RecordBatch:
    """The records of a body whose CRC has been checked.

    Raises:
        BadHeader: sizes, compression or Arrow structure are not what they claim.
    """
    try:
        raw = stored if codec == Codec.NONE else _decompress(stored, raw_bytes)
        if raw.size != raw_bytes:
            raise BadHeader(f"body of {raw.size} bytes, its header says {raw_bytes}")
        records = _read_message(raw, schema)
        if codec == Codec.ZSTD_LENGTHS:
            restore_offsets(raw, [records[n] for n in (KEY, STATE) if n in records.schema.names])
            records = _read_message(raw, schema)
        # Structure alone may still point outside the buffers: a sound CRC proves no honesty.
        records.validate(full=True)
    except (*ARROW_ERRORS, zstandard.ZstdError) as error:
        raise BadHeader(f"body: {error}") from error
    if records.num_rows != record_count:
        raise BadHeader(f"body has {records.num_rows} records, its header says {record_count}")
    return records


def _read_message(raw: pa.Buffer, schema: RecordSchema) -> pa.RecordBatch:
    message = pa.ipc.read_message(raw)
    if not is_plain_batch(message):
        raise BadHeader("body: no record batch, or one that Arrow itself has compressed")
    return pa.ipc.read_record_batch(message, schema.arrow)


def _decompress(stored: pa.Buffer, raw_bytes: int) -> pa.Buffer:
    claims = zstandard.get_frame_parameters(stored)
    if claims.content_size != raw_bytes or claims.window_size > max(_WINDOW_BYTES_MAX, raw_bytes):
        raise BadHeader(f"zstd frame claims {claims.content_size} bytes, header {raw_bytes}")
    return pa.Codec("zstd").decompress(stored, decompressed_size=raw_bytes)


def kinds_of(records: pa.RecordBatch) -> NDArray[np.uint8]:
    """The kinds as a numpy array, shape (records,)."""
    return values_of(records.column(0), "u1")


def inputs_of(records: pa.RecordBatch | pa.Table, inputs: int) -> NDArray[np.int64]:
    """Input positions, shape (records, inputs)."""
    columns = [values_of(records.column(input_column(i)), "i8") for i in range(inputs)]
    return np.stack(columns, axis=1) if columns else np.empty((records.num_rows, 0), np.int64)


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of many of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
