"""The body of a commit: what it says as JSON, and numbers by columns. docs/format.md §11."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEGMENT_COLUMNS = pa.schema(
    [
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("records", pa.int64()),
        ("file", pa.string()),
        ("byte", pa.int64()),
        ("bytes", pa.int64()),
        ("salt", pa.uint64()),
        ("least_us", pa.int64()),
        ("greatest_us", pa.int64()),
        ("frames", pa.int32()),
        ("written_us", pa.int64()),
        ("removed", pa.bool_()),
    ]
)
"""Fields of segments that commits name: one row each."""
_SIZES = Struct("<4I")
_LONG = "<i8"
_COLUMNS = (
    ("partition", "<i4"), ("frames", "<i4"), ("first_offset", _LONG), ("records", _LONG),
    ("byte", _LONG), ("bytes", _LONG), ("salt", "<u8"), ("least_us", _LONG),
    ("greatest_us", _LONG), ("written_us", _LONG), ("removed", "<u1"),
)  # fmt: skip
"""Columns of numbers, in the order in which they are stored."""


class CommitBody(NamedTuple):
    """Parts of the body of a commit."""

    facts: Mapping[str, Any]
    """The JSON object."""
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    segments: pa.RecordBatch
    """Columns of :data:`SEGMENT_COLUMNS`."""

    def encode(self) -> bytes:
        """Return the body's bytes, before they are compressed."""
        facts = json.dumps(self.facts, ensure_ascii=False, separators=(",", ":")).encode()
        columns = {name: self.segments.column(name) for name in SEGMENT_COLUMNS.names}
        files = [name.encode() for name in columns["file"].to_pylist()]
        names = b"".join(files)
        parts = [
            _SIZES.pack(len(facts), len(self.ends), len(files), len(names)),
            facts,
            np.array([self.starts, self.ends], _LONG).tobytes(),
            *(
                columns[name].to_numpy(zero_copy_only=False).astype(kind).tobytes()
                for name, kind in _COLUMNS
            ),
            np.cumsum([len(name) for name in files], dtype="<u4").tobytes(),
            names,
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, raw: pa.Buffer | bytes) -> CommitBody:
        """Return the parts of a body.

        Raises:
            ValueError: it is none; whether the numbers fit each other is not looked at.
        """
        view = memoryview(raw)
        if len(view) < _SIZES.size:
            raise ValueError(f"a body of {len(view)} bytes")
        facts_bytes, partitions, segments, name_bytes = _SIZES.unpack_from(view)
        widths = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS) + 4
        size = _SIZES.size + facts_bytes + 16 * partitions + widths * segments + name_bytes
        if size != len(view):
            raise ValueError(f"a body of {len(view)} bytes, of which the sizes make {size}")
        at = _SIZES.size + facts_bytes
        facts = _decoded(bytes(view[_SIZES.size : at]))

        def taken(kind: str, count: int) -> NDArray[Any]:
            nonlocal at
            numbers = np.frombuffer(view, kind, count, at).copy()  # aligned, and of its own
            at += numbers.nbytes
            return numbers

        starts, ends = (tuple(taken(_LONG, partitions).tolist()) for _ in range(2))
        columns = {name: taken(kind, segments) for name, kind in _COLUMNS}
        if (columns["removed"] > 1).any():
            raise ValueError("a segment that is neither there nor removed")
        columns["removed"] = columns["removed"] == 1
        files = _names(taken("<u4", segments), bytes(view[at:]))
        arrays = [
            files if field.name == "file" else pa.array(columns[field.name])
            for field in SEGMENT_COLUMNS
        ]
        return cls(facts, starts, ends, pa.RecordBatch.from_arrays(arrays, schema=SEGMENT_COLUMNS))


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(data.decode())
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None
    if not isinstance(facts, dict):
        raise ValueError("no JSON object")
    if b"\\ud" in data.lower():  # perhaps half of a character, which no text in UTF-8 has
        json.dumps(facts, ensure_ascii=False).encode()
    return facts


def _names(ends: NDArray[Any], data: bytes) -> pa.Array:
    bounds = np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
    if (np.diff(bounds) < 0).any() or bounds[-1] != len(data) or len(data) >= 2**31:
        raise ValueError("names of files that do not fit each other")
    offsets = pa.py_buffer(bounds.astype("<i4"))
    names = pa.StringArray.from_buffers(len(ends), offsets, pa.py_buffer(data))
    names.validate(full=True)  # they are UTF-8; else a ValueError of Arrow's
    return names


def segments_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return :data:`SEGMENT_COLUMNS`; ``removed`` is false where it is not given."""
    return pa.RecordBatch.from_pylist(
        [{"removed": False, **row} for row in rows], schema=SEGMENT_COLUMNS
    )
