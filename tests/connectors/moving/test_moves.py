"""A query says the same whether it is taken to another provider and other partitions or not."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.runs.counts import CRASH_FULL
from support.spark.moves import Leg, go, without_partitions
from support.spark.queries import QUERIES
from support.spark.runs import Kept
from support.spark.session import HDFS, ROCKSDB
from support.spark.transforms import scala

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

CHANGELOG = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
STORES = {
    "hdfs": Kept(HDFS),
    "rocksdb": Kept(ROCKSDB),
    "rocksdb, changelog": Kept(ROCKSDB, 1, CHANGELOG),
    "rocksdb, V2": Kept(ROCKSDB, 2),
    "rocksdb, V2, changelog": Kept(ROCKSDB, 2, CHANGELOG),
}
TRANSFORM = scala("event")
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
# Its one store has a family for each of the four of other joins.
JOIN = replace(QUERIES["join_left_outer"], name="join_format_3", conf={FORMAT: "3"})
EVERY = {**QUERIES, TRANSFORM.name: TRANSFORM, JOIN.name: JOIN}
HAS_FAMILIES = (TRANSFORM.name, JOIN.name)
# Each is the first to have something: no column families; four stores and unique ids; families,
# lists and timers, with changes that no snapshot has.
CASES = (
    [("session_windows_append", "hdfs"), ("join_left_outer", "rocksdb, V2")]
    if not CRASH_FULL
    else [(name, store) for name in EVERY for store in STORES]
)
FILES = 20 if CRASH_FULL else 2


@pytest.mark.crash
@pytest.mark.parametrize(("name", "store"), CASES)
def test_each_batch_is_as_without_the_moves(
    spark: Any, tmp_path: Path, name: str, store: str
) -> None:
    """To our provider, to other partitions, and back."""
    if name in HAS_FAMILIES and store == "hdfs":
        pytest.skip("Spark refuses the operator on that provider")
    query, kept = EVERY[name], STORES[store]
    back = "hdfs" if store == "hdfs" else "rocksdb"
    files = (FILES, FILES, FILES // 2, FILES // 2)
    stays = go(spark, query, tmp_path / "stays", kept, [Leg(each) for each in files])
    moves = go(
        spark,
        query,
        tmp_path / "moves",
        kept,
        [
            Leg(files[0]),
            Leg(files[1], "adopt"),
            Leg(files[2], "repartition", partitions=3),
            Leg(files[3], "release", provider=back),
        ],
    )
    assert sum(map(len, stays.run.rows.values())) > 0
    assert moves.run.rows == stays.run.rows
    # Some metrics of transformWithState depend on the number of partitions.
    for batch, due in stays.run.metrics.items():
        if batch <= moves.last_batches[1]:
            assert moves.run.metrics[batch] == due
    assert moves.states[:2] == stays.states[:2]
    assert [*map(without_partitions, moves.states)] == [*map(without_partitions, stays.states)]
    assert any(moves.states[-1].values())


def test_an_adoption_prints_no_error_and_no_endpoint(spark: Any, tmp_path: Path) -> None:
    kept, query = STORES["rocksdb"], EVERY["session_windows_append"]
    moved = go(spark, query, tmp_path / "kept", kept, [Leg(1)], reads_state=False)
    words = ["adopt", str(moved.checkpoints[0]), str(tmp_path / "new"), "--yes"]
    verb = Path(sys.executable).with_name("cec-store")
    done = subprocess.run([verb, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    noise = re.compile(r"ERROR|Exception|^\s+at |[Ee]ndpoint|Spark ?UI", re.MULTILINE)
    assert noise.findall(done.stderr) == [], done.stderr
