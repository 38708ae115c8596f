"""A verb says of a place in a store what it says of the local one, and writes nothing there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cec_store.storage.stores.by_url import store_at
from support.command_line.verify import run
from support.places import damaged_places as places
from support.stores.copies import contents, copy_into, in_memory
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of

need("fsspec")
MAKERS = {
    "queue": places.queue,
    "partitioned": places.partitioned,
    "store": places.store,
    "checkpoint": places.checkpoint,
    "checkpoint_v2": places.checkpoint_v2,
}
ALL = (["verify", "--deep"], ["extent", "--counts"], ["dump"])
OF_QUEUES = (["consumers"], ["trim"], ["replay", "--metadata"], ["trim", "--keep", "1B"])
OF_STATE = (["state"], ["changes", "{}", "2", "7"], ["diff", "{}", "--from", "3"])
VERBS = {
    "queue": (*ALL, *OF_QUEUES, ["state"], ["replay", "--since", "@300"]),
    "partitioned": (*ALL, *OF_QUEUES),
    "store": (*ALL, *OF_STATE, ["replay"]),
    "checkpoint": (*ALL, *OF_STATE, ["fork", "{}", "{}-new", "--batch", "5"]),
    "checkpoint_v2": (*ALL, *OF_STATE),
}
CASES = [(place, verb) for place, verbs in VERBS.items() for verb in verbs]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """Each place, and the URL of its copy."""
    root = tmp_path_factory.mktemp("whole")
    made = {name: make(root / name) for name, make in MAKERS.items()}
    return {name: (path, in_memory(path)) for name, path in made.items()}


def said(place: object, verb: list[str], *options: object) -> tuple[int, str]:
    """The exit status and the documents, without what is of this place or no other's."""
    arguments = [each.replace("{}", str(place)) for each in verb]
    arguments += [] if "{}" in verb else [str(place)]
    done = run(*arguments, "--json", *options)
    has_lines = verb[0] in ("dump", "replay")
    texts = done.stdout.splitlines() if has_lines else [done.stdout]
    documents = [json.loads(text) for text in texts if text]
    lines = [json.dumps(without(each)) for each in documents]
    return done.exit_code, "\n".join([*lines, done.stderr]).replace(str(place), "PLACE")


def without(found: Any) -> Any:
    """Without the index, which is no part of a copy, and what was linked and not copied."""
    left_out = ("index", "linked_files", "linked_bytes", "copied_files", "copied_bytes")
    if isinstance(found, dict):
        return {name: without(each) for name, each in found.items() if name not in left_out}
    return [without(each) for each in found] if isinstance(found, list) else found


@pytest.mark.parametrize(("place", "verb"), CASES, ids=str)
def test_a_verb_says_the_same_of_a_copy(
    whole: dict[str, tuple[Path, str]], place: str, verb: list[str]
) -> None:
    path, url = whole[place]
    before = contents(store_at(url))
    expected = said(path, verb)
    assert expected[0] == 0, expected
    assert said(url, verb) == expected
    assert contents(store_at(url)) == before


@pytest.mark.parametrize("place", MAKERS)
def test_a_report_of_a_copy_is_sound(whole: dict[str, tuple[Path, str]], place: str) -> None:
    path, url = whole[place]
    found = []
    for each in (path, url):
        done = run("report", each, "--json")
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout.replace(str(each), "PLACE")))
    names = ("sound", "kind", "totals", "verified")
    assert [found[1][name] for name in names] == [found[0][name] for name in names]


def test_damage_in_a_copy_is_named(whole: dict[str, tuple[Path, str]]) -> None:
    path, _ = whole["store"]
    url = in_memory(path)
    store = store_at(url)
    name = next(name for name in contents(store) if name.endswith(".seg"))
    data = bytearray(store.read(name))
    data[700] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])
    done = run("verify", url, "--json")
    assert done.exit_code == 1, done.output
    assert f"{url}/{name}" in {fault["path"] for fault in json.loads(done.stdout)["faults"]}


