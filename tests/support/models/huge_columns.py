"""Columns of more bytes than one array holds, in memory that is never touched."""

import numpy as np
import pyarrow as pa

_ROWS = 1_100
_VALUE_BYTES = 2**20


def huge_binaries() -> pa.BinaryArray:
    """Return 1.1 GiB of zeros, as 1,100 values: two such arrays are more than one can hold."""
    ends = (np.arange(_ROWS + 1, dtype=np.int64) * _VALUE_BYTES).astype(np.int32)
    data = np.zeros(_ROWS * _VALUE_BYTES, np.uint8)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), _ROWS, buffers)
