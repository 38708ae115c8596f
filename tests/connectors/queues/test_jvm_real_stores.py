"""Sources and sinks on a real HDFS and on a real S3 server."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.connectors import spark as cec_spark
from support.drivers.s3a_job import PLAIN, URL
from support.runs.minors import needs_python_sources
from support.spark.jobs import run_job
from support.spark.jvm_sink import JVM, frame, writer
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import need
from support.stores.s3_server import options_of
from support.stores.s3a import s3a_jars

need("fsspec", "requests")
SCHEMA = pa.schema([("n", pa.int64()), ("item", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def on_hdfs(hdfs: Hdfs, path: str) -> list[int]:
    found = cec_store.read_queue(hdfs.web_url(path), storage_options={"user": "root"})
    return sorted(found.read_all().column("n").to_pylist())


def test_queues_on_hdfs_are_written_once_by_writers_that_race(spark: Any, hdfs: Hdfs) -> None:
    url, writers, each = f"{hdfs.url}/race", 3, 3
    web = {"path": hdfs.web_url("race"), "storage_options": {"user": "root"}}
    with cec_store.open_queue(mode="x", schema=SCHEMA, partitions=2, **web):
        pass

    def write(number: int) -> None:
        for batch in range(each):
            rows = frame(spark, 100 * (each * number + batch), 100)
            for _ in range(2):  # the second time it is there
                writer(rows, txnAppId=f"w{number}", txnVersion=batch).save(url)

    def append(number: int) -> None:
        with cec_store.open_queue(mode="a", schema=SCHEMA, partitions=2, **web) as queue:
            for first in range(100 * each * number, 100 * each * (number + 1), 100):
                numbers = pa.array(range(first, first + 100))
                others = [pa.nulls(100, kind) for kind in SCHEMA.types[1:]]
                queue.append(pa.table([numbers, *others], schema=SCHEMA))

    with ThreadPoolExecutor(writers + 1) as pool:
        tasks = [pool.submit(write, number) for number in range(writers)]
        tasks.append(pool.submit(append, writers))
        for task in tasks:
            task.result()
    expected = list(range(100 * (writers + 1) * each))
    assert on_hdfs(hdfs, "race") == expected
    read = spark.read.format(JVM).load(url).collect()
    assert sorted(row.n for row in read) == expected


def test_a_stream_to_hdfs_loses_nothing_when_its_nodes_restart(
    spark: Any, hdfs: Hdfs, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    stream = rows.selectExpr("value as n").writeStream.format(JVM)
    stream = stream.option("checkpointLocation", str(tmp_path / "c"))

    def run(batches: int, then: Callable[[], None]) -> None:
        query = stream.start(f"{hdfs.url}/stream")
        while query.isActive and len(query.recentProgress) < batches:
            time.sleep(0.1)
        assert query.exception() is None
        then()
        # Without a second namenode Hadoop's client gives up at once; the query is started again.
        time.sleep(1)
        query.stop()

    run(4, lambda: hdfs.restart_datanode(1))
    run(4, hdfs.restart_namenode)
    run(2, lambda: None)
    found = on_hdfs(hdfs, "stream")
    assert len(found) >= 800
    assert found == list(range(len(found)))


@pytest.mark.quick
def test_queues_in_s3_are_written_once_and_read(s3_address: str, tmp_path: Path) -> None:
    plain = pa.schema([("n", pa.int64())])
    where = {"path": "s3://bucket/plain", "storage_options": options_of(s3_address)}
    with cec_store.open_queue(mode="a", schema=plain, **where) as queue:
        for first in (0, 10, 20):
            queue.append(pa.table([range(first, first + 10)], schema=plain), sync=True)
    *steps, last = run_job("s3a_job", tmp_path, 300, address=s3_address, jars=s3a_jars())
    assert last == {"done": True}
    said = {step["step"]: step["refused"] for step in steps}
    assert said.keys() == {"batch", "twice", "stream", "no bucket", URL, PLAIN}
    assert "Bucket does not exist" in said.pop("no bucket")
    assert set(said.values()) == {""}
    found = cec_store.read_queue("s3://bucket/q", storage_options=options_of(s3_address))
    numbers = sorted(found.read_all().column("n").to_pylist())
    assert numbers[:300] == list(range(300))
    assert numbers[300:] == list(range(1000, 1000 + len(numbers) - 300))
    assert len(numbers) >= 800
    counts = {step["step"]: step["count"] for step in steps if "count" in step}
    assert counts == {URL: len(numbers), PLAIN: 30}


@needs_python_sources
def test_the_source_and_sink_in_python_reach_s3_by_options_of_fsspec(
    spark: Any, s3_address: str, tmp_path: Path
) -> None:
    cec_spark.register(spark)
    options = {
        "storageOption.key": "id",
        "storageOption.secret": "secret",
        "storageOption.endpoint_url": s3_address,
        "storageOption.client_kwargs.region_name": "us-east-1",
    }
    for version in (0, 1, 1):
        rows = spark.range(100 * version, 100 * version + 100, 1, 2).toDF("n").write
        rows = rows.format("cec_python").options(txnAppId="a", txnVersion=version, **options)
        rows.mode("append").save("s3://bucket/python")
    rows = spark.readStream.format("cec_python").options(startingOffsets="earliest", **options)
    copy = rows.load("s3://bucket/python").writeStream.format("cec_python").options(**options)
    copy = copy.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert copy.start("s3://bucket/copy").awaitTermination(120)
    for name in ("python", "copy"):
        found = spark.read.format("cec_python").options(**options).load(f"s3://bucket/{name}")
        assert sorted(row.n for row in found.collect()) == list(range(200))
