"""Queues whose commits hold their rows, under the verbs: sound, and each damage by its byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cec_store.errors import CorruptLog
from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.opening import open_queue, read_queue
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.command_line.json_schemas import check
from support.command_line.verify import document, run
from support.places.verified_queues import COMMITS, flip, live, make, replace, rows
from support.stores.copies import contents, in_memory
from support.stores.needed import need

NAME = commit_object_name(3)
Harm = Callable[[Store, dict[str, Any]], tuple[str, int]]
"""Does something to the rows of commit 3, and returns the fault and its byte."""


@pytest.fixture(params=["local", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        need("fsspec")
    path = str(tmp_path / "q") if request.param == "local" else in_memory()
    make(path)
    assert not [name for name in contents(store_at(path)) if name.startswith("data/")]
    return path


def test_the_verbs_name_it_for_what_it_is(path: str, tmp_path: Path) -> None:
    before = contents(store_at(path))
    for verb in (["verify"], ["verify", "--records"], ["extent", "--counts"], ["report"]):
        done = run(*verb, path, "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        check(verb[0], found)
        assert (found["kind"], found["sound"]) == ("partitioned queue", True)
        assert found["totals"]["records"] == 400
        assert found["totals"]["bytes"] == sum(row["bytes"] for row in live(store_at(path)))
    assert contents(store_at(path)) == before


def test_replay_and_dump_show_all_rows(path: str) -> None:
    assert read_queue(path).read_all().sort_by("n") == rows(0, 400)
    lines = [json.loads(line) for line in run("dump", path, "--json").stdout.splitlines()]
    for line in lines:
        check("dump", line)
    records = [line["data"]["n"] for line in lines if line["row"] == "record"]
    assert sorted(records) == [*range(400)]
    assert {line["path"] for line in lines if line["row"] == "note"} == {
        f"{store_at(path).url}/{commit_object_name(number)}" for number in range(1, COMMITS)
    }


def test_a_dump_shows_the_frames_of_one_commit(path: str) -> None:
    done = run("dump", path, "--json", "--segment", "3")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    records = [line["data"]["n"] for line in lines if line["row"] == "record"]
    assert sorted(records) == [*range(100, 150)]


def flip_body(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    flip(store, NAME, row["byte"] + row["bytes"] - 1)
    return "body-checksum", row["byte"]


def flip_header(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    flip(store, NAME, row["byte"] + 20)
    return "frame-damaged", row["byte"]


def swap_partitions(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    """Put the frame of another partition in its place: the salt is another."""
    data = store.read(NAME)
    other = data[row["byte"] + row["bytes"] :][: row["bytes"]]
    before, behind = data[: row["byte"]], data[row["byte"] + row["bytes"] :]
    replace(store, NAME, before + other + behind)
    return "frame-damaged", row["byte"]


def cut(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    replace(store, NAME, store.read(NAME)[:-1])
    return "commit-damaged", 0


def add_a_byte(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    replace(store, NAME, store.read(NAME) + b"?")
    return "commit-damaged", 0


def lose(store: Store, row: dict[str, Any]) -> tuple[str, int]:
    store.delete([NAME])
    return "commit-missing", 0


def first_row(store: Store) -> dict[str, Any]:
    """Return the first segment of commit 3."""
    return min((row for row in live(store) if row["file"] == NAME), key=lambda row: row["byte"])


@pytest.mark.parametrize("harm", [flip_body, flip_header, swap_partitions, cut, add_a_byte, lose])
def test_damage_is_named_with_object_and_byte(path: str, harm: Harm) -> None:
    store = store_at(path)
    kind, byte = harm(store, first_row(store))
    found = document(path, status=1)  # type: ignore[arg-type]
    faults = [(fault["kind"], fault["byte"]) for fault in found["faults"]]
    paths = {fault["path"] for fault in found["faults"]}
    assert (kind, byte) in faults, found["faults"]
    assert paths == {f"{store.url}/{NAME}"}


@pytest.mark.parametrize("harm", [flip_body, flip_header, swap_partitions])
def test_who_reads_is_refused_and_a_dump_goes_on(path: str, harm: Harm) -> None:
    """The commit is sound, so the queue goes on and only these rows cannot be read."""
    store = store_at(path)
    harm(store, first_row(store))
    with pytest.raises(CorruptLog, match=NAME):
        read_queue(path).read_all()
    done = run("dump", path, "--json")
    assert done.exit_code == 1
    shown = sum(json.loads(line)["row"] == "record" for line in done.stdout.splitlines())
    assert 350 <= shown < 400
    with open_queue(path, "a", partitions=3) as queue:
        queue.append(rows(400, 50))
        assert sum(queue.ends().values()) == 450


def test_rows_beside_a_damaged_frame_of_their_commit_are_said_to_be_readable(path: str) -> None:
    """The chain CRC is broken for the whole object; readers of other partitions do not go by it."""
    store = store_at(path)
    flip(store, NAME, first_row(store)["byte"] + 20)
    found = document(path, status=1)  # type: ignore[arg-type]
    beside = [fault for fault in found["faults"] if "no record is lost" in fault["effect"]]
    assert len(beside) == 2, "the two other partitions"


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_merging_and_going_on_keeps_the_rows_and_verify_is_content(
    kind: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "q") if kind == "local" else in_memory()
    make(path)
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        assert queue.merge() > 3
        queue.append(rows(400, 50))
    store = store_at(path)
    files = {row["file"].split("/")[0] for row in live(store)}
    assert files == {"data", "log"}
    assert document(path, "--records")["totals"]["records"] == 450  # type: ignore[arg-type]
    assert min(row["bytes"] for row in live(store)) > FRAME_HEADER_BYTES
