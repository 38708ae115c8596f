"""`replay` and `dump` of a queue of many partitions; verbs that are refused a place."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.verbs.upkeep import by_reference
from support.places import damaged_queues as made
from support.places.made_checkpoints import grown
from support.places.partitioned_queues import commit, contents, rows


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def partitioned(path: Path) -> Path:
    for batch in range(4):
        commit(path, batch, {n: rows(100 * n + 2 * batch, 2) for n in range(3)})
    return path


def document(*arguments: object, status: int = 0) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def test_replay_of_many_partitions_has_no_follow(tmp_path: Path) -> None:
    queue = partitioned(tmp_path / "queue")
    result = run("replay", queue, "--follow")
    assert (result.exit_code, "dump --follow" in result.stderr) == (2, True)
    assert run("replay", queue, "--since", "@3").exit_code == 2
    assert len(run("replay", queue, "--limit", 5, "--json").stdout.splitlines()) == 5


def test_dump_of_many_partitions_names_each(tmp_path: Path) -> None:
    queue = partitioned(tmp_path / "queue")
    lines = [json.loads(line) for line in run("dump", queue, "--json").stdout.splitlines()]
    names = [row["name"] for row in lines if row["row"] == "log"]
    assert names == ["partition 0", "partition 1", "partition 2"]
    numbers = [row["data"]["n"] for row in lines if row["row"] == "record" and "n" in row["data"]]
    assert numbers == [n for part in contents(queue).values() for n in part]


def test_a_trim_of_partitions_says_who_holds_it_and_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = partitioned(tmp_path / "queue")
    assert run("consumers", queue, "--add", "late", "--yes").exit_code == 0
    looks = []
    read = by_reference.limits
    monkeypatch.setattr(by_reference, "limits", lambda *a: looks.append(a) or read(*a))
    found = document("trim", queue, "--before", "2999-01-01")
    assert [log["held_by"] for log in found["logs"]] == [["late"]] * 3
    assert [log["segments"] for log in found["logs"]] == [0] * 3
    assert len(looks) == 1
    assert (
        "consumer 'late' needs the oldest segment that stays"
        in run("trim", queue, "--before", "2999-01-01").stdout
    )
    assert run("consumers", queue, "--drop", "late", "--yes").exit_code == 0
    found = document("trim", queue, "--before", "2999-01-01")
    assert [log["held_by"] for log in found["logs"]] == [[]] * 3
    assert [log["records"] for log in found["logs"]] == [8] * 3


@pytest.mark.parametrize("verb", ["consumers", "trim", "reindex"])
def test_state_is_no_queue(tmp_path: Path, verb: str) -> None:
    grown(tmp_path)
    before = made.hash_of(tmp_path)
    for path in (tmp_path, tmp_path / "state" / "0" / "0"):
        result = run(verb, path, *(["--yes"] if verb != "consumers" else []))
        assert result.exit_code == 2
        text = " ".join(result.stderr.split())
        assert "Spark's own maintenance" in text
    assert made.hash_of(tmp_path) == before


def test_checkpoint_has_no_output_to_replay(tmp_path: Path) -> None:
    grown(tmp_path)
    result = run("replay", tmp_path)
    assert (result.exit_code, "cec-store changes" in result.stderr) == (2, True)
