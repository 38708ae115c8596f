"""Columns compressed apart by somebody who means harm: refused, before any memory is taken."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from cec_store.format.bodies import decode_body
from cec_store.format.frame import BadHeader, Codec
from cec_store.format.records import data_records
from cec_store.format.schema import TIMESTAMP_TYPE, RecordSchema
from support.vectors.column_bodies import Places, changed, columns_body, ipc_messages

SCHEMA = RecordSchema(pa.schema([("s", pa.string()), ("n", pa.int64())]))
STRINGS = 2
"""The number of the field ``s``."""
ROWS = 100
FEW = {STRINGS: ((STRINGS,), 1)}
HEAD_BYTES = 16


def records_of(texts: list[str | None]) -> pa.RecordBatch:
    rows = len(texts)
    batch = pa.record_batch({"s": pa.array(texts, pa.string()), "n": pa.array(range(rows))})
    return data_records(SCHEMA, batch, pa.array(range(rows)).cast(TIMESTAMP_TYPE))


RECORDS = records_of([None if i % 7 == 0 else f"word {i % 5}" for i in range(ROWS)])
RAW_BYTES = len(RECORDS.serialize())


def decoded(
    stored: bytes, raw_bytes: int = RAW_BYTES, rows: int = ROWS, columns: list[str] | None = None
) -> pa.RecordBatch:
    return decode_body(pa.py_buffer(stored), Codec.COLUMNS, raw_bytes, SCHEMA, rows, columns)


def refused(stored: bytes, raw_bytes: int = RAW_BYTES, rows: int = ROWS) -> str:
    before = pa.total_allocated_bytes()
    with pytest.raises(BadHeader) as caught:
        decoded(stored, raw_bytes, rows)
    assert pa.total_allocated_bytes() - before < 1 << 20
    return str(caught.value)


def head(*listed: tuple[int, int]) -> bytes:
    parts = [struct.pack("<IBxxx", number, size) for number, size in listed]
    return struct.pack("<II", len(listed), 0) + b"".join(parts)


def messages_of(stored: bytes) -> list[bytes]:
    source = pa.BufferReader(stored[HEAD_BYTES:])
    found = []
    while source.tell() < source.size():
        at = source.tell()
        pa.ipc.read_message(source)
        found.append(stored[HEAD_BYTES + at : HEAD_BYTES + source.tell()])
    return found


SOUND = columns_body(RECORDS, FEW)
DICTIONARY, BATCH = messages_of(SOUND)


def test_the_bodies_to_start_from_are_sound() -> None:
    for as_they_are in (False, True):
        assert decoded(columns_body(RECORDS, FEW, as_they_are)).equals(RECORDS)
    assert head((STRINGS, 1)) + DICTIONARY + BATCH == SOUND


def test_the_batch_has_as_many_records_as_the_header_says() -> None:
    assert "records" in refused(SOUND, rows=ROWS + 1)
    assert "records" in refused(SOUND, rows=2**32 - 1)


@pytest.mark.parametrize(
    "listed",
    [
        struct.pack("<II", 1, 1) + head((STRINGS, 1))[8:],
        struct.pack("<II", 2, 0) + head((STRINGS, 1))[8:],
        struct.pack("<II", 2**32 - 1, 0) + head((STRINGS, 1))[8:],
        head((STRINGS, 1))[:-1] + b"\1",
        *(head((number, 1)) for number in (0, 1, 3, 4, 2**32 - 1)),
        *(head((STRINGS, size)) for size in (0, 3, 8, 255)),
        head((STRINGS, 1), (STRINGS, 1)),
        head(),
        b"",
        b"\1\0\0",
    ],
    ids=repr,
)
def test_a_list_of_dictionaries_that_lies_is_refused(listed: bytes) -> None:
    refused(listed + DICTIONARY + BATCH)


OTHER_DICTIONARY = messages_of(
    columns_body(records_of([f"other {i % 5}" for i in range(ROWS)]), FEW)
)[0]


@pytest.mark.parametrize(
    "messages",
    [
        [], [BATCH], [DICTIONARY], [DICTIONARY, DICTIONARY], [BATCH, DICTIONARY],
        [DICTIONARY, OTHER_DICTIONARY, BATCH], [DICTIONARY, BATCH, BATCH],
        [DICTIONARY, BATCH, bytes(8)], [DICTIONARY, BATCH, b"\0"], [DICTIONARY, BATCH[:-8]],
        [SCHEMA.encode(), DICTIONARY, BATCH], [DICTIONARY, bytes(8), BATCH],
        [DICTIONARY, ipc_messages(RECORDS.select([0, 1, 3]))[-1]],
    ],
    ids=lambda messages: f"{len(messages)} {sum(map(len, messages))}",
)  # fmt: skip
def test_other_messages_than_are_due_are_refused(messages: list[bytes]) -> None:
    refused(head((STRINGS, 1)) + b"".join(messages))


def test_a_dictionary_of_another_number_or_a_delta_is_refused() -> None:
    two = RecordSchema(pa.schema([("s", pa.string()), ("t", pa.string())]))
    texts = pa.array([f"{i % 3}" for i in range(ROWS)])
    records = data_records(two, pa.record_batch({"s": texts, "t": texts}), RECORDS.column(1))
    stored = columns_body(records, {2: ((2,), 1), 3: ((3,), 1)})
    at = 8 + 2 * 8
    first, second, batch = messages_of(stored[at - HEAD_BYTES :])
    size = len(records.serialize())
    start = stored[:at]

    def found(*messages: bytes) -> pa.RecordBatch:
        body = pa.py_buffer(start + b"".join(messages))
        return decode_body(body, Codec.COLUMNS, size, two, ROWS)

    assert found(first, second, batch).equals(records)
    for wrong in ([second, first], [first, first], [second, second]):
        with pytest.raises(BadHeader, match="due"):
            found(*wrong, batch)
    delta = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
    schema = pa.schema([("s", pa.dictionary(pa.int8(), pa.string()))])
    with pa.ipc.new_stream(delta, schema, options=options) as writer:
        for values in (["a"], ["a", "b"]):
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), values)
            writer.write_batch(pa.record_batch([column], schema=schema))
    _, _, _, more, _ = pa.ipc.MessageReader.open_stream(delta.getvalue())
    assert more.type == "dictionary"
    assert "due" in refused(head((STRINGS, 1)) + bytes(more.serialize()) + BATCH)


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_compression_of_another_kind_is_refused(compression: str | None) -> None:
    (batch,) = ipc_messages(RECORDS, compression)
    assert "zstd" in refused(head() + batch)


def of_buffer(
    number: int, change: Callable[[int, int], tuple[int, int]]
) -> Callable[[Places, bytes], tuple[Places, bytes]]:
    def changing(places: Places, body: bytes) -> tuple[Places, bytes]:
        places[number] = [*change(*places[number])]
        return places, body

    return changing


@pytest.mark.parametrize(
    "change",
    [
        lambda start, size: (start, size + (1 << 20)),
        lambda start, size: (start, 2**63 - 1),
        lambda start, size: (start, -1),
        lambda start, size: (start, -(2**63)),
        lambda start, size: (2**63 - 8, size),
        lambda start, size: (-8, size),
        lambda start, size: (start + 4, size),
        lambda start, size: (start, 7),
        lambda start, size: (start, size - 1),
    ],
)
def test_buffers_outside_their_message_are_refused(
    change: Callable[[int, int], tuple[int, int]],
) -> None:
    """The offsets of the dictionary, and the timestamps."""
    dictionary = changed(DICTIONARY, of_buffer(1, change))
    refused(head((STRINGS, 1)) + dictionary + BATCH)
    refused(head((STRINGS, 1)) + DICTIONARY + changed(BATCH, of_buffer(3, change)))


def claiming(number: int, claimed: int) -> Callable[[Places, bytes], tuple[Places, bytes]]:
    def changing(places: Places, body: bytes) -> tuple[Places, bytes]:
        start, _ = places[number]
        return places, body[:start] + struct.pack("<q", claimed) + body[start + 8 :]

    return changing


@pytest.mark.parametrize("claimed", [0, 1, 1 << 40, 2**63 - 1, -2, -(2**63), -1])
def test_lengths_that_lie_are_refused(claimed: int) -> None:
    dictionary = changed(DICTIONARY, claiming(1, claimed))
    refused(head((STRINGS, 1)) + dictionary + BATCH)
    refused(head((STRINGS, 1)) + DICTIONARY + changed(BATCH, claiming(3, claimed)))


def test_all_buffers_together_are_no_more_than_the_header_says() -> None:
    """Each is honest, and the same few bytes stand for many columns."""
    assert "claim" in refused(SOUND, raw_bytes=1_500)
    zeros = zstandard.ZstdCompressor().compress(bytes(40 << 20))

    def all_zeros(places: Places, body: bytes) -> tuple[Places, bytes]:
        body = struct.pack("<q", 40 << 20) + zeros
        body += bytes(-len(body) % 8)
        return [[0, 8 + len(zeros)] if size else [0, 0] for _, size in places], body

    bomb = head((STRINGS, 1)) + DICTIONARY + changed(BATCH, all_zeros)
    assert len(bomb) < 10_000
    assert "claim" in refused(bomb, raw_bytes=64 << 20)


def test_values_of_dictionaries_are_no_more_than_the_header_says() -> None:
    """A byte stands for a long string: what is decompressed is little, what it means is not."""
    long = records_of(["x" * 100_000] * ROWS)
    stored = columns_body(long, FEW)
    raw_bytes = len(long.serialize())
    assert raw_bytes > 100_000 * ROWS
    assert decoded(stored, raw_bytes).equals(long)
    assert "dictionaries stand for" in refused(stored, raw_bytes=raw_bytes // 2)
    assert decoded(stored, raw_bytes // 2, columns=["n"]).num_rows == ROWS


@pytest.mark.parametrize("value", [5, 127, -1, -128])
def test_indices_without_a_value_are_refused(value: int) -> None:
    stored = bytearray(columns_body(RECORDS, FEW, as_they_are=True))
    column = RECORDS.column("s").dictionary_encode()
    indices = column.indices.cast(pa.int8()).buffers()[1].to_pybytes()[:ROWS]
    at = bytes(stored).find(indices)
    assert at > 0
    stored[at + 3] = value & 0xFF
    refused(bytes(stored))
    for keep in (False, True):
        with pytest.raises(BadHeader):
            decode_body(
                pa.py_buffer(bytes(stored)), Codec.COLUMNS, RAW_BYTES, SCHEMA, ROWS, ["s"], keep
            )


@pytest.mark.parametrize(
    "lie", [[0, 6, 12, 18, 24, 31], [0, 6, -1, 18, 24, 30], [6, 0, 12, 18, 24, 30]]
)
def test_offsets_of_a_dictionary_are_checked(lie: list[int]) -> None:
    stored = bytearray(columns_body(RECORDS, FEW, as_they_are=True))
    offsets = np.arange(0, 31, 6, np.int32).tobytes()
    at = bytes(stored).find(offsets)
    assert at > 0
    stored[at : at + len(offsets)] = np.array(lie, np.int32).tobytes()
    refused(bytes(stored))


def test_every_cut_and_every_changed_byte_is_read_or_refused() -> None:
    for body in (SOUND, columns_body(RECORDS, FEW, as_they_are=True)):
        for end in range(0, len(body), 8):
            refused(body[:end])
        read = 0
        for at in range(len(body)):
            wrong = body[:at] + bytes([body[at] ^ 0x81]) + body[at + 1 :]
            try:
                read += decoded(wrong).num_rows == ROWS
            except BadHeader:
                continue
        assert read < len(body)
