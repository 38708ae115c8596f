"""Bars of progress: late, on a terminal only, and never beside JSON."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, ProgressColumn
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from cec_store.storage.local import LocalFolder
from cec_store.terminal import screens
from cec_store.terminal.screens import Screen
from support.places import damaged_queues as made

Block = Callable[[Screen, Path], AbstractContextManager[Any]]
BLOCKS: dict[str, Block] = {
    "waiting": lambda screen, _: screen.waiting("moving state"),
    "bytes": lambda screen, folder: screen.bytes_progress("moving state", LocalFolder(folder)),
}


def shown(block: Block, folder: Path, is_terminal: bool, runs_s: float, **options: bool) -> str:
    screen, text = Screen(**options), io.StringIO()
    screen.error = Console(file=text, force_terminal=is_terminal, width=80)
    with block(screen, folder):
        time.sleep(runs_s)
    return text.getvalue()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_bar_comes_on_a_terminal_once_the_work_takes_long(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "BAR_AFTER_S", 0.05)
    assert "moving state" in shown(BLOCKS[name], tmp_path, True, 0.5)
    monkeypatch.setattr(screens, "BAR_AFTER_S", 30.0)
    assert shown(BLOCKS[name], tmp_path, True, 0.0) == ""


@pytest.mark.parametrize("name", BLOCKS)
def test_there_is_none_in_a_pipe_and_none_beside_json(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "BAR_AFTER_S", 0.0)
    assert shown(BLOCKS[name], tmp_path, False, 0.2) == ""
    assert shown(BLOCKS[name], tmp_path, True, 0.2, has_bars=False) == ""


def fail(screen: Screen) -> None:
    with screen.waiting("moving state"):
        time.sleep(0.2)
        raise ValueError("in the middle")


def test_a_bar_goes_where_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "BAR_AFTER_S", 0.0)
    screen, text = Screen(), io.StringIO()
    screen.error = Console(file=text, force_terminal=True, width=80)
    with pytest.raises(ValueError, match="in the middle"):
        fail(screen)
    written = text.getvalue()
    time.sleep(0.3)
    assert text.getvalue() == written
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor is back


@pytest.mark.parametrize("verb", ["verify", "extent", "reindex"])
def test_verbs_ask_for_none_beside_json(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "BAR_AFTER_S", 0.0)
    monkeypatch.setattr(Console, "is_terminal", True)
    path = tmp_path / "q"
    with open_queue(path, "a", schema=made.trips(1).schema) as queue:
        queue.append(made.trips(100))
    asked: list[bool] = []
    bar = Screen._bar

    def watched(screen: Screen, *columns: ProgressColumn) -> Progress:
        asked.append(screen.has_bars)
        return bar(screen, *columns)

    monkeypatch.setattr(Screen, "_bar", watched)
    for options in ([], ["--json"]):
        assert CliRunner().invoke(app, [verb, str(path), *options]).exit_code == 0
    assert asked[:1] == [True]
    assert asked[-1:] == [False]
