"""Rows go to the partitions that Spark would put them into."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store.errors import SchemaMismatch
from cec_store.partitioned.spark_hash import partitions_of

MASK = 0xFFFFFFFF


def mixed(h: int, word: int) -> int:
    k = word * 0xCC9E2D51 & MASK
    k = (k << 15 | k >> 17) & MASK
    h ^= k * 0x1B873593 & MASK
    h = (h << 13 | h >> 19) & MASK
    return (h * 5 + 0xE6546B64) & MASK


def finished(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def plain_hash(value: Any, h: int) -> int:
    """One value after the other, by the words of Spark's Murmur3_x86_32."""
    if value is None:
        return h
    if isinstance(value, float):
        value = struct.unpack("<q", struct.pack("<d", value if value else 0.0))[0]
    if isinstance(value, int):
        word = value & 0xFFFFFFFFFFFFFFFF
        return finished(mixed(mixed(h, word & MASK), word >> 32), 8)
    data = value.encode() if isinstance(value, str) else value
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        h = mixed(h, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        h = mixed(h, (byte - 256 if byte > 127 else byte) & MASK)
    return finished(h, len(data))


def expected(columns: list[list[Any]], count: int) -> list[int]:
    found = []
    for row in zip(*columns, strict=True):
        h = 42
        for value in row:
            h = plain_hash(value, h)
        found.append((h - 2**32 if h >= 2**31 else h) % count)
    return found


longs = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | longs, st.none() | st.text(), st.none() | st.binary(), st.none() | floats
        ),
        min_size=1,
    ),
    count=st.integers(1, 300),
)
def test_partitions_are_those_of_the_plain_algorithm(rows: list[Any], count: int) -> None:
    number, text, data, real = (list(column) for column in zip(*rows, strict=True))
    columns = [
        pa.array(number, pa.int64()), pa.array(text, pa.string()), pa.array(data, pa.binary()),
        pa.array(real, pa.float64()),
    ]  # fmt: skip
    wanted = expected([number, text, data, real], count)
    assert partitions_of(columns, count).tolist() == wanted
    padded = [pa.concat_arrays([column[:1], column])[1:] for column in columns]
    assert partitions_of(padded, count).tolist() == wanted, "slices are no different"


def test_the_hash_of_one_is_the_one_that_spark_documents() -> None:
    (found,) = partitions_of([pa.array([1], pa.int32())], 2**31 - 1)
    assert found == -559580957 % (2**31 - 1)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.timestamp("ns"), pa.list_(pa.int8())], ids=str)
def test_columns_that_spark_has_not_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="cannot be put into partitions by a column of"):
        partitions_of([pa.array([None], kind)], 3)
