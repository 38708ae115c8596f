"""What a fleet's folder holds: written and read again, and refused where it is damaged."""

import json
from pathlib import Path

import pytest

from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.costs import QueryCost
from cec_store.connectors.spark.fleet.declaration import Query
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.notes import (
    ELSEWHERE,
    GlobalCheckpoint,
    GoingBack,
    Notes,
    QueryNotes,
)
from cec_store.connectors.spark.fleet.recovery import Outage, Situation
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.errors import CorruptLog, NoGlobalCheckpoint, NotAFleet, UnsupportedVersion

NOTES = Notes(
    fleet_id="ab" * 16,
    declared=(
        Query("a", "m:f", ("/in",), "/a", 3, "update", 1.5, 0.25, {"x": "1"}, {"y": "2"}),
        Query("b", "m:f", ("/a", "/in"), "/b"),
    ),
    rules=Rules(cap=0.5),
    generation=2,
    situation=Situation(
        {"0": 1.0, "4": 2.0}, 6.0, 4, 3, Outage(12.5, 6.0, ("a",), (13.0, 15.5), 0.5)
    ),
    queries={
        "a": QueryNotes(
            QueryCost(1.0, 10.0, 0.5, 99.0), Failures(2, 7.0, "why"), ("/in",), 17, True, "x"
        ),
        "b": QueryNotes(),
    },
    going_back=GoingBack(4, 3),
    spark={"spark.master": "local[2]"},
    written_s=17.25,
)


def checkpoint(number: int, at_us: int = 0) -> GlobalCheckpoint:
    return GlobalCheckpoint(
        number, at_us, 0, {"a": 3, "b": None}, {"/a": 7, "/b": 0}, {"/in": (5, 6), "/a": ()}
    )


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    found = FleetFolder(tmp_path / "fleet")
    found.make()
    return found


def test_notes_come_back_as_they_were(folder: FleetFolder) -> None:
    folder.write(NOTES)
    assert folder.read() == NOTES
    assert NOTES.costs() == {"a": 0.25}
    assert NOTES.consumer == "fleet-" + "ab" * 8


def test_a_function_that_only_its_process_knows_is_named_by_nobody(folder: FleetFolder) -> None:
    folder.write(Notes("ab" * 16, (Query("a", lambda rows: rows, ("/in",), "/a"),)))
    assert folder.read().declared[0].function == ELSEWHERE


def test_global_checkpoints_are_kept_and_found_by_moment(folder: FleetFolder) -> None:
    for number in range(6):
        folder.add_checkpoint(checkpoint(number, 100 * number), kept=4)
    assert folder.checkpoints() == [2, 3, 4, 5]
    assert folder.newest_checkpoint() == checkpoint(5, 500)
    assert folder.checkpoint_at(399) == checkpoint(3, 300)
    with pytest.raises(NoGlobalCheckpoint, match="so old"):
        folder.checkpoint_at(199)
    with pytest.raises(NoGlobalCheckpoint, match="no global checkpoint 0; there are 2, 3, 4, 5"):
        folder.checkpoint(0)
    folder.drop_checkpoints(above=3)
    assert folder.checkpoints() == [2, 3]


@pytest.mark.parametrize("name", ["fleet.json", "checkpoints/000000000001.json"])
def test_each_damage_is_named(folder: FleetFolder, name: str) -> None:
    folder.write(NOTES)
    folder.add_checkpoint(checkpoint(1), kept=4)
    path = Path(folder.path) / name

    def read() -> None:
        folder.read()
        folder.checkpoint(1)

    read()
    whole = path.read_text()
    for damaged in (whole[: len(whole) // 2], "[]", "\xff", whole.replace('"b"', '"c', 1)):
        path.write_text(damaged, "latin-1")
        with pytest.raises(CorruptLog, match=str(path)):
            read()
    said = json.loads(whole)
    for key in said.keys() - {"version", "number", "at_us", "generation", "fleet_id", "written_s"}:
        path.write_text(json.dumps({**said, key: 17}))
        with pytest.raises(CorruptLog, match="says what cannot be"):
            read()
    path.write_text(json.dumps({**said, "version": 2}))
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        read()


def test_a_folder_without_notes_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(NotAFleet, match=r"fleet\.json"):
        FleetFolder(tmp_path).read()
    with pytest.raises(NotAFleet):
        FleetFolder(tmp_path / "nowhere").read()
