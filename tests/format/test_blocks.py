"""Rows in blocks: what goes in comes out, and what is not as the table says is refused."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.format.blocks import pack, unpack
from cec_store.format.bodies import decode_body, encode_blocks, encode_body
from cec_store.format.frame import BadHeader, Codec
from cec_store.format.schema import STATE_SCHEMA, RecordKind, RecordSchema
from support.places.state_logs import records_of

NOW_US = 1_357_016_400_000_000
HEAD_BYTES, ENTRY_BYTES = 20, 8
kinds = st.sampled_from([RecordKind.OPEN, RecordKind.CHECK, RecordKind.RESULT])
rows = st.lists(
    st.tuples(
        kinds, st.integers(0, 3) | st.integers(0, 65_535), st.binary(max_size=40),
        st.binary(max_size=300), st.booleans(),
    ),
    max_size=60,
)  # fmt: skip


def state_records(rows: list[tuple[int, int, bytes, bytes, bool]], version: int = 7) -> Any:
    return records_of(
        [
            {
                "_kind": int(kind),
                "_timestamp": NOW_US,
                "_input_0": version,
                "_key": {"family": family, "key": key},
                "_state": None
                if kind == RecordKind.RESULT
                else {"value": value, "renewed": is_renewed},
            }
            for kind, family, key, value, is_renewed in rows
        ]
    )


def some_records(count: int, seed: int = 1) -> Any:
    random = Random(seed)
    return state_records(
        [
            (
                random.choice([2, 3, 3, 3, 4]), random.choice([1, 1, 1, 0, 500]),
                random.randbytes(random.randrange(20)),
                random.randbytes(random.randrange(90)).hex().encode(), random.random() < 0.3,
            )
            for _ in range(count)
        ]
    )  # fmt: skip


def table_of(stored: bytes, count: int) -> Any:
    return np.frombuffer(stored, "<u4", 2 * count, HEAD_BYTES).reshape(count, 2)


@settings(deadline=None)
@given(rows, st.integers(0, 9), st.integers(1, 5), st.integers(0, 2**62))
def test_what_is_packed_is_unpacked(
    rows: list[tuple[int, int, bytes, bytes, bool]], per_block: int, level: int, version: int
) -> None:
    records = state_records(rows, version)
    stored, raw_bytes = pack(records, level, per_block)
    unpacked = unpack(pa.py_buffer(stored), raw_bytes, len(rows))
    unpacked.validate(full=True)
    assert unpacked.equals(records)
    assert unpacked.schema.equals(STATE_SCHEMA.arrow, check_metadata=True)


def test_each_block_is_a_frame_of_its_own() -> None:
    records = some_records(1000)
    stored, raw_bytes = pack(records, 1, 64)
    table, blocks_at = table_of(stored, 16), HEAD_BYTES + 16 * ENTRY_BYTES
    images = []
    for start, end in itertools.pairwise([0, *table[:, 0].tolist()]):
        block = stored[blocks_at + start : blocks_at + end]
        assert zstandard.get_frame_parameters(block).has_checksum
        images.append(zstandard.ZstdDecompressor().decompress(block))
    assert np.cumsum([len(image) for image in images]).tolist() == table[:, 1].tolist()
    assert table[-1].tolist() == [len(stored) - blocks_at, raw_bytes]
    kinds = b"".join(image[: min(64, 1000 - 64 * n)] for n, image in enumerate(images))
    assert list(kinds) == records.column("_kind").to_pylist()


def test_blocks_have_about_16_kib_and_at_most_256_rows() -> None:
    for value_bytes, rows_per_block in ((0, 256), (33, 256), (100, 128), (3_000, 4), (99_000, 1)):
        records = state_records([(3, 1, bytes(8), bytes(value_bytes), False)] * 300)
        stored, _ = pack(records, 1)
        assert int.from_bytes(stored[16:20], "little") == rows_per_block, value_bytes


def test_blocks_take_less_than_the_message() -> None:
    records = state_records(
        [(3, 1, n.to_bytes(16, "little"), b"%09d" % n, False) for n in range(5_000)]
    )
    assert len(encode_blocks(records, 1).stored) < 0.7 * len(encode_body(records, 1).stored)


def test_no_damaged_byte_goes_unseen() -> None:
    records = some_records(200)
    stored, raw_bytes = pack(records, 1, 32)
    random = Random(4)
    for at in {*range(200), *random.sample(range(len(stored)), 600)}:
        damaged = bytearray(stored)
        damaged[at] ^= 1 << random.randrange(8)
        try:
            unpacked = unpack(pa.py_buffer(bytes(damaged)), raw_bytes, 200)
        except (BadHeader, OSError, zstandard.ZstdError):
            continue
        # The time and the version, which the frame's own checksum proves; or a bit of a zstd
        # header that decompression does not need.
        assert at < 16 or (at > HEAD_BYTES + 7 * ENTRY_BYTES and unpacked.equals(records)), at


def wrong_bodies() -> dict[str, tuple[bytes, int, int]]:
    records = some_records(100)
    stored, raw_bytes = pack(records, 1, 50)
    other, other_raw = pack(records.slice(0, 50), 1, 50)

    def with_entry(number: int, value: int) -> bytes:
        at = HEAD_BYTES + 4 * number
        return stored[:at] + value.to_bytes(4, "little") + stored[at + 4 :]

    table = table_of(stored, 2).tolist()
    return {
        "nothing": (b"", raw_bytes, 100),
        "a head that is cut": (stored[:19], raw_bytes, 100),
        "no room for the table": (stored[:30], raw_bytes, 100),
        "blocks of no rows": (stored[:16] + bytes(4) + stored[20:], raw_bytes, 100),
        "blocks of more rows": (stored[:16] + b"\x64\0\0\0" + stored[20:], raw_bytes, 100),
        "bytes behind": (stored + b"\0", raw_bytes, 100),
        "bytes missing": (stored[:-1], raw_bytes, 100),
        "fewer rows": (other, other_raw, 49),
        "more rows": (other, other_raw, 51),
        "no rows": (stored, raw_bytes, 0),
        "another raw size": (stored, raw_bytes - 1, 100),
        "a block that ends before it begins": (with_entry(2, table[0][0] - 1), raw_bytes, 100),
        "a block of no bytes": (with_entry(0, 0), raw_bytes, 100),
        "a block beyond the end": (with_entry(2, 2**31), raw_bytes, 100),
        "an image of another size": (with_entry(1, table[0][1] + 1), raw_bytes, 100),
        "an image beyond the end": (with_entry(3, 2**32 - 1), 2**32 - 1, 100),
    }


@pytest.mark.parametrize("what", sorted(wrong_bodies()))
def test_body_that_is_not_as_it_says_is_refused(what: str) -> None:
    stored, raw_bytes, count = wrong_bodies()[what]
    with pytest.raises((BadHeader, OSError, zstandard.ZstdError)):
        unpack(pa.py_buffer(stored), raw_bytes, count)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [(0, 1, "kind"), (0, 9, "kind"), (13, 200, "do not take"), (25, 2, "do not take")],
)
def test_image_that_is_not_as_it_says_is_refused(at: int, value: int, says: str) -> None:
    records = state_records([(2, 1, b"key", b"value", False)] * 4)
    stored, raw_bytes = pack(records, 1)
    image = bytearray(zstandard.ZstdDecompressor().decompress(stored[HEAD_BYTES + ENTRY_BYTES :]))
    image[at] = value
    block = zstandard.ZstdCompressor(write_checksum=True).compress(bytes(image))
    table = np.array([len(block), len(image)], "<u4").tobytes()
    with pytest.raises(BadHeader, match=says):
        unpack(pa.py_buffer(stored[:HEAD_BYTES] + table + block), raw_bytes, 4)


def test_blocks_of_another_schema_are_refused() -> None:
    body = encode_blocks(some_records(10), 1)
    plain = RecordSchema(pa.schema([("n", pa.int64())]))
    with pytest.raises(BadHeader, match="only state logs"):
        decode_body(pa.py_buffer(body.stored), Codec.BLOCKS, body.raw_bytes, plain, 10)


def test_some_columns_of_blocks() -> None:
    records = some_records(300)
    body = encode_blocks(records, 1)
    found = decode_body(
        pa.py_buffer(body.stored), body.codec, body.raw_bytes, STATE_SCHEMA, 300, ["_key", "_kind"]
    )
    assert found.equals(records.select(["_key", "_kind"]))
    assert (body.min_timestamp_us, body.max_timestamp_us) == (NOW_US, NOW_US)
