"""A query says the same whether it is taken to another provider and other partitions or not."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store import read_state
from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.scans import Reads, operator_scans
from cec_store.connectors.spark.setup.settings import PROVIDER_KEY
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.command_line.state import rows_of
from support.runs.counts import crash_cases, crash_count
from support.runs.minors import HAS_JOIN_FORMAT_3, needs_newest
from support.spark.inputs import Inputs
from support.spark.moves import PARTITIONS, Leg, go, without_partitions
from support.spark.queries import QUERIES, StreamQuery
from support.spark.runs import Kept
from support.spark.session import CEC, HDFS, ROCKSDB
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
CASES = crash_cases(
    [("session_windows_append", "hdfs"), ("join_left_outer", "rocksdb, V2")],
    [(name, store) for name in EVERY for store in STORES],
)
FILES = crash_count(2, 20)


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


EVOLUTION = "spark.sql.streaming.queryEvolution.enableSinkEvolution"


@needs_newest
def test_a_checkpoint_whose_sink_has_a_name_is_adopted_and_released(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commits are of version 3, with a map of sinks that Spark goes on with."""

    def run(checkpoint: Path, provider: str, number: int) -> None:
        rows = spark.range(number, number + 3).coalesce(1)
        rows.write.mode("append").json(str(tmp_path / "in"))
        spark.conf.set(PROVIDER_KEY, provider)
        spark.conf.set(EVOLUTION, "true")
        try:
            counts = spark.readStream.schema("id LONG").json(str(tmp_path / "in"))
            writer = counts.groupBy("id").count().writeStream.outputMode("update")
            writer = writer.format("noop").option("checkpointLocation", str(checkpoint))
            writer = writer.trigger(availableNow=True)
            writer._jwrite.name("out")  # PySpark has no such method yet
            writer.start().awaitTermination()
        finally:
            spark.conf.unset(EVOLUTION)
            spark.conf.unset(PROVIDER_KEY)

    old, new, back = (tmp_path / name for name in ("old", "new", "back"))
    run(old, ROCKSDB, 0)
    run(old, ROCKSDB, 1)
    sinks = [json.loads(line) for line in (old / "commits" / "1").read_text().split("\n")[1:]]
    assert (old / "commits" / "1").read_text().startswith("v3\n")
    cec_spark.adopt(spark, old, new)
    assert verify_place(place_at(new)).faults == ()
    run(new, CEC, 2)
    cec_spark.release(spark, new, back, provider="rocksdb")
    run(back, ROCKSDB, 3)
    state = spark.read.format("statestore").load(str(back)).collect()
    found = {row["key"]["id"]: row["value"]["count"] for row in state}
    assert found == {0: 1, 1: 2, 2: 3, 3: 3, 4: 2, 5: 1}
    for each in (new, back):
        text = max((each / "commits").glob("[0-9]*"), key=lambda file: int(file.name)).read_text()
        assert text.startswith("v3\n")
        assert json.loads(text.split("\n")[1])["sinkMetadataMap"] == sinks[0]["sinkMetadataMap"]


@pytest.mark.skipif(not HAS_JOIN_FORMAT_3, reason="this Spark refuses the setting")
def test_adopted_join_with_column_families_is_sound_and_named(spark: Any, tmp_path: Path) -> None:
    """Spark notes other things of it than of `transformWithState`, in the same files."""
    moved = go(spark, JOIN, tmp_path, Kept(ROCKSDB), [Leg(1), Leg(1, "adopt")])
    assert any(moved.states[-1].values()), "Spark's reader reads a side"
    for path in moved.checkpoints:
        assert verify_place(place_at(path), deep=True).faults == ()
        [scan] = operator_scans(Checkpoint(path))
        assert (scan.name, scan.reads) == ("join", Reads.ALL)
    with pytest.raises(ValueError, match="a join of state format 3"):
        read_state(moved.checkpoints[-1], store="left")
    shown = {row["variable"] for row in rows_of("state", moved.checkpoints[-1])}
    assert shown > {"left-keyWithIndexToValue", "right-keyWithIndexToValue"}


def test_state_under_a_void_key_is_moved_from_the_partition_of_its_hash(
    spark: Any, tmp_path: Path
) -> None:
    """Spark hashes a null to 42, which is partition 2 of 4 and of 5, and 0 of 3."""
    query = StreamQuery("void", _rows_without_a_key, "append")
    kept = Kept(HDFS, 1, {PARTITIONS: "4"})
    legs = [Leg(1), Leg(1, "adopt"), Leg(1, "repartition", partitions=3), Leg(1, "release")]
    moves = [replace(leg, provider="hdfs") for leg in legs]
    moved = go(spark, query, tmp_path, kept, moves)
    assert sum(map(len, moved.run.rows.values())) == 1
    assert [sum(map(len, state.values())) for state in moved.states] == [1] * 4


def _rows_without_a_key(spark: Any, inputs: Inputs) -> Any:
    return inputs.timed(spark).selectExpr("NULL AS nothing").dropDuplicates(["nothing"])
