"""A relative path is from the driver's folder on, whatever folder an executor works in."""

import os
import subprocess
import sys
from pathlib import Path

import cec_store

JOB = """
from pyspark.sql import SparkSession
from cec_store.connectors import spark
from cec_store.connectors.spark.queues.data_source import CecPythonDataSource

builder = SparkSession.builder.master("local-cluster[1,2,1024]").config("spark.ui.enabled", "false")
session = spark.configure(builder).getOrCreate()
session.dataSource.register(CecPythonDataSource)
for name in ("cec", "cec_python"):
    session.range(10).write.format(name).mode("append").save(f"queues/{name}")
    print(session.read.format(name).load(f"queues/{name}").count())
session.stop()
"""


def test_rows_are_where_the_driver_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=tmp_path, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-2:] == ["10", "10"]
    for name in ("cec", "cec_python"):
        rows = cec_store.read_queue(tmp_path / "queues" / name).read_all()
        assert sorted(rows.column("id").to_pylist()) == list(range(10))
