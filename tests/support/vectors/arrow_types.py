"""A column of every type that Arrow has, with nulls and values at its edges."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "int16": (pa.int16(), [-(2**15), None, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), None, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "uint8": (pa.uint8(), [0, None, 255]),
    "uint16": (pa.uint16(), [0, None, 2**16 - 1]),
    "uint32": (pa.uint32(), [0, None, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, None, 2**64 - 1]),
    "float16": (pa.float16(), [np.float16(1.5), None, np.float16("-inf")]),
    "float32": (pa.float32(), [1.5, None, float("-inf")]),
    "float64": (pa.float64(), [5e-324, None, float("inf")]),
    "decimal128": (pa.decimal128(38, 3), [decimal.Decimal("-1.005"), None, decimal.Decimal(0)]),
    "decimal256": (pa.decimal256(76, 3), [decimal.Decimal("-1.005"), None, decimal.Decimal(0)]),
    "date32": (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "time32": (pa.time32("ms"), [dt.time(0), None, dt.time(23, 59, 59, 999000)]),
    "time64": (pa.time64("us"), [dt.time(0), None, dt.time(23, 59, 59, 999999)]),
    "timestamp": (pa.timestamp("s"), [dt.datetime(1, 1, 1), None, dt.datetime(9999, 1, 1)]),
    "timestamp_tz": (pa.timestamp("ms", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)]),
    "duration": (pa.duration("us"), [dt.timedelta(-1), None, dt.timedelta(1)]),
    "interval": (pa.month_day_nano_interval(), [(1, -2, 3), None, (0, 0, 0)]),
    "string": (pa.string(), ["", None, "ü\0\n"]),
    "large_string": (pa.large_string(), ["", None, "ü"]),
    "string_view": (pa.string_view(), ["", None, "longer than twelve bytes, out of line"]),
    "binary": (pa.binary(), [b"", None, b"\0\xff"]),
    "large_binary": (pa.large_binary(), [b"", None, b"\0"]),
    "binary_view": (pa.binary_view(), [b"", None, b"\0" * 20]),
    "fixed_binary": (pa.binary(3), [b"abc", None, b"\0\0\0"]),
    "list": (pa.list_(pa.int8()), [[], None, [1, None]]),
    "large_list": (pa.large_list(pa.int8()), [[], None, [1, None]]),
    "list_view": (pa.list_view(pa.int8()), [[], None, [1, None]]),
    "fixed_list": (pa.list_(pa.int8(), 2), [[1, 2], None, [None, 4]]),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": None}, None]),
    "empty_struct": (pa.struct([]), [{}, None]),
    "map": (pa.map_(pa.string(), pa.int8()), [[("k", 1)], None, []]),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.float64())))])),
        [[{"m": [("k", [1.0, None])]}, None], None, []],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=7).bytes, None]),
}

COLUMN_TYPES = st.recursive(
    st.sampled_from([kind for kind, _ in VALUES.values() if not pa.types.is_nested(kind)]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=4,
)
