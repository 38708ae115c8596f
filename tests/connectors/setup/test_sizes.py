"""Sizes in settings, against Spark's own reading of them."""

from typing import Any

import pytest

from cec_store.values import SPARKS_SIZE_UNITS, parse_size

pytestmark = pytest.mark.spark


def test_sizes_are_what_spark_reads(spark: Any) -> None:
    """Its MB is 2^20, where ours on the command line is 10^6."""
    read = spark._jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes
    for unit in ("", "b", *(prefix + rest for prefix in "kmgtp" for rest in ("", "b", "B"))):
        assert parse_size(f"3{unit}", SPARKS_SIZE_UNITS) == read(f"3{unit}"), unit
    assert parse_size("3MB") == 3_000_000
