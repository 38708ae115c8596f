"""A fleet of which all is in S3: its folder, its queries' checkpoints, its queues."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.drivers.fleet_store_job import ROWS
from support.fleets import diamond
from support.spark.jobs import run_job
from support.stores.needed import at_full_size
from support.stores.s3_server import BUCKET
from support.stores.s3a import s3a_settings

pytestmark = at_full_size("six queries in S3, some minutes")
TIMEOUT_S = 900


@pytest.fixture
def in_environment(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python's client of S3 needs, as a cluster's nodes have it."""
    said = {
        "AWS_ENDPOINT_URL": s3_address,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in said.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("in_environment")
def test_a_fleet_lives_in_a_store_and_goes_back_there(s3_address: str, tmp_path: Path) -> None:
    url = f"s3a://{BUCKET}/fleets"
    conf = s3a_settings(s3_address)
    said = run_job("fleet_store_job", tmp_path, TIMEOUT_S, url=url, conf=conf)
    first, between, second, back = said
    assert first["state"] == "running"
    assert between["state"] == "stopped"
    assert second["batch"] >= 1
    # What a rollback that was killed had left is not taken for a checkpoint.
    assert (back["generation"], back["is_left"]) == (1, False)
    assert (back["state"], back["queries"]) == ("running", len(diamond.NAMES))
    assert back["offsets"] >= 1
    assert diamond.differences(url, 2 * ROWS) == []
