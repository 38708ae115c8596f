"""Warm replicas of state on executors that do not own it, against a plain model."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

SCHEMES = ",objects,synced"


def test_whoever_opens_a_version_finds_what_it_holds_whatever_its_replica_was(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Other attempts, batches taken back, stale orders, reads that fail, merges; V1 and V2."""
    runs = crash_count(24, 1200)
    found = run_jvm(
        "replicaWalk", root=tmp_path, schemes=SCHEMES, until=runs, timeout_s=120 + 5 * runs
    )
    assert found["hits"] > 3 * runs, "hardly any replica was used"
    assert found["loads"] > runs
    assert found["hitsAfterRetries"] > runs / 4, "no replica has gone a version back"
    for happened in ("retries", "goneBack", "misled", "failedReads", "evictions"):
        assert found[happened] > 0, happened
