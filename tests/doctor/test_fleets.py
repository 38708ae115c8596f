"""Fleets that need somebody: by their driver, their queries and what these keep. Reads only."""

import json
from pathlib import Path

import pytest

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER_KEY
from cec_store.doctor.checkups import place_checkup
from cec_store.doctor.diagnoses import Checkup, Severity
from cec_store.standby.leases import KeepAlive, leases_of
from support.fleets.walks import Walk
from support.places.damaged_queues import hash_of

HERE = {"PATH": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a fleet in the middle of a recovery, of which no driver holds the lease."""
    walk = Walk(tmp_path, 1)
    walk.until_checkpoint()
    walk.fail()
    return walk.folder / "fleet"


def look(folder: Path) -> Checkup:
    before = hash_of(folder)
    checkup = place_checkup(str(folder), None, {}, HERE)
    assert hash_of(folder) == before, "nothing is written"
    return checkup


def test_a_fleet_names_each_checkpoint_and_queue_of_its_queries(folder: Path) -> None:
    checkup = look(folder)
    assert checkup.kind == "fleet"
    places = {line.place for line in checkup.diagnoses} - {""}
    fleet = FleetFolder(folder)
    notes = fleet.read()
    assert {fleet.checkpoint_of(query.name, 0) for query in notes.declared} <= places
    assert {query.writes for query in notes.declared} <= places


def test_a_fleet_whose_driver_fell_silent(folder: Path) -> None:
    lease = leases_of(folder).hold("driver", holder="n1", keep_alive=KeepAlive(period_s=0.02))
    lease.abandon()
    (line,) = [line for line in look(folder).faults if line.subject == "lease"]
    assert "n1, tenure 1, gives no sign of life" in line.what
    assert "start the query again" in line.advice


def test_a_fleet_that_waits_for_executors(folder: Path) -> None:
    rule = KeepAlive(period_s=0.1, misses=40)
    with leases_of(folder).hold("driver", holder="n1", keep_alive=rule):
        checkup = place_checkup(str(folder), None, {}, HERE)
    lines = [line for line in checkup.diagnoses if line.subject == "fleet"]
    assert [line.severity for line in lines] == [Severity.SOUND, Severity.NOTE]
    assert "it waits for executors" in lines[1].what
    assert "bring executors back" in lines[1].advice


def test_a_query_of_a_fleet_that_goes_on_with_rocksdb(folder: Path) -> None:
    fleet = FleetFolder(folder)
    name = fleet.read().declared[0].name
    offsets = sorted(Path(fleet.checkpoint_of(name, 0), "offsets").glob("[0-9]*"))
    assert offsets
    for file in offsets:
        version, first, *rest = file.read_text().split("\n")
        document = json.loads(first)
        document["conf"] = {PROVIDER_KEY: BUILT_IN["rocksdb"]}
        file.write_text("\n".join([version, json.dumps(document), *rest]))
    state = Path(fleet.checkpoint_of(name, 0), "state", "0", "0")
    state.mkdir(parents=True, exist_ok=True)
    faults = [line for line in look(folder).faults if line.subject == "provider"]
    assert [line.place for line in faults] == [fleet.checkpoint_of(name, 0)]


def test_a_fleet_whose_notes_are_damaged(folder: Path) -> None:
    newest = max((folder / "notes").glob("*.json"))
    newest.write_text("{")
    (line,) = [line for line in look(folder).faults if line.subject == "damage"]
    assert newest.name in line.what
