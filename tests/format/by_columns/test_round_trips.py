"""Columns compressed apart: what goes in comes out, whole or a few columns of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.format.arrow_metadata import field_at, message_header, pairs_at
from cec_store.format.bodies import (
    COLUMNS_BYTES_MIN,
    check_body_size,
    decode_body,
    encode_body,
    encode_columns,
)
from cec_store.format.by_columns import body as by_columns
from cec_store.format.by_columns.dictionaries import node_count, string_fields, with_dictionaries
from cec_store.format.frame import Codec, raw_bytes_max
from cec_store.format.records import data_records
from cec_store.format.schema import TIMESTAMP_TYPE, RecordSchema
from support.vectors.arrow_types import COLUMN_TYPES, VALUES
from support.vectors.column_bodies import INDEX_TYPES, ipc_messages

ROWS = 600
WORDS = ["", "AA", "ü\0", "a word that is longer than the others"]


def records_of(schema: RecordSchema, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    batch = pa.record_batch(columns)
    stamps = pa.array(range(batch.num_rows), pa.int64()).cast(TIMESTAMP_TYPE)
    return data_records(schema, batch, stamps)


def unpacked(
    stored: bytes,
    records: pa.RecordBatch,
    columns: Sequence[str] | None = None,
    keep: bool = False,
) -> pa.RecordBatch:
    raw_bytes = check_body_size(records)
    body = pa.py_buffer(stored)
    found = by_columns.unpack(body, raw_bytes, records.schema, records.num_rows, columns, keep)
    found.validate(full=True)
    return found


def proven(records: pa.RecordBatch) -> None:
    """All columns and each of them alone come back, and as dictionaries they say the same."""
    stored = by_columns.pack(records, 1)
    whole = unpacked(stored, records)
    assert whole.equals(records)
    assert whole.schema.equals(records.schema, check_metadata=True)
    for name in records.schema.names:
        assert unpacked(stored, records, [name]).equals(records.select([name]))
    backward = records.schema.names[::-1]
    assert unpacked(stored, records, backward).equals(records.select(backward))
    kept = unpacked(stored, records, keep=True)
    for field, column in zip(kept.schema, kept.columns, strict=True):
        if pa.types.is_dictionary(field.type):
            assert column.dictionary_decode().equals(records.column(field.name))


@pytest.mark.parametrize("name", VALUES)
def test_every_type_comes_back(name: str) -> None:
    kind, values = VALUES[name]
    schema = RecordSchema(pa.schema([("v", kind), ("w", pa.string())]))
    repeated = [values[i % len(values)] for i in range(ROWS)]
    words = [WORDS[i % 3] for i in range(ROWS)]
    records = records_of(schema, {"v": pa.array(repeated, kind), "w": pa.array(words)})
    for part in (records, records.slice(1), records.slice(7, 300), records.slice(0, 0)):
        proven(part)


def test_unions_come_back() -> None:
    turns = np.arange(ROWS)
    union = pa.UnionArray.from_dense(
        pa.array(turns % 2, pa.int8()), pa.array(turns // 2, pa.int32()),
        [pa.array(turns[::2]), pa.array(["x"] * (ROWS // 2))],
    )  # fmt: skip
    schema = RecordSchema(pa.schema([("v", union.type), ("w", pa.string())]))
    proven(records_of(schema, {"v": union, "w": pa.array(["again"] * ROWS)}))


def test_what_has_a_union_is_compressed_as_a_whole() -> None:
    """Of one that it has read pyarrow does not compress every batch."""
    turns = np.arange(10_000)
    union = pa.UnionArray.from_dense(
        pa.array(turns % 1, pa.int8()), pa.array(turns, pa.int32()), [pa.array(turns)]
    )
    listed = pa.ListArray.from_arrays(pa.array([*turns, len(turns)], pa.int32()), union)
    for column, codec in (
        (pa.array(turns), Codec.COLUMNS),
        (union, Codec.ZSTD),
        (listed, Codec.ZSTD),
    ):
        schema = RecordSchema(pa.schema([("v", column.type)]))
        body = encode_columns(records_of(schema, {"v": column}), 1)
        assert body.codec is codec


@pytest.mark.parametrize("name", VALUES)
def test_fields_are_numbered_as_arrow_numbers_its_nodes(name: str) -> None:
    kind, values = VALUES[name]
    (message,) = ipc_messages(pa.record_batch({"v": pa.array(values, kind)}))
    metadata = pa.ipc.read_message(message).metadata.to_pybytes()
    nodes = pairs_at(metadata, field_at(metadata, message_header(metadata), 1))
    assert node_count(kind) == len(nodes)


KEYED = RecordSchema(
    pa.schema([("text", pa.string()), ("n", pa.int64())]),
    key=pa.schema(
        [
            ("carrier", pa.string()),
            ("at", pa.struct([("port", pa.large_string()), ("x", pa.int8())])),
        ]
    ),
    state=pa.schema([("seen", pa.list_(pa.string())), ("last", pa.binary())]),
    inputs=1,
)


def keyed_rows(random: Random, rows: int, words: int) -> pa.RecordBatch:
    def word() -> str | None:
        number = random.randrange(-1, words)
        return None if number < 0 else f"word {number}" * (number % 4)

    def key() -> dict[str, Any] | None:
        at = random.choice([None, {"port": word(), "x": 1}])
        return random.choice([None, {"carrier": word(), "at": at}])

    def state() -> dict[str, Any] | None:
        found = {"seen": [word(), word()], "last": (word() or "").encode()}
        return random.choice([None, found])

    columns: dict[str, list[Any]] = {
        "_kind": [1] * rows, "_timestamp": [*range(rows)], "_input_0": [*range(rows)],
        "_key": [key() for _ in range(rows)], "_state": [state() for _ in range(rows)],
        "text": [word() for _ in range(rows)], "n": [random.randrange(9) for _ in range(rows)],
    }  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in KEYED.arrow], schema=KEYED.arrow
    )


@pytest.mark.parametrize("words", [1, 3, 140, 5_000])
@pytest.mark.parametrize("rows", [0, 1, 255, 256, 2_500])
def test_keys_and_states_come_back(rows: int, words: int) -> None:
    records = keyed_rows(Random(rows + words), rows, words)
    proven(records)
    proven(records.slice(rows // 3, rows // 2))


def test_strings_below_structs_become_dictionaries_and_others_do_not() -> None:
    assert list(string_fields(KEYED.arrow).values()) == [
        pa.string(), pa.large_string(), pa.binary(), pa.string(),
    ]  # fmt: skip
    encoded, listed = with_dictionaries(keyed_rows(Random(3), 2_500, 200))
    assert list(listed) == list(string_fields(KEYED.arrow)) == [4, 6, 11, 12]
    assert listed == {4: 2, 6: 2, 11: 2, 12: 2}
    assert pa.types.is_dictionary(encoded.column("_key").type.field("carrier").type)
    assert encoded.column("_state").type.field("seen").type == pa.list_(pa.string())


@given(st.lists(COLUMN_TYPES, max_size=3), st.lists(COLUMN_TYPES, max_size=2), st.integers(0, 2))
def test_schemas_without_rows_come_back(data: list, key: list, inputs: int) -> None:
    def named(kinds: list) -> pa.Schema:
        return pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])

    schema = RecordSchema(named(data), named(key), named(key) if key else None, inputs).arrow
    proven(pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema))


TEXTS = st.none() | st.text(max_size=5)


@settings(max_examples=60)
@given(
    st.lists(TEXTS, min_size=1, max_size=5),
    st.lists(st.none() | st.binary(max_size=5), min_size=1, max_size=400),
    st.integers(1, 1_500),
    st.integers(-7, 9),
)
def test_it_says_what_the_plain_codec_says(
    texts: list[str | None], blobs: list[bytes | None], rows: int, level: int
) -> None:
    schema = RecordSchema(
        pa.schema([("s", pa.string()), ("b", pa.large_binary()), ("n", pa.int32())])
    )
    columns = {
        "s": pa.array([texts[i % len(texts)] for i in range(rows)], pa.string()),
        "b": pa.array([blobs[i * 7 % len(blobs)] for i in range(rows)], pa.large_binary()),
        "n": pa.array(range(rows), pa.int32()),
    }
    records = records_of(schema, columns)
    plain = encode_body(records, level)
    for body in (plain, encode_columns(records, level)):
        assert (body.raw_bytes, body.record_count) == (plain.raw_bytes, rows)
        assert (body.min_timestamp_us, body.max_timestamp_us) == (0, rows - 1)
        stored = pa.py_buffer(body.stored)
        for wanted in (None, ["s"], ["n", "b"], ["s", "s"], []):
            found = decode_body(stored, body.codec, body.raw_bytes, schema, rows, wanted)
            assert found.equals(records if wanted is None else records.select(wanted))
            assert found.num_rows == rows
    assert by_columns.is_within(by_columns.pack(records, level), plain.raw_bytes)


# -- which codec, and what it costs -----------------------------------------------------------

TEN = RecordSchema(
    pa.schema(
        [(f"n{i}", pa.int64()) for i in range(6)] + [(f"s{i}", pa.string()) for i in range(4)]
    )
)


def ten_columns(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(5)
    columns = {f"n{i}": pa.array(random.integers(0, 1 << 40, rows)) for i in range(6)}
    words = np.array([f"word {i}" for i in range(50)])
    columns |= {f"s{i}": pa.array(words[random.integers(0, 50, rows)]) for i in range(4)}
    return records_of(TEN, columns)


def test_two_of_ten_columns_inflate_two_of_ten() -> None:
    """Counted where Arrow keeps what it decompresses."""
    records = ten_columns(20_000)
    body = encode_columns(records, 1)
    assert body.codec == Codec.COLUMNS
    stored = pa.py_buffer(body.stored)

    def allocated(columns: list[str] | None) -> int:
        before = pa.total_allocated_bytes()
        found = decode_body(
            stored, body.codec, body.raw_bytes, TEN, 20_000, columns, keep_dictionaries=True
        )
        assert found.num_rows == 20_000
        return pa.total_allocated_bytes() - before

    number, word = 8 * 20_000, 20_000
    assert allocated(["n1"]) == pytest.approx(number, rel=0.01)
    assert allocated(["n1", "s2"]) == pytest.approx(number + word, rel=0.05)
    assert allocated(None) == pytest.approx(7 * number + 5 * word, rel=0.05)


def test_strings_of_few_values_take_less_room() -> None:
    records = ten_columns(20_000)
    apart, whole = encode_columns(records, 1), encode_body(records, 1)
    assert apart.raw_bytes == whole.raw_bytes
    assert len(apart.stored) < 0.9 * len(whole.stored)


def test_small_frames_are_compressed_as_a_whole() -> None:
    rows = COLUMNS_BYTES_MIN // check_body_size(ten_columns(1_000)) * 1_000 or 1
    records = ten_columns(rows)
    assert check_body_size(records) < COLUMNS_BYTES_MIN
    assert encode_columns(records, 1).codec == Codec.ZSTD


@pytest.mark.parametrize("rows", [10_000, 300_000])
def test_what_would_inflate_beyond_belief_is_not_written(rows: int) -> None:
    schema = RecordSchema(pa.schema([("s", pa.string())]))
    zeros = pa.array(np.zeros(rows, np.int64)).cast(TIMESTAMP_TYPE)
    records = data_records(schema, pa.record_batch({"s": ["x" * 100] * rows}), zeros)
    body = encode_columns(records, 1)
    assert body.codec != Codec.COLUMNS
    assert body.raw_bytes <= raw_bytes_max(len(body.stored))


def test_a_large_record_comes_back() -> None:
    schema = RecordSchema(pa.schema([("blob", pa.binary())]))
    blob = np.random.default_rng(1).bytes(70 << 20)
    records = records_of(schema, {"blob": pa.array([blob])})
    body = encode_columns(records, 1)
    found = decode_body(pa.py_buffer(body.stored), body.codec, body.raw_bytes, schema, 1)
    assert found.equals(records)


# -- other readers ----------------------------------------------------------------------------


def test_any_arrow_reader_reads_the_messages() -> None:
    """A stream: the schema with its dictionaries, and the body behind its list of them."""
    records = ten_columns(3_000)
    stored = by_columns.pack(records, 1)
    count = int.from_bytes(stored[:4], "little")
    assert count == 4
    fields = list(records.schema)
    for k in range(count):
        at = 8 + 8 * k
        number, index = int.from_bytes(stored[at : at + 4], "little"), INDEX_TYPES[stored[at + 4]]
        fields[number] = fields[number].with_type(pa.dictionary(index, pa.string()))
    stream = pa.schema(fields).serialize().to_pybytes() + stored[8 + 8 * count :]
    found = pa.ipc.open_stream(stream).read_all()
    assert found.num_rows == 3_000
    for name in records.schema.names:
        column = found.column(name).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        assert column.equals(records.column(name))
