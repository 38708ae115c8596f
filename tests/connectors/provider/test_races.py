"""What overlaps: attempts at one version, tasks that are interrupted, maintenance beside both."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm


def test_attempts_that_overlap_never_mix_and_all_agree_on_what_was_committed(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Twins, retries, zombies that wake after their successors; three executors, V1 and V2."""
    runs = crash_count(6, 400)
    found = run_jvm("races", root=tmp_path, until=runs, rounds=50, timeout_s=120 + 20 * runs)
    assert found["V1"] == found["V2"] == 25 * runs
    assert found["twins"] > 25 * runs
    assert found["retries"] > 10 * runs
    assert found["zombies"] > 5 * runs
    assert found["aborts"] > 10 * runs


def test_kept_versions_load_and_the_others_vanish_beside_commits_and_loads(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """One to four versions to keep, restarts, two readers that never pause; V1 and V2."""
    runs = crash_count(2, 100)
    found = run_jvm("retention", root=tmp_path, until=runs, batches=80, timeout_s=120 + 30 * runs)
    assert found["commits"] == 80 * runs
    assert found["left"] < found["made"] / 2, "hardly any segment was deleted"
    assert found["refused"] > 10 * runs
    assert found["loads"] > 100 * runs


def test_interrupted_tasks_lose_no_acknowledged_commit_and_leave_nothing_behind(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Before a load, a commit or an abort, or at any moment; some with their provider closed."""
    runs = crash_count(4, 200)
    found = run_jvm("interrupts", root=tmp_path, until=runs, timeout_s=60 + 20 * runs)
    assert found["acknowledged"] > 20 * runs
    assert found["brokenCommits"] > runs, "hardly any interrupt came in time"
    assert found["closed"] > 0


def test_two_hundred_stores_hold_no_files_and_no_threads(tmp_path: Path) -> None:
    found = run_jvm("manyStores", root=tmp_path, stores=200)
    assert found == {"stores": 200, "files": 0, "threads": 0, "filesAfter": 0}
