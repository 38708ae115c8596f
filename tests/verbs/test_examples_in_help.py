"""Each help ends with an example, and each example runs where there is what it names."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER_KEY
from support.fleets.walks import Walk
from support.places import damaged_queues as made
from support.places.checkpoints import Made
from support.places.made_checkpoints import grown

IN_SPARK = {
    "adopt", "release", "repartition", "compare", "standby", "demo", "spark", "spark conf",
    "spark jar", "fleet run", "fleet watch", "standby spark", "standby node", "standby switch",
    "standby pause", "standby resume", "standby wait",
}  # fmt: skip
"""Their words are parsed here; other suites run them, because they start a Spark, compile, or need
nodes that run."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield all commands by their words, but the program itself."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    waiting = [(name, root.get_command(context, name)) for name in root.list_commands(context)]
    while waiting:
        words, command = waiting.pop()
        yield words, command
        names = command.list_commands(context) if hasattr(command, "list_commands") else []
        waiting += [(f"{words} {name}", command.get_command(context, name)) for name in names]


COMMANDS = dict(commands())
_QUERIES = {"totals": "c"}


def example_of(words: str) -> list[str]:
    head, _, text = str(COMMANDS[words].epilog).partition("Example: cec-store ")
    assert head == ""
    return shlex.split(text)


def run_words(words: str) -> list[str]:
    """The example, with a query that the fleet made here has."""
    return [_QUERIES.get(word, word) for word in example_of(words)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("examples")
    made.make_operator_queue(root / "queues" / "totals", 300)
    grown(root / "checkpoints" / "totals")
    Made(root / "checkpoints" / "old", conf={PROVIDER_KEY: BUILT_IN["rocksdb"]}).run(3)
    walk = Walk(tmp_path_factory.mktemp("fleets"), 1)
    walk.until_checkpoint()
    walk.fail()
    shutil.copytree(walk.folder / "fleet", root / "fleets" / "sales")
    return root


def test_there_are_examples_of_all() -> None:
    assert len(COMMANDS) > 30
    for words in COMMANDS:
        example = " ".join(example_of(words))
        assert example.startswith(words), words


@pytest.mark.parametrize("words", sorted(set(COMMANDS) - IN_SPARK))
def test_an_example_runs(words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, run_words(words))
    assert "Traceback" not in result.output
    assert result.exit_code == 0, result.output
    assert result.stdout


@pytest.mark.parametrize("words", sorted(IN_SPARK))
def test_an_example_that_needs_spark_has_options_and_arguments_that_exist(words: str) -> None:
    example = example_of(words)
    command, rest = app_command(example)
    command.make_context(" ".join(example), rest)


def app_command(example: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words name, and the words behind it."""
    count = max(n for n in (1, 2) if " ".join(example[:n]) in COMMANDS)
    return COMMANDS[" ".join(example[:count])], example[count:]


def test_an_example_stands_in_its_help() -> None:
    for words in ("extent", "fleet run", "spark"):
        text = CliRunner().invoke(app, [*words.split(), "--help"]).output
        assert "Example: cec-store" in text


def test_json_of_an_example_is_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [*example_of("size"), "--json"])
    assert json.loads(result.stdout)["keys"] == 10_000_000
