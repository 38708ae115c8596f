"""Checkpoints that are moved on a real HDFS and on a real S3 server, from place to place there."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.drivers.store_moves_job import FILES, LEGS
from support.spark.killed_runs import whole_life
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import at_full_size, need
from support.stores.s3_server import options_of
from support.stores.s3a import s3a_settings

need("fsspec", "requests")
pytestmark = at_full_size("a driver for each store")
LIFE_S_MAX = 900


def check_life(
    folder: Path, url: str, conf: dict[str, str], options: dict[str, Any], release: str
) -> None:
    """Every batch is as that of a query that stays, each state as the one before, and sound."""
    order = {
        "place": url, "storage_options": options, "conf": conf, "folder": str(folder),
        "release": release,
    }  # fmt: skip
    said = whole_life("store_moves_job", order, folder, LIFE_S_MAX)
    assert [each["leg"] for each in said] == [*LEGS]
    assert all(each["is_due"] for each in said)
    assert said[-1]["batches"] == FILES * len(LEGS)
    assert all(each["same"] and each["rows"] > 10 for each in said[1:])
    for name in ("old", *LEGS[1:]):
        found = verify_place(place_at(folder_at(f"{url}/{name}", options)))
        assert found.is_sound, found.faults


@pytest.mark.parametrize("release", ["rocksdb", "hdfs"])
def test_a_query_goes_on_wherever_it_is_moved_to_on_hdfs(
    hdfs: Hdfs, tmp_path: Path, release: str
) -> None:
    options = {"user": "root", "port": hdfs.http_port}
    check_life(tmp_path, f"{hdfs.url}/moves-{release}", {}, options, release)


@pytest.mark.parametrize("release", ["rocksdb", "hdfs"])
def test_a_query_goes_on_wherever_it_is_moved_to_in_s3(
    s3_address: str, tmp_path: Path, release: str
) -> None:
    conf = s3a_settings(s3_address)
    conf["spark.driver.extraClassPath"] = conf.pop("spark.jars").replace(",", ":")
    check_life(tmp_path, f"s3a://bucket/moves-{release}", conf, options_of(s3_address), release)
