"""A checkpoint that Spark itself has repartitioned is moved with all of its partitions.

What Spark notes of an operator says how many there were before: of operators whose notes have no
versions it changes nothing there.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.spark.moves import PARTITIONS, Leg, go, state_of, without_partitions
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, Run, settings_of, start
from support.spark.session import ROCKSDB

QUERY = QUERIES["aggregate_update"]


@pytest.mark.parametrize("wanted", [1, 5])
def test_it_goes_on_with_ours(spark: Any, tmp_path: Path, wanted: int) -> None:
    kept = Kept(ROCKSDB)
    due = go(spark, QUERY, tmp_path / "due", kept, [Leg(2), Leg(1)])
    job = Job(QUERY, tmp_path / "moved", kept)
    done = Run(job.folder / "checkpoint")
    start(spark, job, 0, range(2), done).awaitTermination()
    with settings_of(spark, {PARTITIONS: spark.conf.get(PARTITIONS)}):  # it changes the session's
        spark._streamingCheckpointManager.repartition(str(done.checkpoint), wanted)
    assert Checkpoint(done.checkpoint).newest_batch() == 2
    adopted = tmp_path / "adopted"
    report = cec_spark.adopt(spark, done.checkpoint, adopted)
    assert report.rows == len(due.states[0]["0 default"])
    assert cec_spark.compare(spark, done.checkpoint, adopted).is_same
    partitions = {path.name for path in (adopted / "state" / "0").glob("[0-9]*")}
    assert partitions == {str(each) for each in range(wanted)}
    assert Checkpoint(adopted).offsets(2).conf[PARTITIONS] == str(wanted)
    again = Run(adopted)
    start(spark, job, 0, range(2, 3), again).awaitTermination()
    assert again.rows[3] == due.run.rows[2]
    state = without_partitions(state_of(spark, adopted))
    assert state == without_partitions(due.states[1])
    assert verify_place(place_at(folder_at(adopted))).is_sound
