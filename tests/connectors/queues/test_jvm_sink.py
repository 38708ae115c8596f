"""The sink in the JVM: what it writes is in the queue once, and read as any other."""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.queues.spark_types import stored_schema
from cec_store.format.by_reference.segment_frames import ReferencedFrame, frames_of
from cec_store.format.frame import FrameHeader
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.stores.local_store import LocalStore
from support.runs.minors import needs_python_sources
from support.spark.jvm_sink import (
    JVM,
    frame,
    named,
    numbers,
    objects,
    queue_at,
    rows_of,
    writer,
)

# -- batches -----------------------------------------------------------------------------------


def test_all_that_was_written_is_read(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    for first in (0, 1000, 2000):
        writer(frame(spark, first), timestampColumn="at", keyColumns="item").save(str(path))
    rows = rows_of(path)
    assert rows.schema.names == ["n", "item", "at"]
    assert numbers(path) == list(range(3000))
    queue = queue_at(path)
    assert queue.ends() == {0: 1500, 1: 1500}
    assert queue.schema.timestamp_column == "at"
    assert queue.schema.key_columns == ("item",)
    assert objects(path) == named(path)
    low, high = (datetime.fromtimestamp(s, timezone.utc) for s in (1100, 1200))
    some = cec_store.read_queue(path, since=low, until=high).read_all()
    assert sorted(some.column("n").to_pylist()) == list(range(1100, 1200))


def test_rows_keep_their_order_within_a_partition(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    writer(frame(spark, count=200_000), timestampColumn="at", segmentBytes=100_000).save(str(path))
    rows = cec_store.read_queue(path, include_metadata=True).read_all()
    found = {0: list(range(100_000)), 1: list(range(100_000, 200_000))}
    for number, expected in found.items():
        own = rows.filter(pa.compute.equal(rows.column("_partition"), number))
        assert own.column("n").to_pylist() == expected
        assert own.column("_offset").to_pylist() == list(range(100_000))
        assert own.column("_timestamp").cast(pa.int64()).to_pylist() == [
            n * 1_000_000 for n in expected
        ]
    # So many bytes begin another object.
    assert len(objects(path)) > 2
    assert objects(path) == named(path)


def test_columns_are_compressed_apart(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    writer(frame(spark, count=100_000), timestampColumn="at").save(str(path))
    queue = queue_at(path)
    frames = [header for number in queue.ends() for header in _headers(queue, number)]
    assert {header.codec for header in frames} == {3}
    assert sum(header.record_count for header in frames) == 100_000
    assert sum(header.body_bytes for header in frames) < 100_000 * 10


def _headers(queue: ReferenceQueue, number: int) -> Iterator[FrameHeader]:
    store = LocalStore(queue.path)
    for segment in queue.state.live.to_pylist():
        if segment["partition"] == number:
            data = store.read(segment["file"], segment["byte"], segment["bytes"])
            for item in frames_of(segment, data):
                assert isinstance(item, ReferencedFrame)
                assert not item.problem
                yield item.header


TYPES = """
    SELECT * FROM VALUES
      (true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 'ä', X'00ff', DATE'2026-01-02',
       TIMESTAMP'2026-01-02 03:04:05.678901', TIMESTAMP_NTZ'2026-01-02 03:04:05.678901',
       12.34BD, 1234567890123456789012345678.123456789BD, INTERVAL '1 02:03:04.5' DAY TO SECOND,
       ARRAY(1, NULL), MAP('a', 1L), NAMED_STRUCT('x', 1, 'y', ARRAY('z')), NULL),
      (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL)
"""


@needs_python_sources
@pytest.mark.parametrize("copies", [1, 5000])
def test_every_type_is_stored_as_the_python_sink_stores_it(
    spark: Any, tmp_path: Path, copies: int
) -> None:
    rows = spark.sql(TYPES).selectExpr("*", f"explode(sequence(1, {copies})) as copy")
    rows = rows.repartition(1).sortWithinPartitions("copy", rows.columns[0])
    jvm, python, made = (tmp_path / name for name in ("jvm", "python", "made"))
    cec_spark.register(spark)
    writer(rows).save(str(jvm))
    rows.write.format("cec_python").mode("append").save(str(python))
    found, expected = rows_of(jvm), rows_of(python)
    assert found.num_rows == 2 * copies
    assert found.equals(expected)
    schema = stored_schema(rows.schema)
    assert queue_at(jvm).schema.data.equals(schema)
    # One goes on with what the other has made.
    for path in (jvm, made):
        with cec_store.open_queue(path, "a", schema=schema, partitions=1) as queue:
            queue.append(found)
    writer(rows).save(str(made))
    assert rows_of(jvm).num_rows == rows_of(made).num_rows == 4 * copies


def test_strings_of_few_values_nulls_and_long_ones_come_back(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(0, 150_000, 1, 1).selectExpr(
        "id as n",
        "if(id % 5 = 0, null, concat('item-', cast(id % 300 as string))) as few",
        "if(id % 3 = 0, null, cast(concat('b', cast(id % 40000 as string)) as binary)) as many",
        "cast(null as string) as none",
        "cast(uuid() as string) as all",
        "named_struct('inner', if(id % 2 = 0, 'even', 'odd'), 'list', array('x', 'y')) as nested",
        "if(id % 50000 = 7, repeat('long', 3000000), '') as long",
    )
    kept = rows.localCheckpoint()
    writer(kept).save(str(tmp_path / "q"))
    found, expected = rows_of(tmp_path / "q"), kept.toArrow()
    assert found.num_rows == 150_000
    for name in expected.column_names:
        have, want = found.column(name), expected.column(name)
        assert have.cast(want.type).to_pylist() == want.to_pylist(), name


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "bigint"])
def test_a_timestamp_column_of_any_type_is_the_time_of_its_row(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    sql = {"timestamp": "at", "timestamp_ntz": "cast(at as timestamp_ntz)", "bigint": "n * 1000000"}
    rows = frame(spark).selectExpr("n", f"{sql[kind]} as moment")
    writer(rows, timestampColumn="moment").save(str(tmp_path / "q"))
    found = cec_store.read_queue(tmp_path / "q", include_metadata=True).read_all()
    times = found.column("_timestamp").cast(pa.int64()).to_pylist()
    assert times == [n * 1_000_000 for n in found.column("n").to_pylist()]


def test_null_structs_of_many_fields_are_written(spark: Any, tmp_path: Path) -> None:
    """In Spark's own form they are eight bytes; in Arrow they have room for all that they lack."""
    fields = ", ".join(f"f{n}: double" for n in range(400))
    rows = spark.range(0, 65_536, 1, 1).selectExpr("id", f"cast(null as struct<{fields}>) s")
    path = tmp_path / "q"
    writer(rows).save(str(path))
    found = spark.read.format(JVM).load(str(path)).selectExpr("count(*)", "count(s)", "sum(id)")
    assert tuple(found.first()) == (65_536, 0, 65_535 * 32_768)


def test_a_write_without_rows_makes_the_queue(spark: Any, tmp_path: Path) -> None:
    writer(frame(spark).where("n < 0"), retention=" 168 H").save(str(tmp_path / "q"))
    queue = queue_at(tmp_path / "q")
    assert (queue.ends(), queue.state.number) == ({0: 0}, 0)
    assert queue.state.commit.settings == {"retention": "7d"}
    writer(frame(spark, parts=3)).save(str(tmp_path / "q"))
    assert sum(queue_at(tmp_path / "q").ends().values()) == 1000
    assert len(queue_at(tmp_path / "q").ends()) == 3


# -- streams -----------------------------------------------------------------------------------


def run_stream(
    session: Any, source: Path, sink: Path, checkpoint: Path, mode: str = "append"
) -> Any:
    rows = session.readStream.schema("n LONG").parquet(str(source))
    if mode != "append":
        rows = rows.selectExpr("n % 3 as n").groupBy("n").count()
    query = (
        rows.writeStream.format(JVM).outputMode(mode)
        .option("checkpointLocation", str(checkpoint)).start(str(sink))
    )  # fmt: skip
    query.processAllAvailable()
    query.stop()
    return query


def feed(session: Any, source: Path, first: int, count: int = 100) -> None:
    rows = session.range(first, first + count, 1, 2).toDF("n")
    rows.write.mode("append").parquet(str(source))


def test_a_stream_writes_what_it_read_batch_by_batch(spark: Any, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    for batch in range(3):
        feed(spark, source, 100 * batch)
        query = run_stream(spark, source, sink, checkpoint)
    assert numbers(sink) == list(range(300))
    state = queue_at(sink).state
    assert state.commit.queries == {str(query.id): 2}
    assert state.number == 3
    assert objects(sink) == named(sink)


def test_a_batch_that_is_run_again_is_written_once(spark: Any, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    for batch in range(2):
        feed(spark, source, 100 * batch)
        run_stream(spark, source, sink, checkpoint)
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run_stream(spark, source, sink, checkpoint)
    assert numbers(sink) == list(range(200))
    assert queue_at(sink).state.number == 2
    assert objects(sink) == named(sink)


def test_update_mode_appends_what_has_changed(spark: Any, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    feed(spark, source, 0, 3)
    run_stream(spark, source, sink, checkpoint, "update")
    spark.createDataFrame([(4,)], "n LONG").write.mode("append").parquet(str(source))
    run_stream(spark, source, sink, checkpoint, "update")
    rows = [(r["n"], r["count"]) for r in rows_of(sink).to_pylist()]
    assert Counter(rows) == Counter([(0, 1), (1, 1), (2, 1), (1, 2)])


def test_complete_mode_appends_the_whole_result_of_each_batch(spark: Any, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    feed(spark, source, 0, 3)
    run_stream(spark, source, sink, checkpoint, "complete")
    spark.createDataFrame([(4,)], "n LONG").write.mode("append").parquet(str(source))
    run_stream(spark, source, sink, checkpoint, "complete")
    rows = [(r["n"], r["count"]) for r in rows_of(sink).to_pylist()]
    assert Counter(rows) == Counter([(0, 1), (1, 1), (2, 1), (0, 1), (1, 2), (2, 1)])


def test_a_continuous_trigger_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = (
        rows.writeStream.format(JVM).trigger(continuous="1 second")
        .option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "q"))
    )  # fmt: skip
    with pytest.raises(Exception, match=r"Trigger\.Continuous"):
        query.awaitTermination(60)
    query.stop()


def test_modes_are_what_the_umask_leaves(spark: Any, tmp_path: Path) -> None:
    umask = os.umask(0o022)
    os.umask(umask)  # the JVM has that of this process
    tmp_path.chmod(0o751)
    writer(frame(spark)).save(str(tmp_path / "made" / "too" / "q"))
    made = list(tmp_path.rglob("*"))
    assert {p.stat().st_mode & 0o777 for p in made if p.is_dir()} == {0o777 & ~umask}
    assert {p.stat().st_mode & 0o777 for p in made if p.is_file()} == {0o666 & ~umask}
    assert tmp_path.stat().st_mode & 0o777 == 0o751
