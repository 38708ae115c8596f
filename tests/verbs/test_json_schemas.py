"""Documents of the verbs against the schemas in docs/json, over every kind of place."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.opening import open_queue
from support.command_line.json_schemas import check
from support.places import damaged_queues as made
from support.places.checkpoints import Made
from support.places.made_checkpoints import grown
from support.places.partitioned_queues import commit, rows

OUTER = {"path", "kind", "sound", "logs", "totals"}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("places")
    paths = {name: folder / name for name in ("queue", "damaged", "partitioned", "checkpoint",
                                              "lost", "forkable")}  # fmt: skip
    made.make_operator_queue(paths["queue"], 300)
    with open_queue(paths["queue"]) as queue:
        queue.consumer("hourly").close()
    made.copy(paths["queue"], paths["damaged"])
    made.flip(paths["damaged"] / "consumer-hourly.ack", 40)
    segment = made.segment(paths["damaged"], 0)
    made.flip(segment, made.batches(segment)[3][0] + 140)
    commit(paths["partitioned"], 0, {0: rows(0, 3), 1: rows(10, 2)})
    with open_queue(paths["partitioned"], "a", partitions=2) as queue:
        queue.consumer("hourly")
    grown(paths["checkpoint"])
    grown(paths["lost"], beside={(2, b"x"): b"y"})
    for segment in (paths["lost"] / "state" / "0" / "1").glob("*.seg"):
        made.flip(segment, segment.stat().st_size - 3)
    Made(paths["forkable"]).run(8)
    return {**paths, "store": paths["checkpoint"] / "state" / "0" / "1"}


def documents(verb: str, *arguments: object) -> tuple[int, list[Any]]:
    result = CliRunner().invoke(app, [verb, *map(str, arguments), "--json"])
    assert "Traceback" not in result.output
    if verb in ("dump", "replay"):
        return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]
    return result.exit_code, [json.loads(result.stdout)] if result.stdout else []


CASES: list[tuple[int, str, str, tuple[object, ...]]] = [
    *((status, "dump", name, ()) for status, name in (
        (0, "queue"), (1, "damaged"), (0, "partitioned"), (0, "checkpoint"), (0, "store"),
        (1, "lost"))),
    *((status, "state", name, ()) for status, name in (
        (0, "queue"), (0, "checkpoint"), (0, "store"), (1, "lost"))),
    (0, "state", "queue", ("--at", "@0")),
    (0, "changes", "queue", ("@0", "@50")),
    (0, "changes", "checkpoint", (0, 4)),
    (0, "changes", "store", (2, 4)),
    (1, "changes", "lost", (1, 6)),
    (0, "diff", "queue", ("--from", "@0")),
    (0, "diff", "checkpoint", ("--from", 2)),
    (0, "diff", "store", ("--from", 2)),
    (1, "diff", "lost", ("--from", 2)),
    *((status, verb, name, more) for verb in ("trim", "reindex", "consumers")
      for status, name, more in (
        (0, "queue", ()), (0, "partitioned", ()), (0 if verb == "reindex" else 1, "damaged", ()))
      if (verb, name) != ("reindex", "partitioned")),
    (0, "consumers", "queue", ("--drop", "hourly")),
    (0, "consumers", "damaged", ("--drop", "hourly")),
    (0, "consumers", "partitioned", ("--drop", "hourly")),
    (0, "replay", "queue", ()),
    (0, "replay", "partitioned", ("--metadata",)),
    (0, "replay", "store", ()),
]  # fmt: skip


@pytest.mark.parametrize(("status", "verb", "place", "more"), CASES)
def test_documents_are_as_their_schema_says(
    places: dict[str, Path], status: int, verb: str, place: str, more: tuple[object, ...]
) -> None:
    before = made.hash_of(places[place])
    found, said = documents(verb, places[place], *more)
    assert found == status
    assert said
    for document in said:
        check(verb, document)
    if verb != "replay":
        assert said[-1].keys() >= OUTER
        assert said[-1]["sound"] is (status == 0)
        assert said[-1]["path"] == str(places[place])
    assert made.hash_of(places[place]) == before, "nothing is written without --yes"


def test_fork_is_as_its_schema_says(places: dict[str, Path], tmp_path: Path) -> None:
    for more in ((), ("--yes",)):
        status, (document,) = documents("fork", places["forkable"], tmp_path / "new",
                                        "--batch", 6, *more)  # fmt: skip
        assert (status, document["done"]) == (0, bool(more))
        check("fork", document)
        assert (tmp_path / "new").exists() is bool(more)


@pytest.mark.parametrize(
    ("verb", "more"),
    [("dump", ()), ("state", ()), ("changes", ("@0", "@9")), ("diff", ("--from", "@0")),
     ("trim", ()), ("reindex", ()), ("consumers", ())],
)  # fmt: skip
def test_schemas_refuse_other_documents(
    places: dict[str, Path], verb: str, more: tuple[object, ...]
) -> None:
    *_, document = documents(verb, places["queue"], *more)[1]
    check(verb, document)
    for name in document:
        with pytest.raises(jsonschema.ValidationError):
            check(verb, {key: value for key, value in document.items() if key != name})
    for broken in (
        {**document, "surprise": 1},
        {**document, "kind": "file"},
        {**document, "logs": [{**log, "surprise": 1} for log in document["logs"]]},
        {**document, "totals": {**document["totals"], "logs": -1}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(verb, broken)
