"""Sketches of keys: equal for equal keys, in whatever company they come."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.inspector.measuring.sketches import sketches_of

TEXTS = st.one_of(
    st.lists(st.one_of(st.none(), st.binary(max_size=90)), min_size=1, max_size=30),
    st.integers(0, 70).flatmap(
        lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=20)
    ),
)


@given(TEXTS, st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
def test_company_does_not_matter(values, kind) -> None:
    numbers = pa.array([None if v is None else len(v) % 3 for v in values], pa.int32())
    column = pa.array(values, kind)
    together = sketches_of([column, numbers])
    for row in range(len(values)):
        alone = sketches_of([pa.array([values[row]], kind), numbers.slice(row, 1)])
        sliced = sketches_of([column.slice(row, 1), numbers.slice(row, 1)])
        assert together[row] == alone[0] == sliced[0]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 24, 64, 65, 200])
def test_hardly_two_keys_share_one(size: int) -> None:
    numbers = np.arange(20_000)
    tails = [int(n).to_bytes(min(size, 3), "big") for n in numbers if size > 1 or n < 256]
    equal_length = pa.array([b"k" * (size - len(tail)) + tail for tail in tails])
    found = sketches_of([equal_length])
    assert len(np.unique(found & np.uint64((1 << 22) - 1))) > 0.98 * len(found)


def test_numbers_and_null_keys_have_sketches() -> None:
    columns = [pa.array([True, True, False]), pa.array([5, None, None], pa.timestamp("us"))]
    found = sketches_of(columns)
    assert len(set(found.tolist())) == 3
