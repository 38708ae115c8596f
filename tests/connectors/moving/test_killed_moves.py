"""Whenever a move is killed or fails, the new checkpoint is whole or not there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors import spark as cec_spark
from cec_store.storage.stores.new_trees import NewTree
from support.places.checkpoints import tree_of
from support.runs.counts import CRASH_FULL
from support.spark.moves import KILLS, Leg, go, kill_one, state_of, without_partitions
from support.spark.queries import QUERIES
from support.spark.runs import Kept, format_of
from support.spark.session import CEC, HDFS, ROCKSDB

QUERY = QUERIES["aggregate_update"]
KILLED = {
    "adopt": ("adopt", Kept(HDFS)),
    "adopt, V2": ("adopt", Kept(ROCKSDB, 2)),
    "repartition": ("repartition", Kept(CEC)),
    "repartition, V2": ("repartition", Kept(CEC, 2)),
    "release": ("release", Kept(CEC)),
    "release, V2": ("release", Kept(CEC, 2)),
}


@pytest.fixture(scope="module")
def old(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    return go(spark, QUERY, folder, Kept(HDFS), [Leg(2)]).checkpoints[0]


class _Stop(Exception):
    """What a test lets go wrong."""


def test_nothing_is_left_wherever_it_fails(
    spark: Any, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each file of Spark's is written, and once after the last."""
    write, written = NewTree.write, []
    dies_at = 0

    def dying(tree: NewTree, inside: str, name: str, data: bytes) -> None:
        if len(written) == dies_at:
            raise _Stop
        written.append(name)
        write(tree, inside, name, data)

    monkeypatch.setattr(NewTree, "write", dying)
    before = tree_of(old)
    while True:
        written.clear()
        try:
            cec_spark.adopt(spark, old, tmp_path / "new")
            break
        except _Stop:
            assert [*tmp_path.iterdir()] == []
            dies_at = dies_at + 1 if dies_at else 4  # the first few are of one kind
    assert len(written) == dies_at > 6
    assert tree_of(old) == before
    assert state_of(spark, tmp_path / "new") == state_of(spark, old)


def test_a_job_that_fails_leaves_nothing(spark: Any, old: Path, tmp_path: Path) -> None:
    """The state of one partition cannot be read, when others have been written already."""
    damaged = tmp_path / "damaged"
    shutil.copytree(old, damaged)
    for path in (damaged / "state" / "0" / "1").glob("*.*"):
        path.unlink()
    with pytest.raises(Exception, match=r"state/0/1"):
        cec_spark.adopt(spark, damaged, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


@pytest.mark.crash
@pytest.mark.skipif(not CRASH_FULL, reason="at full size only: each kill costs a start of Spark")
@pytest.mark.parametrize("name", KILLED)
def test_killed_at_any_moment_it_is_done_or_not_begun(
    spark: Any, tmp_path: Path, name: str, tally: Callable[[int], None]
) -> None:
    move, kept = KILLED[name]
    source = go(spark, QUERY, tmp_path, kept, [Leg(2)]).checkpoints[0]
    with format_of(spark, source):
        due, before = without_partitions(state_of(spark, source)), tree_of(source)
        whole = unfinished = 0
        for kill in range(KILLS):
            folder = tmp_path / f"killed-{kill}"
            folder.mkdir()
            kill_one(source, folder, folder, move, kill)
            for new in folder.iterdir():
                if not new.name.startswith("."):
                    assert without_partitions(state_of(spark, new)) == due
                    assert (new / "metadata").read_bytes() == (source / "metadata").read_bytes()
                    whole += 1
                else:
                    unfinished += 1
            shutil.rmtree(folder)
    assert tree_of(source) == before
    # Each kill comes in the fourth move of a life.
    assert whole >= 3 * KILLS
    assert unfinished > 0, "no move was under way when it was killed"
    tally(KILLS)
