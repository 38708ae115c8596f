"""`cec-store verify` on every kind of place: each damage found and named, and nothing touched."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.inspector.damage.faults import ADVICE
from support.command_line.verify import SCHEMA, document, run, state_of
from support.paths import DOCS
from support.places import damaged_places as places
from support.places import damaged_queues as made
from support.places.damaged_places import DAMAGES, Damage

Make = Callable[[Path], Path]
MAKERS = sorted({make for make, _ in DAMAGES}, key=lambda make: make.__name__)
each_kind = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


@pytest.fixture(scope="module", autouse=True)
def _quick_syncs():
    """That a sync is called is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    known: dict[Make, Path] = {}

    def place(make: Make) -> Path:
        if make not in known:
            known[make] = make(tmp_path_factory.mktemp(make.__name__) / "place")
        return known[make]

    return place


@each_kind
@pytest.mark.parametrize("options", [(), ("--records",), ("--deep",)])
def test_a_sound_place_is_sound(sound, make: Make, options: tuple[str, ...]) -> None:
    path = sound(make)
    before = state_of(path)
    found = document(path, *options)
    assert state_of(path) == before
    assert found["faults"] == []
    assert found["kind"] in make.__name__.replace("store", "state store")
    totals = found["totals"]
    assert totals["records"] == sum(log["figures"]["records"] for log in found["logs"]) > 100 / 2
    assert bool(totals["kinds"]) is bool(options)
    if make in (places.queue, places.store) and options:
        assert totals["recounted_frames"] == totals["frames"] > 10


@pytest.mark.parametrize(
    ("make", "damage"), DAMAGES, ids=[f"{m.__name__}-{d.__name__}" for m, d in DAMAGES]
)
def test_each_damage_is_found_and_named(sound, tmp_path: Path, make: Make, damage: Damage) -> None:
    path = made.copy(sound(make), tmp_path / "place")
    whole = document(path)
    due = damage(path)
    before = state_of(path)
    # What a later release wrote is not called damaged.
    status = 2 if due.kind == "version" else 1
    found = document(path, status=status)
    assert state_of(path) == before, "an inspection writes nothing"
    named = [f for f in found["faults"] if (f["kind"], f["path"]) == (due.kind, str(due.path))]
    assert named, [(f["kind"], f["path"], f["byte"], f["what"]) for f in found["faults"]]
    fault = named[0]
    if due.byte is not None:
        assert fault["byte"] == due.byte
    if due.log is not None:
        assert fault["log"] == due.log
    if due.versions is not None:
        assert (fault["first_version"], fault["last_version"]) == due.versions
    assert fault["acknowledged"] is (due.kind not in ("index", "spark-repartition"))
    assert len(found["faults"]) <= 6, "one damage, many faults"
    # What is sound is still shown, with the figures that it had.
    logs = {log["path"]: log for log in found["logs"]}  # names are what Spark noted, if it is there
    for log in whole["logs"]:
        shown = logs[log["path"]]
        if shown["sound"]:
            assert shown["figures"]["records"] == log["figures"]["records"]
        else:
            assert shown["name"] in {f["log"] for f in found["faults"]}
    assert found["totals"]["records"] >= whole["totals"]["records"] * 0.3
    shown_to_people = run("verify", path)
    assert shown_to_people.exit_code == status
    verdict = "newer than this release knows: " if status == 2 else "damaged: "
    assert shown_to_people.stdout.splitlines()[-1].startswith(verdict)
    assert_shown_by_others(path, due.kind, whole["totals"]["records"])
    assert state_of(path) == before, "an inspection writes nothing"


def assert_shown_by_others(path: Path, kind: str, records: int) -> None:
    """The other verbs show the rest as well."""
    assert run("extent", path).exit_code in (0, 1)
    dumped = run("dump", path, "--json")
    assert dumped.exit_code in (0, 1)
    if kind in ("frame-damaged", "segment-header", "manifest-missing", "manifest-damaged"):
        assert dumped.exit_code == 1
    rows = [json.loads(line) for line in dumped.stdout.splitlines()]
    assert sum(row["row"] == "record" for row in rows) >= records / 2


def test_there_are_many_kinds_of_damage() -> None:
    assert len({damage for _, damage in DAMAGES}) >= 40
    assert {make for make, _ in DAMAGES} == set(MAKERS)
    assert len(MAKERS) == 4


def test_every_kind_of_fault_is_explained() -> None:
    text = (DOCS / "inspection.md").read_text(encoding="utf-8")
    section = text.split("## What verify names, and what to do")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)
    assert sorted(explained) == sorted(ADVICE)
    assert SCHEMA["$defs"]["fault"]["properties"]["kind"]["enum"] == list(ADVICE)
