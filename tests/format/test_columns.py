"""Columns read in place equal what Arrow says they hold."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import RecoveryError
from cec_store.format.columns import flags_of, one_array, taken, values_of
from support.models.huge_columns import huge_binaries

TYPES = {"u1": pa.uint8(), "i4": pa.int32(), "i8": pa.int64(), "f8": pa.float64()}


@given(st.lists(st.integers(0, 200)), st.integers(0, 20), st.sampled_from(sorted(TYPES)))
def test_values_of_any_slice(values, skipped, dtype):
    column = pa.array(values, TYPES[dtype]).slice(min(skipped, len(values)))
    assert values_of(column, dtype).tolist() == column.to_pylist()


@given(st.lists(st.lists(st.integers(-9, 9))))
def test_values_of_many_chunks(chunks):
    column = pa.chunked_array(chunks, pa.int64())
    assert values_of(column, "i8").tolist() == column.to_pylist()


@given(st.lists(st.sampled_from([True, False, None])), st.integers(0, 20))
def test_flags_of_any_slice(values, skipped):
    column = pa.array(values, pa.bool_()).slice(min(skipped, len(values)))
    found = flags_of(column)
    assert found.dtype == np.bool_
    assert found.tolist() == [bool(value) for value in column.to_pylist()]


def test_few_rows_of_a_column_beyond_2_gib_are_taken():
    values = huge_binaries()
    column = pa.chunked_array([values, values], pa.binary())
    rows = np.array([1, len(values), 2 * len(values) - 1])
    lengths = [len(value) for value in taken(column, rows).to_pylist()]
    assert lengths == [len(values[0].as_py())] * 3


def test_column_beyond_2_gib_is_no_array():
    values = huge_binaries()
    with pytest.raises(RecoveryError, match="rows of state have more than 2 GiB in one column"):
        one_array(pa.chunked_array([values, values], pa.binary()))
