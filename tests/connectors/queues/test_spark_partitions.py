"""Rows go to the partitions that a real Spark puts them into."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store.partitioned.spark_hash import partitions_of

VALUES = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), [-128, 127, None]),
    "smallint": (pa.int16(), [-5, 30000, None]),
    "int": (pa.int32(), [-(2**31), 7, None]),
    "bigint": (pa.int64(), [-(2**63), 2**40, None]),
    "float": (pa.float32(), [-0.0, 1.5, float("nan"), None]),
    "double": (pa.float64(), [-0.0, 1e300, float("nan"), None]),
    "string": (pa.string(), ["", "a", "abcd", "äöü€", "x" * 77, None]),
    "binary": (pa.binary(), [b"", b"\xff", b"\x80\x81\x82\x83\x84", None]),
    "date": (pa.date32(), [dt.date(1969, 1, 1), dt.date(2026, 2, 3), None]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc), None],
    ),
    "decimal(18,3)": (pa.decimal128(18, 3), [decimal.Decimal("-1.5"), None]),
}


@pytest.mark.parametrize("name", VALUES)
def test_partitions_are_those_of_spark(name: str, spark: Any) -> None:
    kind, values = VALUES[name]
    number = pa.array(np.arange(len(values)))
    frame = spark.createDataFrame(
        list(zip(number.to_pylist(), values, strict=True)), f"n bigint, v {name}"
    )
    found = frame.selectExpr("pmod(hash(v), 97)", "pmod(hash(n, v), 97)").collect()
    column = pa.array(values, kind)
    assert partitions_of([column], 97).tolist() == [row[0] for row in found]
    assert partitions_of([number, column], 97).tolist() == [row[1] for row in found]
