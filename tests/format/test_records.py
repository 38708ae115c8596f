"""Records: what goes in comes out, and what cannot be stored is refused before it is written."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cec_store.errors import FrameTooLarge, SchemaMismatch
from cec_store.format.bodies import (
    check_body_size,
    cut_to_frames,
    decode_body,
    encode_body,
)
from cec_store.format.frame import BODY_BYTES_MAX, BadHeader, Codec, raw_bytes_max
from cec_store.format.records import concat, data_records, inputs_of, kinds_of, to_timestamps
from cec_store.format.schema import (
    KIND,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    RecordKind,
    RecordSchema,
    input_column,
)
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US
from support.vectors.arrow_types import COLUMN_TYPES, VALUES

PLAIN = RecordSchema(pa.schema([("n", pa.int64())]))


def times(rows: int, first: int = 0) -> pa.Array:
    return pa.array(range(first, first + rows), pa.int64()).cast(TIMESTAMP_TYPE)


def round_trip(schema: RecordSchema, records: pa.RecordBatch, level: int = 1) -> pa.RecordBatch:
    body = encode_body(records, level)
    assert body.record_count == records.num_rows
    return decode_body(
        pa.py_buffer(body.stored), body.codec, body.raw_bytes, schema, body.record_count
    )


# -- every Arrow type -------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES)
def test_every_type_comes_back(name: str) -> None:
    kind, values = VALUES[name]
    schema = RecordSchema(pa.schema([("v", kind)]))
    column = pa.array(values, kind)
    records = data_records(schema, pa.record_batch([column], ["v"]), times(len(column)))
    assert RecordSchema.decode(schema.encode()) == schema
    for part in (records, records.slice(1), records.slice(0, 0)):
        assert round_trip(schema, part).equals(part)


def test_types_that_arrow_has_are_tried() -> None:
    assert len(VALUES) > 30


def test_unions_come_back() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["x"])],
    )  # fmt: skip
    schema = RecordSchema(pa.schema([("v", union.type)]))
    records = data_records(schema, pa.record_batch([union], ["v"]), times(3))
    assert round_trip(RecordSchema.decode(schema.encode()), records).equals(records)


@given(st.lists(COLUMN_TYPES, max_size=3), st.lists(COLUMN_TYPES, max_size=2), st.integers(0, 3))
def test_schemas_come_back(data: list, key: list, inputs: int) -> None:
    def named(kinds: list) -> pa.Schema:
        return pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])

    schema = RecordSchema(named(data), named(key), named(key) if key else None, inputs)
    again = RecordSchema.decode(schema.encode())
    assert again == schema
    assert again.encode() == schema.encode()
    nothing = pa.RecordBatch.from_arrays(
        [pa.nulls(0, f.type) for f in again.arrow], schema=again.arrow
    )
    assert round_trip(schema, nothing).equals(nothing)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(RecordKind)),
            st.integers(MIN_TIMESTAMP_US, MAX_TIMESTAMP_US),
            st.integers(0, 2**63 - 1),
            st.none() | st.text(max_size=5),
            st.none() | st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=20,
    )
)
def test_records_of_every_kind_come_back(rows: list) -> None:
    schema = RecordSchema(
        pa.schema([("n", pa.int64())]), pa.schema([("k", pa.string())]),
        pa.schema([("s", pa.int64())]), 1,
    )  # fmt: skip
    kinds, stamps, inputs, keys, states = zip(*rows, strict=True) if rows else [[]] * 5
    records = pa.RecordBatch.from_arrays(
        [
            pa.array(kinds, pa.uint8()),
            pa.array(stamps, pa.int64()).cast(TIMESTAMP_TYPE),
            pa.array(inputs, pa.int64()),
            pa.array([None if k is None else {"k": k} for k in keys], schema.arrow.field(3).type),
            pa.array([None if s is None else {"s": s} for s in states], schema.arrow.field(4).type),
            pa.nulls(len(rows), pa.int64()),
        ],
        schema=schema.arrow,
    )
    body = encode_body(records, 1)
    assert body.min_timestamp_us == min(stamps, default=MAX_TIMESTAMP_US)
    assert body.max_timestamp_us == max(stamps, default=MIN_TIMESTAMP_US)
    again = round_trip(schema, records)
    assert again.equals(records)
    assert kinds_of(again).tolist() == list(kinds)
    assert inputs_of(again, 1)[:, 0].tolist() == list(inputs)


# -- what cannot be stored --------------------------------------------------------------------

DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    "kind",
    [
        DICTIONARY,
        pa.list_(DICTIONARY),
        pa.large_list(DICTIONARY),
        pa.list_(DICTIONARY, 2),
        pa.struct([("x", pa.int8()), ("d", DICTIONARY)]),
        pa.map_(pa.string(), DICTIONARY),
        pa.list_(pa.struct([("d", pa.list_(DICTIONARY))])),
    ],
    ids=str,
)
def test_a_dictionary_is_refused_however_deep(kind: pa.DataType) -> None:
    column = pa.schema([("d", kind)])
    for parts in ((column,), (PLAIN.data, column), (PLAIN.data, None, column)):
        with pytest.raises(SchemaMismatch, match=r"'d'.*dictionary"):
            RecordSchema(*parts)


def test_reserved_and_repeated_names_are_refused() -> None:
    for name in ("_kind", "_", "_mine"):
        with pytest.raises(SchemaMismatch, match="reserved"):
            RecordSchema(pa.schema([(name, pa.int8())]))
    with pytest.raises(SchemaMismatch, match="columns of one name"):
        RecordSchema(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


def test_the_timestamp_column_must_be_there_and_of_a_time() -> None:
    with pytest.raises(SchemaMismatch, match="no timestamp column 't'"):
        RecordSchema(PLAIN.data, timestamp_column="t")
    for kind in (pa.string(), pa.date32(), pa.int32(), pa.uint64(), pa.float64(), pa.time64("us")):
        with pytest.raises(SchemaMismatch, match="timestamps are"):
            RecordSchema(pa.schema([("t", kind)]), timestamp_column="t")
    schema = RecordSchema(pa.schema([("t", pa.timestamp("ns"))]), timestamp_column="t")
    assert RecordSchema.decode(schema.encode()).timestamp_column == "t"


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"m": pa.array([1], pa.int64())}),
        pa.record_batch({"n": pa.array([1], pa.int32())}),
        pa.record_batch({"n": pa.array([1], pa.int64()), "m": pa.array([1])}),
        pa.record_batch([pa.array([1]), pa.array([2])], ["n", "n"]),
        pa.record_batch({}),
        pa.table({"n": pa.array([1], pa.int64())}),
        {"n": [1]},
        None,
    ],
    ids=["name", "type", "more", "twice", "none", "table", "dict", "nothing"],
)
def test_a_batch_that_does_not_fit_is_refused(batch: object) -> None:
    with pytest.raises(SchemaMismatch):
        data_records(PLAIN, batch, times(1))


def test_columns_may_come_in_any_order() -> None:
    schema = RecordSchema(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    records = data_records(schema, pa.record_batch({"b": ["x"], "a": [1]}), times(1))
    assert records.schema.names == [KIND, TIMESTAMP, "a", "b"]
    assert records.column("a").to_pylist() == [1]
    assert kinds_of(records).tolist() == [RecordKind.DATA]


def test_data_has_no_key_state_or_input() -> None:
    schema = RecordSchema(PLAIN.data, PLAIN.data, PLAIN.data, 2)
    records = data_records(schema, pa.record_batch({"n": pa.array([1, 2])}), times(2))
    names = [input_column(0), input_column(1), "_key", "_state"]
    assert [records.column(name).null_count for name in names] == [2, 2, 2, 2]


def test_more_than_a_frame_holds_is_refused() -> None:
    rows = (BODY_BYTES_MAX >> 3) // 3
    batch = pa.record_batch({"n": pa.array(np.zeros(rows, np.int64))})
    stamps = pa.array(np.zeros(rows, np.int64)).cast(TIMESTAMP_TYPE)
    fits = data_records(PLAIN, batch, stamps)
    assert check_body_size(fits) == fits.serialize().size
    with pytest.raises(FrameTooLarge, match="append smaller batches"):
        check_body_size(concat([fits, fits]))


@given(st.lists(st.integers(0, 400), max_size=40), st.sampled_from([1, 300, 1000, 1 << 20]))
def test_records_are_cut_into_parts_that_fit(sizes: list[int], bytes_max: int) -> None:
    texts = pa.array(["x" * size for size in sizes], pa.string())
    records = pa.record_batch({"n": pa.array(range(len(sizes)), pa.int64()), "text": texts})
    parts = list(cut_to_frames(records, bytes_max))
    assert (
        pa.Table.from_batches(parts)
        .combine_chunks()
        .equals(pa.Table.from_batches([records]).combine_chunks())
    )
    for part in parts:
        assert part.num_rows == 1 or check_body_size(part) <= bytes_max or not sizes
        assert part.num_rows or not sizes
    if check_body_size(records) <= bytes_max:
        assert len(parts) == 1


# -- timestamps -------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
@pytest.mark.parametrize(("unit", "value"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_units_and_zones_mean_the_same_moment(zone: str | None, unit: str, value: int) -> None:
    for sign in (1, -1):
        stamps = pa.array([sign * value], pa.int64()).cast(pa.timestamp(unit, zone))
        found = to_timestamps(stamps)
        assert found.type == TIMESTAMP_TYPE
        assert found.cast(pa.int64()).to_pylist() == [sign * 10**6]


def test_int64_is_microseconds() -> None:
    extremes = [MIN_TIMESTAMP_US, -1, 0, MAX_TIMESTAMP_US]
    found = to_timestamps(pa.array(extremes, pa.int64()))
    assert found.type == TIMESTAMP_TYPE
    assert found.cast(pa.int64()).to_pylist() == extremes


def test_nanoseconds_are_cut() -> None:
    stamps = pa.array([0, 999, 1000, 1999], pa.int64()).cast(pa.timestamp("ns"))
    assert to_timestamps(stamps).cast(pa.int64()).to_pylist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["2013-01-01"]),
        pa.array([dt.date(2013, 1, 1)]),
        pa.array([1], pa.int32()),
        pa.array([1], pa.uint64()),
        pa.array([1.0]),
        pa.array([True]),
        pa.array([dt.timedelta(1)]),
        pa.array([None], pa.int64()),
        pa.array([None], pa.timestamp("us")),
        pa.array([None]),
        pa.array([2**60], pa.int64()).cast(pa.timestamp("s")),
        pa.array([-(2**60)], pa.int64()).cast(pa.timestamp("ms")),
        pa.chunked_array([[1]], pa.int64()),
        [1],
        np.array([1]),
        1,
    ],
    ids=lambda values: f"{type(values).__name__} {getattr(values, 'type', '')}",
)
def test_what_is_no_timestamp_is_refused(values: object) -> None:
    with pytest.raises(SchemaMismatch):
        to_timestamps(values)


# -- bodies that lie --------------------------------------------------------------------------


def body_of(rows: int = 10) -> tuple[pa.RecordBatch, bytes]:
    records = data_records(PLAIN, pa.record_batch({"n": pa.array(np.arange(rows))}), times(rows))
    return records, bytes(records.serialize())


def refused(stored: bytes, codec: int, raw_bytes: int, count: int = 10) -> str:
    with pytest.raises(BadHeader) as caught:
        decode_body(pa.py_buffer(stored), codec, raw_bytes, PLAIN, count)
    return str(caught.value)


@pytest.mark.parametrize("rows", [1_000, 200_000])
def test_an_extreme_ratio_can_be_read_again(rows: int) -> None:
    """The reader refuses bodies that inflate beyond belief, so the writer must not make them."""
    zeros = np.zeros(rows, np.int64)
    batch = pa.record_batch({"n": pa.array(zeros)})
    records = data_records(PLAIN, batch, pa.array(zeros).cast(TIMESTAMP_TYPE))
    body = encode_body(records, 1)
    assert body.raw_bytes <= raw_bytes_max(len(body.stored))
    assert round_trip(PLAIN, records).equals(records)


def test_a_body_that_was_not_compressed_comes_back() -> None:
    records, raw = body_of()
    assert decode_body(pa.py_buffer(raw), Codec.NONE, len(raw), PLAIN, 10).equals(records)
    assert "header" in refused(raw, Codec.NONE, len(raw) + 1)


def test_a_record_count_that_lies_is_refused() -> None:
    _, raw = body_of()
    assert "10 records" in refused(raw, Codec.NONE, len(raw), 9)
    assert "10 records" in refused(raw, Codec.NONE, len(raw), 2**32 - 1)


def test_a_zstd_size_that_lies_is_refused() -> None:
    _, raw = body_of()
    stored = zstandard.ZstdCompressor().compress(raw)
    assert decode_body(pa.py_buffer(stored), Codec.ZSTD, len(raw), PLAIN, 10).num_rows == 10
    assert "claims" in refused(stored, Codec.ZSTD, len(raw) + 1)
    unknown = zstandard.ZstdCompressor(write_content_size=False).compress(raw)
    assert "claims" in refused(unknown, Codec.ZSTD, len(raw))
    # The frame's own header says what the frame header says, and the content is something else.
    more = bytearray(zstandard.ZstdCompressor().compress(raw + b"\0" * 64))
    at = bytes(more).find((len(raw) + 64 - 256).to_bytes(2, "little"), 4, 8)
    assert at > 0
    more[at : at + 2] = (len(raw) - 256).to_bytes(2, "little")
    assert zstandard.get_frame_parameters(bytes(more)).content_size == len(raw)
    refused(bytes(more), Codec.ZSTD, len(raw))
    refused(stored + stored, Codec.ZSTD, len(raw))
    refused(b"", Codec.ZSTD, len(raw))
    refused(b"", Codec.ZSTD, 0)


def test_a_zstd_window_that_is_too_large_is_refused() -> None:
    _, raw = body_of()
    parameters = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=True)
    chunks = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    stored = chunks.compress(raw) + chunks.flush()
    # Rewritten by hand: a window of 16 MiB and the right content size (RFC 8878, 3.1.1.1).
    descriptor = stored[4] & ~0b1110_0011 | 0b1000_0000
    body = stored[6:]
    lying = (
        stored[:4]
        + bytes([descriptor, (24 - 10) << 3])
        + len(raw).to_bytes(4, "little")
        + body[: len(body) - (4 if stored[4] & 4 else 0)]
    )
    claims = zstandard.get_frame_parameters(lying)
    assert (claims.content_size, claims.window_size) == (len(raw), 16 << 20)
    assert "claims" in refused(lying, Codec.ZSTD, len(raw))


def test_compression_inside_arrow_is_refused() -> None:
    """It would inflate past every limit that the frame header states."""
    for codec in ("zstd", "lz4"):
        records, _ = body_of(100_000)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, records.schema, options=options) as writer:
            writer.write_batch(records)
        messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
        messages.read_next_message()
        raw = bytes(messages.read_next_message().serialize())
        assert len(raw) < records.nbytes // 2
        assert "compress" in refused(raw, Codec.NONE, len(raw), 100_000)


@pytest.mark.parametrize(
    "stored",
    [b"", b"\0" * 8, b"\xff" * 64, b"\xff\xff\xff\xff\xff\xff\xff\x7f", PLAIN.encode()],
    ids=["empty", "zeros", "ones", "endless", "schema"],
)
def test_a_body_that_is_no_batch_is_refused(stored: bytes) -> None:
    refused(stored, Codec.NONE, len(stored))


def test_offsets_out_of_bounds_are_refused() -> None:
    schema = RecordSchema(pa.schema([("s", pa.string())]))
    batch = pa.record_batch({"s": ["first", "second"]})
    raw = bytearray(data_records(schema, batch, times(2)).serialize())
    offsets = np.array([0, 5, 11], np.int32).tobytes()
    at = bytes(raw).find(offsets)
    assert at > 0
    for lie in ([0, 5, 2**31 - 1], [0, 2**30, 11], [0, -5, 11], [5, 3, 11]):
        raw[at : at + 12] = np.array(lie, np.int32).tobytes()
        with pytest.raises(BadHeader):
            decode_body(pa.py_buffer(bytes(raw)), Codec.NONE, len(raw), schema, 2)


# -- schema messages that lie -----------------------------------------------------------------


def with_columns(*columns: tuple[str, pa.DataType], metadata: dict | None = None) -> bytes:
    return bytes(pa.schema(list(columns), metadata).serialize())


ALWAYS = ((KIND, pa.uint8()), (TIMESTAMP, TIMESTAMP_TYPE))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 64,
        b"\xff" * 64,
        with_columns(("n", pa.int64())),
        with_columns((KIND, pa.string()), (TIMESTAMP, TIMESTAMP_TYPE)),
        with_columns((KIND, pa.uint8()), (TIMESTAMP, pa.timestamp("us"))),
        with_columns(*ALWAYS, ("_key", pa.int64())),
        with_columns(*ALWAYS, ("_state", pa.int64())),
        with_columns(*ALWAYS, ("_key", pa.struct([])), ("_key", pa.struct([]))),
        with_columns(*ALWAYS, ("_state", pa.struct([])), ("_key", pa.struct([]))),
        with_columns(*ALWAYS, ("_input_0", pa.string())),
        with_columns(*ALWAYS, ("_input_1", pa.int64())),
        with_columns(*ALWAYS, ("_input_x", pa.int64())),
        with_columns(*ALWAYS, ("_later", pa.int64())),
        with_columns(*ALWAYS, ("n", pa.int64()), ("_input_0", pa.int64())),
        with_columns(*ALWAYS, ("n", pa.int64()), ("n", pa.int64())),
        with_columns(*ALWAYS, ("d", DICTIONARY)),
        with_columns(*ALWAYS, metadata={"cec.timestamp_column": "gone"}),
        with_columns(*ALWAYS, metadata={"cec.timestamp_column": b"\xff"}),
        with_columns(*ALWAYS, metadata={"cec.key_columns": b"[" * 100_000}),
    ],
)
def test_a_schema_that_lies_is_refused(body: bytes) -> None:
    with pytest.raises(BadHeader):
        RecordSchema.decode(body)
