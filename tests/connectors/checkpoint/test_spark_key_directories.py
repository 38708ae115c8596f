"""Queries that are started again by key directories go on as if they had never stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from cec_store.connectors.spark.setup.settings import PREFIX, PROVIDER_KEY
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.folder import FolderTree
from cec_store.storage.stores.folders import folder_at
from support.spark.runs import STORE
from support.spark.session import CEC
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import at_full_size, need

KEYS, PARTITIONS = 4_000, 2
DEADLINE_S = 60
CHECKPOINT_FORMAT = STORE + "checkpointFormatVersion"


@pytest.fixture
def directories(spark: Any) -> Iterator[Any]:
    """A session that keeps key directories of small states, too."""
    set_least_keys(spark, 100, 100)
    stores = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore
    stores.stop()  # maintenance begins again, as often as is set here
    settings = {
        PROVIDER_KEY: CEC,
        PREFIX + "checkDirectories": "true",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        STORE + "maintenanceInterval": "300ms",
    }
    before = {name: spark.conf.get(name, None) for name in (*settings, CHECKPOINT_FORMAT)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    stores.stop()
    set_least_keys(spark, 1 << 16, 1 << 20)


def set_least_keys(spark: Any, of_a_run: int, of_a_directory: int) -> None:
    """Say how many keys a state needs to have an index in a local file, and to have a directory."""
    packages = spark._jvm.org.apache.spark.sql.cecstore
    runs = getattr(packages.keys, "KeyRun$")
    getattr(getattr(runs, "MODULE$"), "keysMin_$eq")(of_a_run)
    directories = getattr(packages.state, "KeyDirectories$")
    getattr(getattr(directories, "MODULE$"), "keysMin_$eq")(of_a_directory)


def put(folder: Path, number: int, random: Random) -> dict[int, list[int]]:
    """One more file of rows; returns the amounts of each key in it."""
    keys = [random.randrange(KEYS) for _ in range(3_000)]
    amounts = [random.randrange(1_000) for _ in keys]
    rows = {"key": keys, "amount": amounts, "name": [f"name {key}" * (key % 5) for key in keys]}
    pq.write_table(pa.table(rows), folder / f"{number:04}.parquet")
    found: dict[int, list[int]] = {}
    for key, amount in zip(keys, amounts, strict=True):
        found.setdefault(key, []).append(amount)
    return found


@pytest.mark.parametrize("version", ["1", "2"])
def test_query_goes_on_by_its_key_directories(
    directories: Any, tmp_path: Path, version: str
) -> None:
    """With checkpoint formats V1 and V2."""
    checkpoint = tmp_path / "checkpoint"
    check_lives(directories, tmp_path, str(checkpoint), folder_at(str(checkpoint)), version)


@pytest.mark.parametrize(
    "version", [pytest.param(name, marks=at_full_size("a cluster of Hadoop")) for name in "12"]
)
def test_query_on_hdfs_goes_on_by_its_key_directories(
    directories: Any, hdfs: Hdfs, tmp_path: Path, version: str
) -> None:
    """Where a file is replaced by none of the same name, and a writer holds its segment open."""
    need("fsspec", "requests")
    name = f"directories-{version}"
    seen = folder_at(hdfs.web_url(name), {"user": "root"})
    check_lives(directories, tmp_path, f"{hdfs.url}/{name}", seen, version)


def check_lives(
    spark: Any, tmp_path: Path, checkpoint: str, seen: FolderTree, version: str
) -> None:
    """Three lives of a query; the checkpoint is looked at through ``seen``."""
    random = Random(int(version))
    spark.conf.set(CHECKPOINT_FORMAT, version)
    (tmp_path / "in").mkdir()
    schema = "key long, amount long, name string"
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    totals = source.parquet(str(tmp_path / "in")).groupBy("key", "name").agg({"amount": "sum"})
    loads = spark._jvm.org.apache.spark.sql.cecstore.state.KeyDirectories
    used, refused = loads.used(), loads.refused()
    expected: dict[int, int] = {}
    read_at_loads = []
    for life in range(3):
        for number in range(4):
            for key, amounts in put(tmp_path / "in", life * 4 + number, random).items():
                expected[key] = expected.get(key, 0) + sum(amounts)
        query = (
            totals.writeStream.format("noop").outputMode("update")
            .option("checkpointLocation", checkpoint)
            .start()
        )  # fmt: skip
        query.processAllAvailable()
        first = query.recentProgress[0]["stateOperators"][0]["customMetrics"]
        read_at_loads.append(first["cecLoadedRecords"])
        await_directories(seen)
        query.stop()
    assert read_at_loads[0] == 0
    # A few commits behind the directory, of which none has all keys.
    assert max(read_at_loads) < KEYS
    state = spark.read.format("statestore").load(checkpoint)
    found = {row["key"]["key"]: row["value"]["sum"] for row in state.collect()}
    assert found == expected
    report = verify_place(place_at(seen), deep=True)
    assert not report.faults
    for log in logs_of(seen):
        shown = inspect_extent(log).state
        assert shown is not None
        assert shown.directory is not None
        assert shown.directory.records < shown.extent.records
    assert loads.used() - used >= 2 * PARTITIONS
    assert loads.refused() == refused


def logs_of(checkpoint: FolderTree) -> list[FolderTree]:
    operator = checkpoint.folder("state").folder("0")
    return [operator.folder(str(partition)) for partition in range(PARTITIONS)]


def await_directories(checkpoint: FolderTree) -> None:
    """Wait until each partition has one that leads to its newest version, or nearly."""
    deadline_s = time.monotonic() + DEADLINE_S
    logs = logs_of(checkpoint)
    while not all(any(name.endswith(".live") for name in log.names()) for log in logs):
        assert time.monotonic() < deadline_s, [log.names() for log in logs]
        time.sleep(0.1)
    time.sleep(1)
