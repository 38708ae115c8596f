"""Streams of the source in the JVM: each row once, whatever batches, restarts and consumers."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cec_store
from cec_store.connectors import spark as cec_spark
from cec_store.opening import open_queue, queue_at
from support.runs.minors import needs_python_sources
from support.spark.jvm_queues import FORMAT, append, drain, refused

SCHEMA = pa.schema([("n", pa.int64()), ("item", pa.string())])


def write(path: Path, first: int, count: int, partitions: int = 2) -> None:
    numbers = np.arange(first, first + count)
    table = pa.table([numbers, [f"i{n % 5}" for n in numbers]], schema=SCHEMA)
    append(path, SCHEMA, [table], partitions=partitions, key_columns=["item"])


def test_batches_are_of_the_size_asked_for_and_hold_every_row_once(
    spark: Any, tmp_path: Path
) -> None:
    for first in range(0, 3000, 500):
        write(tmp_path / "q", first, 500)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "700"}
    batches = drain(spark, tmp_path / "q", tmp_path / "c", **options)
    assert sorted(n for batch in batches for n in batch) == list(range(3000))
    assert len(batches) >= 5
    assert all(len(batch) <= 700 for batch in batches)


@needs_python_sources
def test_a_checkpoint_of_the_python_source_goes_on(spark: Any, tmp_path: Path) -> None:
    cec_spark.register(spark)
    write(tmp_path / "q", 0, 100)
    seen: list[int] = []

    def run(source: str) -> None:
        query = (
            spark.readStream.format(source)
            .option("startingOffsets", "earliest")
            .load(str(tmp_path / "q"))
            .writeStream.foreachBatch(lambda rows, _: seen.extend(row.n for row in rows.collect()))
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run("cec_python")
    assert sorted(seen) == list(range(100))
    batches = list((tmp_path / "c" / "offsets").glob("[0-9]*"))
    run(FORMAT)
    assert sorted(seen) == list(range(100))
    assert list((tmp_path / "c" / "offsets").glob("[0-9]*")) == batches
    write(tmp_path / "q", 100, 50)
    run(FORMAT)
    assert sorted(seen) == list(range(150))
    text = (tmp_path / "c" / "offsets" / "1").read_text().splitlines()[-1]
    assert list(json.loads(text)) == [queue_at(tmp_path / "q").queue_id, "behind"]
    assert sum(json.loads(text)[queue_at(tmp_path / "q").queue_id].values()) == 150


def test_a_continuous_trigger_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "q", 0, 10)
    rows = spark.readStream.format(FORMAT).load(str(tmp_path / "q"))
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    said = refused(lambda: writer.trigger(continuous="1 second").start().awaitTermination())
    assert "ontinuous" in said
    assert "cec" in said.lower()


def test_an_end_is_not_for_streams(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "q", 0, 10)
    said = refused(lambda: drain(spark, tmp_path / "q", tmp_path / "c", endingOffsets="latest"))
    assert "endingOffsets is not valid in streaming queries" in said


def test_a_consumer_is_registered_and_acknowledges_what_the_checkpoint_covers(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    write(path, 0, 100)
    options = {"startingOffsets": "earliest", "consumer": "hourly"}
    drain(spark, path, tmp_path / "c", **options)
    with open_queue(path, "a", partitions=2) as queue:
        (one,) = queue.consumers()
        assert (one.name, one.lag_records) == ("hourly", 0)
        assert sum(one.effects_saved) == 100
        ends = queue.ends()
        write(path, 100, 100)
        queue.refresh()
        assert queue.trim(before=queue.ends()) == ends
    drain(spark, path, tmp_path / "c", **options)
    with open_queue(path, "a", partitions=2) as queue:
        (one,) = queue.consumers()
        assert sum(one.effects_saved) == 200


def test_a_consumer_whose_records_are_gone_is_lost_data(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    for first in (0, 100):
        write(path, first, 100)
    options = {"startingOffsets": "earliest", "consumer": "hourly"}
    drain(spark, path, tmp_path / "c", **options)
    write(path, 200, 100)
    with open_queue(path, "a", partitions=2) as queue:
        queue.drop_consumer("hourly")
        assert queue.trim(before=queue.ends()) == queue.ends()
    write(path, 300, 100)
    said = refused(lambda: drain(spark, path, tmp_path / "c", **options))
    assert "trimmed" in said
    found = drain(spark, path, tmp_path / "c", failOnDataLoss="false", **options)
    assert [n for batch in found for n in batch] == list(range(300, 400))


def test_a_query_that_failed_in_its_first_batch_begins_where_it_began(
    spark: Any, tmp_path: Path
) -> None:
    """Its options say "latest", which is another place by the time it is restarted."""
    path, checkpoint = tmp_path / "q", tmp_path / "c"
    write(path, 0, 50)
    rows = spark.readStream.format(FORMAT).option("startingOffsets", "latest").load(str(path))

    def fails(*_: Any) -> None:
        raise RuntimeError("not this time")

    writer = rows.writeStream.foreachBatch(fails).option("checkpointLocation", str(checkpoint))
    refused(writer.start().processAllAvailable)
    write(path, 50, 100)
    found = drain(spark, path, checkpoint)
    assert sorted(n for batch in found for n in batch) == list(range(50, 150))


def test_a_beginning_of_a_newer_release_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "q", 0, 50)
    drain(spark, tmp_path / "q", tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "offsets")
    shutil.rmtree(tmp_path / "c" / "commits")
    (tmp_path / "c" / "sources" / "0" / ".0.crc").unlink()
    (tmp_path / "c" / "sources" / "0" / "0").write_text("v2\n{}")
    said = refused(lambda: drain(spark, tmp_path / "q", tmp_path / "c"))
    assert "sources/0/0: it begins with 'v2', not with v1" in said


def test_a_consumer_needs_nothing_that_its_query_has_done(spark: Any, tmp_path: Path) -> None:
    """What it acknowledged last was lost, and the queue was trimmed up to there."""
    path, kept = tmp_path / "q", tmp_path / "kept"
    options = {"startingOffsets": "earliest", "consumer": "hourly"}
    for first in (0, 100):
        write(path, first, 100)
        drain(spark, path, tmp_path / "c", **options)
        if not first:
            shutil.copytree(path / "consumers", kept)
    with open_queue(path, "a", partitions=2) as queue:
        assert queue.trim(before=queue.ends()) == queue.ends()
    shutil.rmtree(path / "consumers")
    shutil.copytree(kept, path / "consumers")
    write(path, 200, 100)
    found = drain(spark, path, tmp_path / "c", **options)
    assert sorted(n for batch in found for n in batch) == list(range(200, 300))


@pytest.mark.parametrize("name", ["c" * 101, "a.", "-a", "a/b"])
def test_a_consumer_has_a_name_that_python_knows(spark: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "q"
    write(path, 0, 10)
    options = {"startingOffsets": "earliest", "consumer": name}
    said = refused(lambda: drain(spark, path, tmp_path / "c", **options))
    assert "a name is 1 to 100 of" in said
    with open_queue(path, "a", partitions=2) as queue:
        assert queue.consumers() == []


def test_progress_tells_how_far_behind_a_query_is(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "q", 0, 1000)
    query = (
        spark.readStream.format(FORMAT)
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="400")
        .load(str(tmp_path / "q"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    behind = [
        int(p["sources"][0]["metrics"]["recordsBehindLatest"])
        for p in query.recentProgress
        if p["numInputRows"]
    ]
    assert behind[0] >= 600
    assert behind[-1] == 0
    assert json.dumps(query.lastProgress["sources"][0]["latestOffset"])


def test_a_query_that_is_stopped_in_a_commit_has_not_failed(spark: Any, tmp_path: Path) -> None:
    """The stop comes while the commit is made durable, which an interrupt breaks off."""
    arrays = spark._jvm.org.apache.commons.lang3.ArrayUtils
    for turn in range(8):
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = rows.writeStream.format("cec").option("checkpointLocation", f"{tmp_path}/c")
        query = writer.start(f"{tmp_path}/q")
        end_s = time.monotonic() + 120
        while (query.lastProgress or {"batchId": -1})["batchId"] < turn + 2:
            assert time.monotonic() < end_s
            time.sleep(0.01)
        thread = query._jsq.streamingQuery().queryExecutionThread()
        while "syncNames" not in arrays.toString(thread.getStackTrace()):
            assert time.monotonic() < end_s
        query.stop()
        assert query.exception() is None
    values = cec_store.read_queue(tmp_path / "q").read_all().column("value").to_pylist()
    assert sorted(values) == list(range(len(values)))
