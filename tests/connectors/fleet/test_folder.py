"""What a fleet's folder holds: written and read again, and refused where it is damaged."""

import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.costs import QueryCost
from cec_store.connectors.spark.fleet.declaration import Query
from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.fleet.functions import ELSEWHERE
from cec_store.connectors.spark.fleet.notes import (
    GlobalCheckpoint,
    GoingBack,
    Notes,
    QueryNotes,
)
from cec_store.connectors.spark.fleet.outer import OuterLag, Sink, Source
from cec_store.connectors.spark.fleet.recovery import Outage, Situation
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.errors import CorruptLog, Fenced, NoGlobalCheckpoint, NotAFleet, UnsupportedVersion

NOTES = Notes(
    fleet_id="ab" * 16,
    declared=(
        Query("a", "m:f", ("/in",), "/a", 3, "update", 1.5, 0.25, {"x": "1"}, {"y": "2"}),
        Query("b", "m:f", ("/a", "/in"), "/b"),
        Query(
            "c",
            "m:f",
            (),
            "",
            sources=(Source("kafka", {"subscribe": "t"}, "v int", True),),
            sink=Sink("parquet", {"path": "/p"}),
        ),
        Query("d", "m:f", ("/a",), "", sink=Sink(foreach_batch="m:g")),
    ),
    rules=Rules(cap=0.5),
    generation=2,
    situation=Situation(
        {"0": 1.0, "4": 2.0},
        6.0,
        4,
        3,
        Outage(12.5, 6.0, ("a",), (13.0, 15.5), 0.5),
        ("b", "a"),
    ),
    queries={
        "a": QueryNotes(
            QueryCost(1.0, 10.0, 0.5, 99.0), Failures(2, 7.0, "why"), ("/in",), 17, True, "x"
        ),
        "b": QueryNotes(),
        "c": QueryNotes(outer_lags=(OuterLag("KafkaV2[t]", 7), OuterLag("Rate", None))),
    },
    going_back=GoingBack(4, 3, {"queues/a": {"retention": "7d"}}),
    spark={"spark.master": "local[2]"},
    written_s=17.25,
)


def checkpoint(number: int, at_us: int = 0) -> GlobalCheckpoint:
    return GlobalCheckpoint(
        number,
        at_us,
        0,
        {"a": 3, "b": None},
        {"/a": 7, "/b": 0},
        {"/in": (5, 6), "/a": ()},
        {"/a": "a1", "/b": "", "/in": "b2"},
    )


FIRST = "notes/000000000000.json"


