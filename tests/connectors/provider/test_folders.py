"""State logs on Hadoop file systems: one of whole objects only, one that appends and syncs."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from cec_store.format.frame import SegmentFlags, decode_segment_header
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.segments import MERGED
from cec_store.storage.local import LocalFolder
from support.spark.jvm import STORE, run_jvm

# Few versions and small merges, so that both happen all the time.
EAGER = {"spark.sql.streaming.minBatchesToRetain": "6", f"{STORE}.minDeltasForSnapshot": "3"}
BOTH = "objects,synced"


def test_random_calls_on_objects_give_what_a_map_gives(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    seeds = crash_count(2, 400)
    found = run_jvm(
        "model", root=f"objects:{tmp_path}", families=True, v2="both", maintenance=True,
        until=seeds, batches=30, counted=True, settings=EAGER, timeout_s=60 + 10 * seeds,
    )  # fmt: skip
    assert found["commits"] > 10 * seeds
    assert found["created"] >= found["commits"] + found["merged"], "not an object a commit"
    assert found["merged"] > seeds
    assert found["deleted"] > 2 * seeds
    for path in tmp_path.rglob("*.seg"):
        head = decode_segment_header(path.read_bytes())
        assert head.flags == (SegmentFlags.COMPACTED if head.segment_id & MERGED else 0), path
    assert_sound(tmp_path, seeds)


def test_random_calls_between_power_cuts_give_what_a_map_gives(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Segments grow here; a cut takes what was not synced, and the writer with it."""
    seeds = crash_count(2, 400)
    found = run_jvm(
        "model", root=f"synced:{tmp_path}", v2="both", maintenance=True, cuts=True,
        until=seeds, batches=40, counted=True, settings=EAGER, timeout_s=60 + 10 * seeds,
    )  # fmt: skip
    assert found["merged"] == 0
    assert found["created"] < found["commits"], "no segment grew"
    assert found["deleted"] > 2 * seeds
    assert_sound(tmp_path, seeds)


def test_attempts_that_overlap_never_mix_on_other_file_systems(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    runs = crash_count(4, 200)
    found = run_jvm(
        "races", root=tmp_path, schemes=BOTH, until=runs, rounds=20, timeout_s=20 * runs
    )
    assert found["V1"] == found["V2"] == 10 * runs
    assert found["zombies"] > runs
    assert found["merged"] > 0
    assert_sound(tmp_path, runs)


def test_kept_versions_load_and_objects_vanish_beside_commits_and_loads(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """One to four versions to keep, restarts, two readers that never pause; V1 and V2."""
    runs = crash_count(4, 100)
    found = run_jvm(
        "retention", root=f"objects:{tmp_path}", until=runs, batches=80, timeout_s=120 + 30 * runs
    )
    assert found["commits"] == 80 * runs
    assert found["merged"] > 5 * runs
    assert found["left"] < 30 * runs, "hardly any object was deleted"
    assert found["refused"] > 10 * runs
    assert_sound(tmp_path, runs)


def test_interrupted_tasks_lose_nothing_on_other_file_systems(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """These break off wherever a task is interrupted; no stream is left open."""
    runs = crash_count(2, 200)
    found = run_jvm(
        "interrupts", root=tmp_path, schemes=BOTH, until=runs, rounds=20, timeout_s=20 * runs
    )
    assert found["acknowledged"] > 3 * runs
    assert found["brokenCommits"] > 3 * runs
    assert_sound(tmp_path, runs)


def assert_sound(root: Path, runs: int) -> None:
    """What the readers in Python say of the same files."""
    logs = sorted(root.glob("seed-*/0/0"))
    assert len(logs) == runs
    for log in logs:
        found = verify(LocalFolder(log))
        assert found.is_sound, f"{log}: {found.faults}"


@pytest.mark.parametrize("v2", [False, True], ids=["V1", "V2"])
def test_a_lease_of_a_dead_writer_is_recovered_and_idle_streams_are_left(
    tmp_path: Path, v2: bool
) -> None:
    found = run_jvm("leases", root=f"leased:{tmp_path}", v2=v2)
    assert found == {"idle": [[1], [0, 1, 3, 4]], "versions": 4}
