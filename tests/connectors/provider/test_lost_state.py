"""A checkpoint whose state was lost between two runs: refused by name, never taken for empty."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.spark.queries import QUERIES
from support.spark.runs import HALF, Job, Kept, Run, start

QUERY = QUERIES["aggregate_windows_update"]
VERSION = HALF + 1
"""What the first run has made: one batch a file, and one without data that evicts."""


def empty_all(state: Path) -> None:
    """The folders stay, and so does what Spark wrote about the operator."""
    for path in state.rglob("*.seg"):
        path.unlink()


def empty_one(state: Path) -> None:
    for path in (state / "0" / "1").glob("*.seg"):
        path.unlink()


def remove_partitions(state: Path) -> None:
    for partition in ("0", "1"):
        shutil.rmtree(state / "0" / partition)


def remove_state(state: Path) -> None:
    shutil.rmtree(state)


def cut_newest(state: Path) -> None:
    """The last byte of the last commit is lost, as by a disk that lied about a sync."""
    path = max((state / "0" / "0").glob("*.seg"))
    path.write_bytes(path.read_bytes()[:-1])


def loss_is_named(said: str) -> bool:
    return f"version {VERSION} was wanted; no version is sound" in said


def folder_is_named(said: str) -> bool:
    """Spark looks for this one itself."""
    return "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY" in said


def older_version_is_named(said: str) -> bool:
    due = f"version {VERSION} was wanted; the newest sound version is {VERSION - 1}"
    return due in said and "/state/0/0" in said


LOSSES: dict[str, tuple[Callable[[Path], None], Callable[[str], bool]]] = {
    "all partitions emptied": (empty_all, loss_is_named),
    "one partition emptied": (empty_one, loss_is_named),
    "partitions removed": (remove_partitions, loss_is_named),
    "state removed": (remove_state, folder_is_named),
    "newest commit cut": (cut_newest, older_version_is_named),
}


def half(spark: Any, job: Job, part: int) -> Run:
    done = Run(job.folder / "checkpoint")
    files = range(HALF) if part == 0 else range(HALF, HALF + 1)
    start(spark, job, part, files, done).awaitTermination()
    return done


@pytest.fixture(scope="module")
def checkpoint(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Job]:
    """A job after its first run, as often as it is asked for, by checkpoint format."""
    folder = tmp_path_factory.mktemp("first-runs")
    jobs = {version: Job(QUERY, folder / f"{version}", Kept(version=version)) for version in (1, 2)}
    for job in jobs.values():
        assert max(half(spark, job, 0).rows) == VERSION - 1
        shutil.copytree(job.folder / "checkpoint", job.folder / "saved")

    def fresh(version: int) -> Job:
        # In the same place: the source's log holds whole paths.
        place = jobs[version].folder / "checkpoint"
        shutil.rmtree(place)
        shutil.copytree(place.with_name("saved"), place)
        return jobs[version]

    return fresh


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_lost_state_is_refused_and_gives_no_batch(
    loss: str, version: int, spark: Any, checkpoint: Callable[[int], Job]
) -> None:
    lose, is_said = LOSSES[loss]
    job = checkpoint(version)
    lose(job.folder / "checkpoint" / "state")
    done = Run(job.folder / "checkpoint")
    query = start(spark, job, 1, range(HALF, HALF + 1), done)
    with pytest.raises(Exception, match="STREAM_FAILED") as refused:
        query.awaitTermination()
    assert is_said(str(refused.value)), str(refused.value)[:3000]
    assert done.rows == {}
    assert not (done.checkpoint / "commits" / str(VERSION)).exists()


@pytest.mark.parametrize("version", [1, 2])
def test_state_that_is_whole_is_gone_on_with(
    version: int, spark: Any, checkpoint: Callable[[int], Job]
) -> None:
    assert min(half(spark, checkpoint(version), 1).rows) == VERSION
