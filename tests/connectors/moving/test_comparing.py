"""Two checkpoints hold the same state, or how many rows of it they do not share."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors import spark as cec_spark
from cec_store.errors import MoveRefused
from support.spark.moves import Leg, go
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, Run, start
from support.spark.session import CEC, HDFS, ROCKSDB
from support.spark.transforms import evolving, scala


def test_providers_and_partitions_do_not_matter(spark: Any, tmp_path: Path) -> None:
    query = scala("event")
    kept = {"rocksdb": Kept(ROCKSDB), "cec": Kept(CEC, 2)}
    old, ours = (
        go(spark, query, tmp_path / name, each, [Leg(2)]).checkpoints[0]
        for name, each in kept.items()
    )
    found = cec_spark.compare(spark, old, ours)
    [store] = found.stores
    assert found.is_same
    assert store.rows == store.other_rows > 50
    cec_spark.repartition(spark, ours, tmp_path / "three", partitions=3)
    assert cec_spark.compare(spark, old, tmp_path / "three") == replace(
        found, other=str(tmp_path / "three")
    )


def test_the_order_of_a_list_counts(spark: Any, tmp_path: Path) -> None:
    """The same files, of which one query has had the second one first."""
    checkpoints = []
    for name, files in (("a", (0, 1)), ("b", (1, 0))):
        job = Job(evolving("another"), tmp_path / name, Kept(CEC))
        done = Run(job.folder / "checkpoint")
        for life, file in enumerate(files):
            start(spark, job, life, range(file, file + 1), done).awaitTermination()
        checkpoints.append(done.checkpoint)
    [store] = cec_spark.compare(spark, *checkpoints).stores
    assert store.rows == store.other_rows
    assert store.only_here == store.only_there > 0


def test_what_differs_is_counted(spark: Any, tmp_path: Path) -> None:
    """Of the same query, a batch later: keys that are new, and keys that have another value."""
    moved = go(spark, QUERIES["aggregate_update"], tmp_path / "a", Kept(HDFS), [Leg(3)])
    [checkpoint] = moved.checkpoints
    found = cec_spark.compare(spark, checkpoint, checkpoint, batch=0)
    [store] = found.stores
    assert (found.batch, found.other_batch) == (0, 2)
    assert not found.is_same
    assert store.only_there - store.only_here == store.other_rows - store.rows > 0
    assert 0 < store.only_here < store.rows
    again = cec_spark.compare(spark, checkpoint, checkpoint, batch=1, other_batch=1)
    assert again.is_same
    other = go(spark, QUERIES["drop_duplicates"], tmp_path / "b", Kept(HDFS), [Leg(1)])
    with pytest.raises(MoveRefused, match="of other queries"):
        cec_spark.compare(spark, checkpoint, other.checkpoints[0])
