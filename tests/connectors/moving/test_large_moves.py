"""Ten million keys are adopted in one go, in a heap of three gigabytes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.runs.counts import CRASH_FULL
from support.spark.killed_runs import whole_life

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not CRASH_FULL, reason="at full size only: three drivers, some minutes"),
]
KEYS = 10_000_000
LIFE_S_MAX = 1800
# The heap, what RocksDB keeps outside of it (each task has a store open), and the JVM itself.
PEAK_MIB_MAX = 3 * 1024 + 2 * 1024


def test_ten_million_keys_are_adopted_in_one_go(
    tmp_path: Path, tally: Callable[[int], None]
) -> None:
    def step(name: str) -> dict[str, Any]:
        order = {"step": name, "folder": str(tmp_path), "keys": KEYS}
        [said] = whole_life("large_move_job", order, tmp_path, LIFE_S_MAX)
        return said

    step("make")
    adopted = step("adopt")
    print(f"adopted in {adopted['took_s']:.1f} s, {adopted['peak_mib']:,} MiB at most")
    assert adopted["rows"] == KEYS
    assert adopted["peak_mib"] < PEAK_MIB_MAX
    compared = step("compare")
    assert compared["same"]
    assert compared["rows"] == KEYS
    tally(1)
