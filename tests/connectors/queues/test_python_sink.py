"""What the sink in Python does when Spark gives a batch up. Without a JVM."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from cec_store.connectors.spark.queues.sink import StreamSink, Written

SCHEMA = StructType([StructField("n", LongType())])


def written(sink: StreamSink, batch: int) -> Written:
    """As a task does it."""
    rows = pa.record_batch({"n": [1, 2, 3]})
    return Written("query", batch, sink._target.write("query", batch, 0, [rows]), False)


def objects(path: Path) -> int:
    return len(list((path / "data").rglob("*.seg")))


def test_a_batch_whose_tasks_failed_is_forgotten(tmp_path: Path) -> None:
    sink = StreamSink({"path": str(tmp_path)}, SCHEMA)
    sink.abort([written(sink, 0), None], 0)
    assert objects(tmp_path) == 0


def test_a_batch_that_a_commit_may_have_named_stays(tmp_path: Path) -> None:
    sink = StreamSink({"path": str(tmp_path)}, SCHEMA)
    message = written(sink, 0)
    # All tasks got to their end, so the commit was tried, and nobody here knows what it came to.
    sink.abort([message], 0)
    assert objects(tmp_path) == 1
    sink.commit([message], 0)
    sink.abort([message], 0)
    assert objects(tmp_path) == 1


def test_a_queue_that_was_made_anew_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    for _ in range(2):
        sink = StreamSink({"path": str(tmp_path / "q")}, SCHEMA)
        for batch in range(3):
            sink.commit([written(sink, batch)], batch)
        assert len(list((tmp_path / "q" / "log").rglob("*.commit"))) == 4
        (tmp_path / "q").rename(tmp_path / f"before-{sink._target._id}")
