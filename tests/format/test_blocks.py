"""Bodies in blocks: what goes in comes out, and what is not as the table says is refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cec_store.format.blocks import BLOCK_BYTES, pack, unpack
from cec_store.format.frame import BadHeader

SIZES = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 100_000]


def some_bytes(size: int, seed: int = 0) -> bytes:
    """Half noise, so that a block is smaller than what it holds, and not by much."""
    return Random(seed).randbytes(size // 2).hex().encode()[:size].ljust(size, b".")


def blocks_of(stored: bytes, count: int) -> list[bytes]:
    places = [4 * count, *(np.frombuffer(stored, "<u4", count) + 4 * count).tolist()]
    return [stored[start:end] for start, end in zip(places, places[1:], strict=False)]


def joined(blocks: list[bytes]) -> bytes:
    return np.cumsum([len(block) for block in blocks], dtype="<u4").tobytes() + b"".join(blocks)


@given(st.sampled_from(SIZES) | st.integers(0, 5 * BLOCK_BYTES), st.integers(1, 5))
def test_what_is_packed_is_unpacked(size: int, level: int) -> None:
    raw = some_bytes(size, size)
    unpacked = unpack(pa.py_buffer(pack(raw, level)), size)
    assert unpacked.to_pybytes() == raw
    assert unpacked.is_mutable


def test_each_block_is_a_frame_of_its_own() -> None:
    raw = some_bytes(3 * BLOCK_BYTES + 5)
    blocks = blocks_of(pack(raw, 1), 4)
    parts = [raw[start : start + BLOCK_BYTES] for start in range(0, len(raw), BLOCK_BYTES)]
    assert [zstandard.ZstdDecompressor().decompress(block) for block in blocks] == parts
    assert all(zstandard.get_frame_parameters(block).has_checksum for block in blocks)


@pytest.mark.parametrize("size", [5, BLOCK_BYTES, 2 * BLOCK_BYTES + 1])
def test_no_damaged_byte_goes_unseen(size: int) -> None:
    raw = some_bytes(size)
    stored = pack(raw, 1)
    random = Random(size)
    for at in {*range(60), *random.sample(range(len(stored)), min(300, len(stored)))}:
        damaged = bytearray(stored)
        if at < len(stored):
            damaged[at] ^= 1 << random.randrange(8)
        else:
            damaged.append(0)
        try:
            assert unpack(pa.py_buffer(bytes(damaged)), size).to_pybytes() == raw
        except (BadHeader, zstandard.ZstdError):
            continue
        # A bit of a zstd header that decompression does not need.
        assert 8 <= at < len(stored), at


def test_blocks_of_other_sizes_are_refused() -> None:
    raw = some_bytes(2 * BLOCK_BYTES)
    first, second = blocks_of(pack(raw, 1), 2)
    small = pack(raw[: BLOCK_BYTES - 1], 1)[4:]
    large = pack(some_bytes(17), 1)[4:]
    wrong = {
        "a block that is too small": joined([small, second]),
        "a block that is too large": joined([first, second + large]),
        "one block less": joined([first]),
        "one block more": joined([first, second, large]),
        "nothing": b"",
        "a block of no bytes": joined([first + second, b""]),
        "bytes behind": joined([first, second]) + b"\0",
        "bytes missing": joined([first, second])[:-1],
        "another raw size": joined([first, second[:-1]]),
    }
    for what, stored in wrong.items():
        with pytest.raises((BadHeader, zstandard.ZstdError)):
            unpack(pa.py_buffer(stored), len(raw))
            pytest.fail(what)
    for size in (0, 1, BLOCK_BYTES, len(raw) - 1, len(raw) + 1, 3 * BLOCK_BYTES, 1 << 31):
        with pytest.raises(BadHeader):
            unpack(pa.py_buffer(joined([first, second])), size)
