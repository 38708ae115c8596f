"""Many small bodies decoded at once: each gives the records that it gives alone."""

import random

import numpy as np
import pyarrow as pa
import zstandard

from cec_store.format.alike import are_alike, read_alike
from cec_store.format.bodies import decode_body, decode_together, encode_body
from cec_store.format.frame import BadHeader, Codec, FrameHeader
from cec_store.format.records import concat, data_records
from cec_store.format.schema import TIMESTAMP_TYPE, RecordSchema

SCHEMAS = {
    "numbers": pa.schema([("n", pa.int64()), ("x", pa.float64())]),
    "strings": pa.schema([("s", pa.string()), ("parts", pa.list_(pa.string()))]),
}


def small_records(schema: RecordSchema, rows: int, rng: random.Random) -> pa.RecordBatch:
    columns = []
    for field in schema.data:
        words = [rng.choice(["", "a", "long" * 9, None]) for _ in range(rows)]
        if pa.types.is_list(field.type):
            columns.append(pa.array([[word, "b"] for word in words], field.type))
        elif pa.types.is_string(field.type):
            columns.append(pa.array(words, field.type))
        else:
            columns.append(pa.array([rng.choice([None, 7]) for _ in range(rows)], field.type))
    times = pa.array(np.arange(rows)).cast(TIMESTAMP_TYPE)
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.data)
    return data_records(schema, batch, times)


def stored(raw: bytes, rows: int) -> tuple[FrameHeader, pa.Buffer]:
    body = zstandard.ZstdCompressor().compress(raw)
    header = FrameHeader(codec=Codec.ZSTD, record_count=rows, raw_bytes=len(raw))
    return header, pa.py_buffer(body)


def alone(schema: RecordSchema, header: FrameHeader, body: pa.Buffer) -> pa.RecordBatch:
    return decode_body(body, header.codec, header.raw_bytes, schema, header.record_count)


def test_many_at_once_are_the_records_of_each() -> None:
    rng = random.Random(3)
    for data in SCHEMAS.values():
        schema = RecordSchema(data)
        for _ in range(30):
            parts = [small_records(schema, rng.randint(0, 12), rng) for _ in range(9)]
            bodies = []
            for part in parts:
                body = encode_body(part, 1)
                header = FrameHeader(
                    codec=body.codec, record_count=part.num_rows, raw_bytes=body.raw_bytes
                )
                bodies.append((header, pa.py_buffer(body.stored)))
            together = decode_together(bodies, schema)
            assert together is not None
            assert together.equals(concat(parts))
            together.validate(full=True)


def test_what_one_body_may_not_be_none_of_many_may() -> None:
    rng = random.Random(4)
    refused = 0
    for data in SCHEMAS.values():
        schema = RecordSchema(data)
        parts = [small_records(schema, 10, rng) for _ in range(4)]
        raws = [part.serialize().to_pybytes() for part in parts]
        for _ in range(400):
            flipped = bytearray(raws[2])
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            bodies = [stored(raw, 10) for raw in [*raws[:2], bytes(flipped), raws[3]]]
            together = decode_together(bodies, schema)
            try:
                damaged = alone(schema, *bodies[2])
            except BadHeader:
                refused += 1
                assert together is None
            else:
                assert together is None or together.slice(20, 10).equals(damaged)
    assert refused > 100


def test_a_body_that_says_less_or_more_than_its_header_is_left_to_be_refused_alone() -> None:
    schema = RecordSchema(SCHEMAS["numbers"])
    records = small_records(schema, 10, random.Random(5))
    raw = records.serialize().to_pybytes()
    sound = stored(raw, 10)
    header, body = sound
    twice = stored(raw + raw, 10)
    behind = header._replace(raw_bytes=len(raw)), pa.py_buffer(body.to_pybytes() + b"more bytes")
    claims = header._replace(raw_bytes=len(raw) + 8), body
    counts = [stored(raw, 9), stored(raw, 11)]
    end_of_stream = stored(b"\xff\xff\xff\xff\0\0\0\0" + raw, 10)
    schema_message = stored(schema.arrow.serialize().to_pybytes(), 10)
    for bad in [twice, behind, claims, *counts, end_of_stream, schema_message]:
        assert decode_together([sound, bad, sound], schema) is None
    assert decode_together([sound, sound], schema) is not None


def test_bodies_without_records_are_one_batch_without_records() -> None:
    """A filter writes such a one with each position that it keeps."""
    for data in SCHEMAS.values():
        schema = RecordSchema(data)
        none = small_records(schema, 0, random.Random(3)).serialize().to_pybytes()
        together = decode_together([stored(none, 0)] * 3, schema)
        assert together is not None
        assert together.num_rows == 0
        assert together.schema == schema.arrow


def test_other_codecs_are_decoded_alone() -> None:
    schema = RecordSchema(SCHEMAS["numbers"])
    raw = small_records(schema, 10, random.Random(6)).serialize().to_pybytes()
    plain = FrameHeader(codec=Codec.NONE, record_count=10, raw_bytes=len(raw)), pa.py_buffer(raw)
    assert decode_together([stored(raw, 10), plain], schema) is None


def test_messages_that_differ_in_values_only_are_read_as_one_block() -> None:
    data = pa.schema(
        [("n", pa.int64()), ("x", pa.float32()), ("small", pa.int8()), ("at", pa.timestamp("us"))]
    )
    schema, rng = RecordSchema(data), np.random.default_rng(7)
    parts = []
    for _ in range(20):
        columns = [pa.array(rng.integers(0, 100, 11)).cast(kind) for kind in data.types]
        batch = pa.RecordBatch.from_arrays(columns, schema=data)
        parts.append(
            data_records(schema, batch, pa.array(rng.integers(9, size=11)).cast(TIMESTAMP_TYPE))
        )
    raws = [part.serialize().to_pybytes() for part in parts]
    assert are_alike(raws)
    found = read_alike(raws, schema.arrow)
    assert found is not None
    found.validate(full=True)
    assert found.equals(concat(parts))
    assert decode_together([stored(raw, 11) for raw in raws], schema).equals(found)
    nulls = parts[0].set_column(2, schema.arrow.field(2), pa.nulls(11, pa.int64()))
    for other in (parts[0].slice(1), nulls):
        mixed = [*raws, other.serialize().to_pybytes()]
        assert not are_alike(mixed)
        together = decode_together(
            [stored(raw, 11) for raw in raws] + [stored(mixed[-1], len(other))], schema
        )
        assert together.equals(concat([*parts, other]))
    words = RecordSchema(SCHEMAS["strings"])
    text = small_records(words, 5, random.Random(8)).serialize().to_pybytes()
    assert read_alike([text, text], words.arrow) is None


def test_times_of_day_beyond_a_day_are_refused_in_many_as_in_one() -> None:
    schema = RecordSchema(pa.schema([("at", pa.time32("s"))]))
    moments = pa.Array.from_buffers(
        pa.time32("s"), 2, [None, pa.py_buffer(np.array([1, 90_000], "<i4"))]
    )
    times = pa.array([0, 0]).cast(TIMESTAMP_TYPE)
    bad = data_records(schema, pa.RecordBatch.from_arrays([moments], schema=schema.data), times)
    good = bad.slice(0, 1)
    for records, is_sound in ((bad, False), (pa.concat_batches([good, good]), True)):
        raw = records.serialize().to_pybytes()
        assert (decode_together([stored(raw, 2)] * 3, schema) is not None) == is_sound
