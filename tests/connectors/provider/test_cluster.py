"""The main operators where executors are processes of their own, as on a cluster."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.spark.queries import QUERIES

MAIN = ("join_full_outer", "flat_map_groups_event_time", "aggregate_windows_append")
TIMEOUT_S = 1500


@pytest.mark.crash
def test_executors_of_their_own_change_no_batch(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    names = [*MAIN, *(name for name in QUERIES if name not in MAIN)]
    names = names[: crash_count(0, len(names))]
    if not names:
        pytest.skip("at full size only: test_kills has a query in local-cluster")
    # A JVM has one master for its life, so this one has a process of its own.
    done = subprocess.run(
        [sys.executable, "-m", "support.drivers.cluster_job", str(tmp_path), *names],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert set(found["queries"]) == set(names)
    for name in names:
        query = found["queries"][name]
        assert (query["v1"], query["v2"]) == ([], []), name
        assert query["rows"] > 0
        assert (query["removed"] > 0) is QUERIES[name].evicts
