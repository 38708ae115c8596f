"""The newest record of each key, over keys of every kind, against a dict."""

from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.checkpoints.last_rows import last_rows

EXTREMES = st.sampled_from([-(2**63), 2**63 - 1, 0, 1, -1])
COLUMNS = {
    "few numbers": (pa.int64(), st.integers(0, 3)),
    "far apart": (pa.int64(), EXTREMES),
    "small": (pa.int8(), st.integers(-128, 127)),
    "unsigned": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "dates": (pa.date32(), st.dates(date(2000, 1, 1), date(2000, 1, 5))),
    "times": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime(year, 1, 1, tzinfo=timezone.utc) for year in (1, 1970, 9999)]),
    ),
    "text": (pa.string(), st.sampled_from(["", "a", "b"])),
    "bytes": (pa.binary(), st.sampled_from([b"", b"a"])),
    "flags": (pa.bool_(), st.booleans()),
    "floats": (pa.float64(), st.sampled_from([0.5, 1.5, float("inf")])),
    "decimals": (pa.decimal128(20, 2), st.sampled_from([Decimal("1.10"), Decimal("2.00")])),
    "short decimals": (pa.decimal32(9, 2), st.sampled_from([Decimal("1.10"), Decimal("2.00")])),
    "middle decimals": (pa.decimal64(18, 2), st.sampled_from([Decimal("1.10"), Decimal("2.00")])),
}


@given(st.data(), st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
def test_equals_a_dict(data: st.DataObject, names: list[str]) -> None:
    fields = [pa.field(str(place), COLUMNS[name][0]) for place, name in enumerate(names)]
    values = [st.none() | COLUMNS[name][1] for name in names]
    if data.draw(st.booleans()):
        values = [COLUMNS[name][1] for name in names]
    whole = data.draw(st.lists(st.none() | st.tuples(*values), max_size=30))
    rows = [row and dict(zip(map(str, range(len(row))), row, strict=True)) for row in whole]
    keys = pa.array(rows, pa.struct(fields))
    start = data.draw(st.integers(0, len(rows)))
    newest = {row: place for place, row in enumerate(whole[start:])}
    assert last_rows(keys[start:]).tolist() == sorted(newest.values())
    cut = data.draw(st.integers(start, len(rows)))
    chunks = pa.chunked_array([keys[start:cut], keys[cut:]], keys.type)
    assert last_rows(chunks).tolist() == sorted(newest.values())


@pytest.mark.parametrize("columns", [1, 3])
def test_ranges_too_wide_for_one_word(columns: int) -> None:
    values = [-(2**62), 2**62, 5, 2**62, -(2**62)]
    fields = [pa.field(str(place), pa.int64()) for place in range(columns)]
    keys = pa.StructArray.from_arrays([pa.array(values)] * columns, fields=fields)
    assert last_rows(keys).tolist() == [2, 3, 4]


def test_two_ranges_whose_product_is_too_wide_for_one_word() -> None:
    """Multiplied in 64 bits, the second row's code would be that of the first."""
    columns = [pa.array([0, 2**31, 0]), pa.array([0, 0, 2**33 - 1])]
    keys = pa.StructArray.from_arrays(columns, names=["a", "b"])
    assert last_rows(keys).tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 17, 64, 65])
@pytest.mark.parametrize("start", [0, 3])
def test_bytes_of_one_length_that_differ_in_one_bit(size: int, start: int) -> None:
    """Rows of Spark are often such; they go a way of their own."""
    values = [bytes(size)]
    values += [(1 << bit).to_bytes(size, "little") for bit in range(8 * size)]
    rows = [*values[:start], *values, *values[::-2]]
    fields = [pa.field("family", pa.uint16()), pa.field("key", pa.binary())]
    families = pa.array([1] * len(rows), pa.uint16())
    keys = pa.StructArray.from_arrays([families, pa.array(rows)], fields=fields)[start:]
    newest = {row: place for place, row in enumerate(rows[start:])}
    assert last_rows(keys).tolist() == sorted(newest.values())
    chunks = pa.chunked_array([keys[:5], keys[5:6], keys[6:]])
    assert last_rows(chunks).tolist() == sorted(newest.values())


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("near", [False, True])
def test_keys_that_come_again_near_by_and_far_away(near: bool, far: bool) -> None:
    """As in commits, which have no key twice, and as in operators, which may."""
    numbers = np.random.default_rng(5).permutation(150_000)
    parts = [numbers, *([numbers[:1000]] * near), *([numbers[::7]] * far)]
    values = np.concatenate(parts)
    keys = pa.StructArray.from_arrays([pa.array(values)], names=["key"])
    newest = dict(zip(values.tolist(), range(len(values)), strict=True))
    assert last_rows(keys).tolist() == sorted(newest.values())


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.binary(), b"a"), (pa.int64(), 7), (pa.string(), "")]
)
def test_one_row_is_the_last(kind: pa.DataType, value: object) -> None:
    for key in (value, None):
        keys = pa.array([{"key": key}], pa.struct([("key", kind)]))
        assert last_rows(keys).tolist() == [0]


@pytest.mark.parametrize(
    "rows", [[b"a", b"", b"aa"], [b"ab", b"a", b"bab", b"ab"], [b"a" * 64, b"a" * 65], [b""] * 3]
)
def test_bytes_of_several_lengths_are_told_apart(rows: list[bytes]) -> None:
    keys = pa.array([{"key": row} for row in rows], pa.struct([("key", pa.binary())]))
    newest = {row: place for place, row in enumerate(rows)}
    assert last_rows(keys).tolist() == sorted(newest.values())
