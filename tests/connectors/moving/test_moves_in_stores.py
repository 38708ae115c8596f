"""Checkpoints that are moved on a real HDFS and on a real S3 server, from place to place there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from cec_store import read_state
from cec_store.connectors import spark as cec_spark
from cec_store.errors import NotACheckpoint
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.drivers.store_moves_job import FILES, LEGS, QUERY
from support.spark.killed_runs import whole_life
from support.spark.moves import KILLS, Leg, go, kill_one
from support.spark.runs import Kept
from support.spark.session import HDFS
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import at_full_size, need
from support.stores.s3_server import BUCKET, options_of
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


def _conf_of(s3_address: str) -> dict[str, str]:
    conf = s3a_settings(s3_address)
    conf["spark.driver.extraClassPath"] = conf.pop("spark.jars").replace(",", ":")
    return conf


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
    conf, options = _conf_of(s3_address), options_of(s3_address)
    check_life(tmp_path, f"s3a://{BUCKET}/moves-{release}", conf, options, release)


def test_killed_in_a_store_it_is_done_or_no_checkpoint(
    spark: Any, tmp_path: Path, s3_address: str, tally: Callable[[int], None]
) -> None:
    """Where nothing can be renamed, what makes a checkpoint of the new folder is written last."""
    old = go(spark, QUERY, tmp_path, Kept(HDFS), [Leg(2)]).checkpoints[0]
    conf, options = _conf_of(s3_address), options_of(s3_address)
    cec_spark.adopt(spark, old, tmp_path / "ours")
    due = _sorted(read_state(tmp_path / "ours"))
    whole = unfinished = 0
    for kill in range(KILLS):
        place = f"s3a://{BUCKET}/killed-{kill}"
        kill_one(old, place, tmp_path / "job", "adopt", kill, conf, options)
        for new in folder_at(place, options).folders():
            try:
                assert _sorted(read_state(f"{place}/{new}", storage_options=options)) == due
                whole += 1
            except NotACheckpoint:
                unfinished += 1
    assert whole >= 3 * KILLS
    assert unfinished > 0, "no move was under way when it was killed"
    tally(KILLS)


def _sorted(state: pa.Table) -> list[str]:
    return sorted(map(repr, state.to_pylist()))