@pytest.fixture(params=["disk", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> FleetFolder:
    if request.param == "disk":
        return FleetFolder(tmp_path / "fleet")
    pytest.importorskip("fsspec")
    return FleetFolder(f"memory://{secrets.token_hex(8)}/fleet")


@pytest.fixture
def on_disk(tmp_path: Path) -> FleetFolder:
    return FleetFolder(tmp_path / "fleet")


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


def test_a_checkpoint_is_recorded_once_and_again_for_another_generation(
    folder: FleetFolder,
) -> None:
    folder.add_checkpoint(checkpoint(3), kept=4)
    # By one who has found the end of somebody who was killed.
    folder.add_checkpoint(checkpoint(3), kept=4)
    with pytest.raises(FileExistsError):
        folder.add_checkpoint(checkpoint(3, at_us=1), kept=4)
    assert folder.checkpoint(3) == checkpoint(3)
    after = replace(checkpoint(3), generation=1)
    folder.add_checkpoint(after, kept=4)
    assert folder.checkpoint(3) == after
    assert folder.checkpoints() == [3]
    folder.drop_checkpoints(above=2)
    assert folder.checkpoints() == []


def test_what_one_who_slept_through_a_rollback_records_is_no_checkpoint(
    folder: FleetFolder,
) -> None:
    for number in range(4):
        folder.add_checkpoint(checkpoint(number), kept=9)
    folder.drop_checkpoints(above=2)
    back = replace(checkpoint(2), generation=1)
    folder.add_checkpoint(back, kept=9)
    folder.add_checkpoint(checkpoint(3), kept=9)
    assert folder.checkpoints() == [0, 1, 2]
    assert folder.newest_checkpoint() == back
    after = replace(checkpoint(3), generation=1)
    folder.add_checkpoint(after, kept=9)
    assert folder.newest_checkpoint() == after


def test_who_was_asleep_during_a_takeover_writes_nothing_over_the_notes(
    folder: FleetFolder,
) -> None:
    asleep, successor = folder, FleetFolder(folder.path)
    asleep.write(NOTES)
    theirs = replace(successor.read(), generation=NOTES.generation + 1)
    successor.write(theirs, lambda: None)

    def taken() -> None:
        raise Fenced(folder.path)

    with pytest.raises(Fenced):
        asleep.write(NOTES, taken)
    assert folder.read() == theirs
    # Nobody's yet: of two who make it, one has.
    with pytest.raises(FileExistsError):
        asleep.write(NOTES)


def test_a_successor_writes_behind_what_came_in_between(folder: FleetFolder) -> None:
    before, successor = folder, FleetFolder(folder.path)
    before.write(NOTES)
    successor.write(NOTES, lambda: None)
    before.write(NOTES, lambda: None)
    last = replace(NOTES, generation=7)
    successor.write(last, lambda: None)
    assert before.read() == last


def test_a_few_versions_of_the_notes_are_kept(folder: FleetFolder) -> None:
    for number in range(40):
        folder.write(replace(NOTES, generation=number))
        assert FleetFolder(folder.path).read().generation == number
    assert 8 <= len(folder._versions()) <= 16


def test_a_reader_goes_on_to_newer_notes_where_its_own_were_deleted(
    folder: FleetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(NOTES)
    reader = FleetFolder(folder.path)
    listed = reader._versions()
    for number in range(20):
        folder.write(replace(NOTES, generation=number))
    answers = iter([listed, *[folder._versions()] * 2])
    monkeypatch.setattr(reader, "_versions", lambda: next(answers))
    assert reader.read().generation == 19


def test_a_wish_to_stop_is_there_until_it_is_withdrawn(folder: FleetFolder) -> None:
    assert not folder.requests().is_stop_asked
    folder.withdraw(STOP)
    for _ in range(2):
        folder.ask(STOP)
        assert folder.requests().is_stop_asked
    folder.withdraw(STOP)
    assert not folder.requests().is_stop_asked


def test_a_fleet_of_the_first_layout_goes_on(on_disk: FleetFolder) -> None:
    """Its notes were one file, replaced each time, and its checkpoints had a number alone."""
    on_disk.write(NOTES)
    on_disk.add_checkpoint(checkpoint(4), kept=4)
    root = Path(on_disk.path)
    (root / FIRST).rename(root / "fleet.json")
    (root / "checkpoints/000000000004-0.json").rename(root / "checkpoints/000000000004.json")
    found = FleetFolder(root)
    assert found.is_there()
    assert found.read() == NOTES
    assert found.checkpoint(4) == checkpoint(4)
    found.write(replace(NOTES, generation=9), lambda: None)
    assert FleetFolder(root).read().generation == 9


@pytest.mark.parametrize("name", [FIRST, "checkpoints/000000000001-0.json"])
def test_each_damage_is_named(on_disk: FleetFolder, name: str) -> None:
    folder = on_disk
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
    for key in said.keys() - {
        "version",
        "number",
        "at_us",
        "generation",
        "fleet_id",
        "written_s",
        "checkpointed_us",
        "write_id",
    }:
        path.write_text(json.dumps({**said, key: 17}))
        with pytest.raises(CorruptLog, match="says what cannot be"):
            read()
    path.write_text(json.dumps({**said, "version": 2}))
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        read()


def test_a_folder_without_notes_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(NotAFleet, match="a folder 'notes'"):
        FleetFolder(tmp_path).read()
    with pytest.raises(NotAFleet):
        FleetFolder(tmp_path / "nowhere").read()
