"""Warm replicas of state on executors that do not own it, against a plain model."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import CHECKED, run_jvm

SCHEMES = ",objects,synced"
RULES = (
    "a replica reads only the frames that it lacks",
    "a replica begins by a key directory and what lies behind it",
    "a replica finds its place again in a merged segment",
    "a frame of another lineage in a merged segment is not its place",
    "a replica whose next frames are no longer kept is loaded anew",
    "a replica of a store that stays empty is loaded",
    "a replica that is further behind than the extent is loaded anew",
    "the coldest replica goes first, and comes back when there is room",
    "a state that is larger than all replicas may be is not even read",
    "a provider that is closed leaves its state as a replica",
    "a replica that is not wanted for a moment is kept",
    "an executor keeps the settings of no query whose stores are elsewhere",
    "a replica that is of no use to a task gives back its room",
    "a provider that is left over gives its state to the replica",
    "a partition that has just moved here keeps the replicas that its task has not come to yet",
    "a follower ends no file that its writer has open",
    "a replica waits for a core that no task uses, unless its partition is on its way",
    "a core is waited for until a task ends, or for so long",
    "two tasks never have one replica",
    "a task that waits for a replica gets it once it has caught up",
    "a replica that a task took before it was loaded is not loaded",
)


def test_whoever_opens_a_version_finds_what_it_holds_whatever_its_replica_was(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Other attempts, batches taken back, stale orders, reads that fail, merges; V1 and V2."""
    runs = crash_count(12, 1200)
    found = run_jvm(
        "replicaWalk", root=tmp_path, schemes=SCHEMES, until=runs, timeout_s=120 + 5 * runs
    )
    assert found["hits"] > 3 * runs, "hardly any replica was used"
    assert found["loads"] > runs
    assert found["hitsAfterRetries"] > runs / 4, "no replica has gone a version back"
    for happened in ("retries", "goneBack", "misled", "failedReads", "evictions"):
        assert found[happened] > 0, happened


def test_replicas_that_begin_by_key_directories_hold_what_their_versions_do(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """As above; each load by a directory is compared with one that reads the log."""
    runs = crash_count(12, 600)
    found = run_jvm(
        "replicaWalk", root=tmp_path, schemes=",synced", until=runs, directories=True,
        settings=CHECKED, timeout_s=120 + 5 * runs,
    )  # fmt: skip
    assert found["byDirectory"] > runs / 3
    assert found["hits"] > 3 * runs
    for happened in ("retries", "goneBack", "misled", "failedReads", "evictions"):
        assert found[happened] > 0, happened


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one run of all rules says: nothing of those that hold, with V1 and with V2."""
    return run_jvm("replicaRules", root=tmp_path_factory.mktemp("replicas"), timeout_s=240)


def test_every_rule_is_run(said: dict[str, str]) -> None:
    assert set(said) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, said: dict[str, str]) -> None:
    assert said[rule] == ""
