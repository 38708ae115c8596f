"""Replicas of state that is kept on a real HDFS, and on a real S3 server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.drivers.killed_queries import QUERIES, faults_of
from support.spark.killed_runs import output, whole_life
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import at_full_size, need
from support.stores.s3_server import options_of
from support.stores.s3a import s3a_settings

need("fsspec", "requests")
pytestmark = at_full_size("a cluster for each store")
QUERY, PARTITIONS = "running", 2
EVENTS = ["migrate", "kill", "migrate"]
MORE = ["kill", "drain", "migrate", "lose", "migrate"]
LIFE_S_MAX = 900


def check_life(
    folder: Path, url: str, conf: dict[str, str], web: tuple[str, dict[str, Any]], count: int
) -> None:
    """Executors are lost and partitions move: each row comes once, replicas are used, and the state
    is sound."""
    events = (EVENTS + MORE * 4)[:count]
    stores = {
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
        "spark.sql.streaming.minBatchesToRetain": "5",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
    }
    order = {
        "folder": str(folder), "queries": [QUERY], "workers": 2, "conf": {**stores, **conf},
        "configure": {"replicas": 1}, "provider": "cec", "seed": 3, "events": events,
        "checkpoints": url,
    }  # fmt: skip
    said = whole_life("cluster_events", order, folder, LIFE_S_MAX)
    assert [each["event"] for each in said if "event" in each] == events
    came, batches = output(folder / QUERY)
    assert batches > len(events)
    assert faults_of(QUERIES[QUERY], came, batches) == []
    assert all(event["warm"] for event in said if event.get("protocol") == "cpal")
    assert said[-1]["metrics"]["cecReplicaHits"] > 0
    where, options = web
    place = place_at(folder_at(f"{where}/{QUERY}/checkpoint", options))
    assert len(place.logs) == PARTITIONS
    assert verify_place(place, deep=True).is_sound


def test_replicas_of_state_on_hdfs(
    hdfs: Hdfs, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    web = (hdfs.web_url("replicas"), {"user": "root"})
    count = crash_count(len(EVENTS), 20)
    check_life(tmp_path, f"{hdfs.url}/replicas", {}, web, count)


def test_replicas_of_state_in_s3(
    s3_address: str, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    conf = s3a_settings(s3_address)
    # Machines have these jars already, as their image does: 600 MB that no executor fetches.
    path = conf.pop("spark.jars").replace(",", ":")
    conf |= dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), path)
    web = ("s3://bucket/replicas", options_of(s3_address))
    count = crash_count(len(EVENTS), 20)
    check_life(tmp_path, "s3a://bucket/replicas", conf, web, count)
