"""Which queues a batch has read and written, as OpenLineage's listener is told."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.drivers import lineage_job
from support.stores.maven import jar

TIMEOUT_S = 300
VERSION = "1.53.0"
NAMESPACE, NAME = "openlineage.dataset.namespace", "openlineage.dataset.name"


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/orders", "file", "/data/orders"),
        ("file:/data/orders", "file", "/data/orders"),
        ("file:///data/orders/", "file", "/data/orders"),
        ("orders", "file", f"{Path.cwd()}/orders"),
        ("hdfs://name:8020/data/orders", "hdfs://name:8020", "/data/orders"),
        ("s3a://bucket/data/orders", "s3://bucket", "data/orders"),
        ("gs://bucket/data/orders", "gs://bucket", "data/orders"),
        ("abfss://box@us.example.net/orders", "abfss://box@us.example.net", "/orders"),
    ],
)
def test_a_queue_has_the_name_of_its_folder(
    spark: Any, path: str, namespace: str, name: str
) -> None:
    """As the listener names a folder of Parquet files at the same path."""
    options = spark._jvm.org.apache.spark.sql.cecstore.tables.TableOptions
    named = options.lineage(path, spark.sparkContext._jsc.hadoopConfiguration())
    assert {NAMESPACE: namespace, NAME: name} == {
        key: named.apply(key) for key in (NAMESPACE, NAME)
    }


def test_a_listener_is_told_what_was_read_and_written(tmp_path: Path) -> None:
    """By path and as a table of a catalog: one dataset."""
    listener = jar("io.openlineage", "openlineage-spark_2.13", VERSION)
    done = subprocess.run(
        [sys.executable, "-m", lineage_job.__name__, str(tmp_path), str(listener)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    events = [json.loads(line) for line in (tmp_path / "events").read_text("utf-8").splitlines()]
    ended = [event for event in events if event["eventType"] == "COMPLETE"]
    pairs = {
        (source["name"], sink["name"])
        for event in ended
        for source in event["inputs"]
        for sink in event["outputs"]
    }
    assert pairs == {(f"{tmp_path}/in", f"{tmp_path}/q"), (f"{tmp_path}/q", f"{tmp_path}/out")}
    [queue] = {
        (sink["namespace"], *(field["name"] for field in sink["facets"]["schema"]["fields"]))
        for event in ended
        for sink in event["outputs"]
        if sink["name"] == f"{tmp_path}/q"
    }
    assert queue == ("file", "id")
