"""`cec-store watch`: live, in a pipe, once, as JSON, on narrow terminals; it never writes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from cec_store import open_queue
from cec_store.cli import app
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.places.places import place_at
from cec_store.storage.stores.by_url import store_at
from cec_store.terminal.watch_screens import live_view
from cec_store.watching.watcher import Watcher
from support.command_line.json_schemas import check
from support.places import damaged_queues as made
from support.places.checkpoints import tree_of
from support.places.made_checkpoints import grown
from support.stores.copies import contents, in_memory

SCHEMA = pa.schema([("n", pa.int64())])
WAIT_S = 60
START = [sys.executable, "-c", "from cec_store.cli import main; main()", "watch"]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("places")
    names = ("queue", "partitions", "checkpoint", "empty")
    paths = {name: root / name for name in names}
    made.make_operator_queue(paths["queue"], 300)
    for name in ("partitions", "empty"):
        with open_queue(paths[name], "a", schema=SCHEMA, partitions=2) as queue:
            queue.consumer("hourly")
            if name == "partitions":
                queue.append(pa.table({"n": [1, 2, 3]}))
    grown(paths["checkpoint"])
    return {**paths, "store": paths["checkpoint"] / "state" / "0" / "1"}


def run(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["watch", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exit_code == status, result.output
    return result


def once(*paths: object, status: int = 0) -> list[Any]:
    result = run(*paths, "--once", "--json", status=status)
    (line,) = result.stdout.splitlines()
    document = json.loads(line)
    check("watch", document)
    return list(document["places"])


def test_json_has_its_documented_form_at_every_kind_of_place(places: dict[str, Path]) -> None:
    entries = once(*places.values())
    assert [entry["path"] for entry in entries] == [str(path) for path in places.values()]
    assert all(entry["sound"] for entry in entries)
    by_name = dict(zip(places, entries, strict=True))
    assert by_name["partitions"]["records"] == 3
    assert by_name["partitions"]["consumers"][0]["lag_records"] == 3
    assert by_name["empty"]["records"] == 0
    assert by_name["checkpoint"]["batches"] == 6
    assert by_name["queue"]["restart_s"] > 0


def test_a_place_in_a_store_is_what_the_local_one_is(places: dict[str, Path]) -> None:
    for name, path in places.items():
        url = in_memory(path)
        before = contents(store_at(url))
        (local,), (remote,) = once(path), once(url)
        for entry in (local, remote):
            del entry["path"], entry["timestamp_us"]
        assert remote == local, name
        assert contents(store_at(url)) == before


def test_nothing_is_written(places: dict[str, Path]) -> None:
    root = places["queue"].parent
    before = tree_of(root)
    run(*places.values(), "--once")
    once(*places.values())
    assert tree_of(root) == before


def test_damage_and_wrong_paths_have_their_statuses(tmp_path: Path) -> None:
    grown(tmp_path / "c")
    for segment in (tmp_path / "c" / "state" / "0" / "1").glob("*.seg"):
        segment.unlink()
    (entry,) = once(tmp_path / "c", status=1)
    assert not entry["sound"]
    assert "PROBLEM" in run(tmp_path / "c", "--once", status=1).stdout
    run(tmp_path / "nothing", status=2)
    run(tmp_path / "c", "--interval", "0", status=2)


@contextmanager
def watching(*arguments: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    process = subprocess.Popen([*START, *map(str, arguments)], **streams)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("partitions", [None, 2])
def test_lines_come_each_interval_until_ctrl_c(partitions: int | None, tmp_path: Path) -> None:
    options = {} if partitions is None else {"partitions": partitions}
    with ExitStack() as stack:
        queue: Any = stack.enter_context(open_queue(tmp_path / "q", "a", schema=SCHEMA, **options))
        process = stack.enter_context(watching(tmp_path / "q", "--interval", "0.1", "--json"))
        first = json.loads(process.stdout.readline())["places"][0]  # type: ignore[union-attr]
        assert (first["records"], first["records_per_s"]) == (0, None)
        queue.append(pa.table({"n": [1, 2, 3]}))
        if partitions is None:
            queue.sync()
        for line in process.stdout:  # type: ignore[union-attr]
            check("watch", json.loads(line))
            entry = json.loads(line)["places"][0]
            if entry["records"] == 3:
                break
        assert entry["records_per_s"] > 0
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=WAIT_S)
    assert (process.returncode, error) == (0, "")


def test_plain_lines_name_each_place(places: dict[str, Path]) -> None:
    names = ("queue", "checkpoint")
    with watching(*(places[name] for name in names), "--interval", "0.1") as process:
        lines = [process.stdout.readline() for _ in range(4)]  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    for line, name in zip(lines, names * 2, strict=True):
        assert f" {places[name]}: " in line
        assert "extent" in line
        assert "\x1b" not in line


def test_a_closed_pipe_ends_it(places: dict[str, Path]) -> None:
    with watching(places["queue"], "--interval", "0.1") as process:
        process.stdout.readline()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
        assert process.wait(timeout=WAIT_S) == 141
        assert process.stderr.read() == ""  # type: ignore[union-attr]


def read_until(terminal: int, is_enough: Callable[[str], bool]) -> str:
    text, end_s = "", time.monotonic() + WAIT_S
    while not is_enough(text):
        assert time.monotonic() < end_s, text
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536).decode("utf-8", "replace")
            except OSError:  # the other side is closed
                break
    return text


def test_a_terminal_of_forty_columns_shows_all_and_ctrl_c_is_status_0(
    places: dict[str, Path],
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 40, 0, 0))
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "40", "LINES": "60"}
    with watching(
        places["checkpoint"], "--interval", "0.1", stdout=theirs, env=variables, text=False
    ) as process:
        os.close(theirs)
        text = read_until(ours, lambda text: text.count("restart now") >= 2)
        process.send_signal(signal.SIGINT)
        read_until(ours, lambda _: process.poll() is not None)
        assert process.wait(timeout=WAIT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert max(len(line.strip("\r")) for line in plain.split("\n")) <= 40


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_figure_is_cut_off_at_any_width(width: int, places: dict[str, Path]) -> None:
    sights = [Watcher(place_at(path), LoadRates(), 2).look() for path in places.values()]
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(live_view(sights, width))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    joined = re.sub(r"\s", "", text)
    assert joined.count("consumerhourly") == 2
    assert "checkpoint" in joined
    assert "…" not in text