CHANGES = (
    ["trim", "--keep", "1B", "--yes"], ["consumers", "--add", "x", "--yes"],
    ["consumers", "--drop", "hourly", "--yes"], ["consumers", "--retention", "7d", "--yes"],
)  # fmt: skip


@pytest.mark.parametrize("verb", CHANGES, ids=str)
def test_what_a_store_cannot_do_is_refused_and_nothing_written(
    whole: dict[str, tuple[Path, str]], verb: list[str]
) -> None:
    path, url = whole["queue"]
    if verb[0] == "trim":  # of a queue of which something would go
        url = in_memory(path)
        store_at(url).delete([n for n in contents(store_at(url)) if n.startswith("consumer-")])
    before = contents(store_at(url))
    done = run(verb[0], url, *verb[1:])
    assert done.exit_code == 2, done.output
    assert "a store of objects has no" in done.stderr
    assert contents(store_at(url)) == before


def test_an_index_is_made_anew_in_the_cache(whole: dict[str, tuple[Path, str]]) -> None:
    _, url = whole["queue"]
    before = contents(store_at(url))
    for files in (0, 2):
        done = run("reindex", url, "--yes", "--json")
        assert done.exit_code == 0, done.output
        (log,) = json.loads(done.stdout)["logs"]
        assert len(log["files"]) == files
    assert contents(store_at(url)) == before


# -- options ----------------------------------------------------------------------------------


@pytest.fixture
def s3_options(s3_address: str) -> list[str]:
    given = {
        "key": "id", "secret": "secret", "endpoint_url": s3_address,
        "client_kwargs.region_name": "us-east-1", "config_kwargs": '{"connect_timeout": 5}',
    }  # fmt: skip
    return [part for n, v in given.items() for part in ("--storage-option", f"{n}={v}")]


def test_options_reach_the_store(
    whole: dict[str, tuple[Path, str]], s3_address: str, s3_options: list[str]
) -> None:
    path, _ = whole["checkpoint"]
    url = f"s3://{BUCKET}/verbs/checkpoint"
    copy_into(store_at(url, options_of(s3_address)), path)
    for verb in ("verify", "state", "dump"):
        assert run(verb, url, *s3_options).exit_code == 0
    done = run("diff", path, url, "--json", *s3_options)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["equal"] is True
    new = f"s3://{BUCKET}/verbs/new"
    done = run("fork", path, new, "--batch", 5, "--yes", *s3_options)
    assert done.exit_code == 0, done.output
    assert run("verify", new, *s3_options).exit_code == 0
    done = run("fork", url, new, "--batch", 5, "--yes", *s3_options)
    assert done.exit_code == 2
    assert "is there already" in done.stderr


def test_what_is_wrong_with_a_store_is_one_line(s3_options: list[str], tmp_path: Path) -> None:
    done = run("verify", "s3://no-such-bucket/q", *s3_options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no such bucket" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["nonsense"], "NAME=VALUE"),
        (["=x"], "NAME=VALUE"),
        (["a..b=x"], "NAME=VALUE"),
        (["a=1", "a.b=2"], "a has a value of its own"),
        (["anon=true"], "local files have no storage_options"),
    ],
)
def test_options_that_cannot_be_are_wrong_use(
    options: list[str], what: str, tmp_path: Path
) -> None:
    given = [part for each in options for part in ("--storage-option", each)]
    done = run("verify", tmp_path, *given)
    assert done.exit_code == 2
    assert what in " ".join(done.stderr.replace("│", " ").split())


def test_values_are_json_where_they_can_be() -> None:
    from cec_store.verbs.arguments import _storage_option, storage_options_of

    texts = ["anon=true", "a.b.c=5", "a.b.d=x=y", 'id="007"', "empty=", 'a.e={"f": [1]}']
    assert storage_options_of([_storage_option(text) for text in texts]) == {
        "anon": True,
        "a": {"b": {"c": 5, "d": "x=y"}, "e": {"f": [1]}},
        "id": "007",
        "empty": "",
    }
