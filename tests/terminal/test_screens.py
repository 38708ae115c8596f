"""Texts that come from anyone: on a terminal they are the letters that they are."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from cec_store.terminal.exit_status import tell
from cec_store.terminal.formats import Format, write_batches
from cec_store.terminal.screens import Screen

NAME = "a[/b] [red]c[/red] u:b:c"
OBEYED = "x\x1b]0;title\x07"


def on_terminal() -> tuple[Screen, io.StringIO]:
    screen, text = Screen(), io.StringIO()
    screen.out.file = text
    screen.out._force_terminal = True
    screen.out.width = 200
    return screen, text


def test_names_are_neither_markup_nor_emoji() -> None:
    screen, text = on_terminal()
    assert isinstance(screen.out, Console)
    assert screen.is_terminal
    screen.line(NAME)
    screen.pairs(NAME, [(NAME, NAME)])
    screen.table(NAME, ["name"], [[NAME]])
    assert text.getvalue().count(NAME) == 6


def test_nothing_of_a_name_is_obeyed_by_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen, text = on_terminal()
    screen.line(OBEYED)
    screen.pairs(OBEYED, [(OBEYED, OBEYED)])
    screen.table(OBEYED, ["name"], [[OBEYED]])
    assert "\x1b]" not in text.getvalue()
    assert text.getvalue().count(r"x\x1b]0;title\x07") == 6
    tell(f"first {OBEYED}\nsecond")
    assert capsys.readouterr().err == "cec-store: first x\\x1b]0;title\\x07\nsecond\n"


def test_an_error_that_names_a_column_is_safe_to_show(tmp_path: Path) -> None:
    interval = pa.array([None], pa.month_day_nano_interval())
    rows = pa.record_batch({OBEYED: interval})
    with open_queue(tmp_path / "q", "a", schema=rows.schema) as queue:
        queue.append(rows, pa.array([1]), sync=True)
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "q"), "--format", "parquet"])
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert "title" in result.stderr


@pytest.mark.parametrize("verb", ["replay", "dump"])
def test_a_pipe_that_is_closed_ends_what_follows(verb: str, tmp_path: Path) -> None:
    rows = pa.record_batch({"n": [1]})
    with open_queue(tmp_path / "q", "a", schema=rows.schema) as queue:
        queue.append(rows, pa.array([1]), sync=True)
    program = Path(sys.executable).with_name("cec-store")
    with subprocess.Popen(
        [program, verb, tmp_path / "q", "-f", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 141


def test_a_table_has_every_column_and_every_digit() -> None:
    rows = pa.record_batch(
        {
            "a.b": [1],
            "a": pa.array([{"b": 2}]),
            "n": [1234567.89],
            "big": [16777217.0],
            "short": pa.array([0.1], pa.float32()),
        }
    )
    out = io.StringIO()
    write_batches(iter([rows]), rows.schema, Format.TABLE, out)
    names, values = out.getvalue().splitlines()
    assert names.split() == ["a.b", "a.b", "n", "big", "short"]
    assert values.split() == ["1", "2", "1234567.89", "16777217", "0.1"]
