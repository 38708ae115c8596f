"""Arrow columns as numpy arrays, read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import RecoveryError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def values_of(column: pa.Array | pa.ChunkedArray, dtype: str) -> NDArray[Any]:
    """The values of a fixed-width column as they lie in memory; anything may stand for a null."""
    if isinstance(column, pa.ChunkedArray):
        parts = [values_of(chunk, dtype) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype)
    if not len(column):
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * size)


def bytes_of(column: pa.Array) -> tuple[NDArray[np.uint8], Ints]:
    """The bytes of a binary column as they lie in memory, and the ends of its values in them.

    The ends have the shape (rows + 1,): row i lies between the ends i and i + 1.
    """
    data = column.buffers()[2]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return held, ends_of(column).astype(np.int64, copy=False)


def ends_of(column: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """The same ends without a copy: of 32 bits, or of 64 of a large binary column."""
    size = 8 if pa.types.is_large_binary(column.type) else 4
    return np.frombuffer(column.buffers()[1], f"<i{size}", len(column) + 1, size * column.offset)


def rows_by_chunk(column: pa.ChunkedArray, rows: Ints) -> list[Ints]:
    """Ascending rows of a column, as rows of each of its chunks."""
    starts = np.cumsum([0, *map(len, column.chunks)])
    cuts = np.searchsorted(rows, starts).tolist()
    return [rows[cuts[place] : cuts[place + 1]] - start for place, start in enumerate(starts[:-1])]


def taken(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Return ascending rows, chunk by chunk: the column may be more than one array holds."""
    of_chunks = zip(column.chunks, rows_by_chunk(column, rows), strict=True)
    return pa.chunked_array([chunk.take(pa.array(of)) for chunk, of in of_chunks], column.type)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array.

    Raises:
        RecoveryError: it is more than one array holds.
    """
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid:
        raise RecoveryError(
            f"{len(column)} rows of state have more than 2 GiB in one column, which is not read at "
            "once: in more partitions each has less"
        ) from None


def flags_of(column: pa.BooleanArray) -> NDArray[np.bool_]:
    """The values of a boolean column; a null is false."""
    if column.null_count:
        column = column.fill_null(False)
    if not len(column):
        return np.empty(0, np.bool_)
    first, skipped = divmod(column.offset, 8)
    packed = np.frombuffer(column.buffers()[1], np.uint8, offset=first)
    bits = np.unpackbits(packed, count=skipped + len(column), bitorder="little")
    return bits[skipped:].view(np.bool_)
