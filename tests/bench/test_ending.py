"""A benchmark that cannot go on ends, and leaves no process and no file behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bench.micro.standby import Watcher
from cec_store import open_queue
from support.paths import ROOT

PROGRAM = """
import socket, sys
socket.create_connection(("127.0.0.1", {port})).recv(1)
"""
"""Runs until the test closes the connection, unless it is killed."""
SCRIPT = """
from bench.harness.apart import run_apart
from bench.harness.rounds import options
with options("A benchmark.") as asked:
    run_apart({program!r}, asked.folder / "task", {{}})
"""
RUN = "from bench.harness.run_all import run; run({script!r}, ['--dir', {folder!r}])"
TIMEOUT_S = 30


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)
        yield listening


def ended_by(
    number: signal.Signals, command: list[str], folder: Path, server: socket.socket
) -> int:
    """Return the status of a command that takes a signal, as its group does, while it measures."""
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        connection, _ = server.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            os.killpg(process.pid, number)
            status = process.wait(TIMEOUT_S)
            assert list(folder.iterdir()) == []
            connection.settimeout(1)
            assert connection.recv(1) == b"", "the program still runs"
    return status


@pytest.fixture
def script(tmp_path: Path, server: socket.socket) -> str:
    program, script = tmp_path / "program.py", tmp_path / "script.py"
    program.write_text(PROGRAM.format(port=server.getsockname()[1]))
    script.write_text(SCRIPT.format(program=str(program)))
    return str(script)


def test_an_interrupted_run_leaves_nothing(
    script: str, server: socket.socket, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    command = ["-c", RUN.format(script=script, folder=str(folder))]
    assert ended_by(signal.SIGINT, command, folder, server) == -signal.SIGINT


def test_a_terminated_script_leaves_nothing(
    script: str, server: socket.socket, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    status = ended_by(signal.SIGTERM, [script, "--dir", str(folder)], folder, server)
    assert status == 128 + signal.SIGTERM


def test_output_that_does_not_grow_ends_the_benchmark(tmp_path: Path) -> None:
    with open_queue(tmp_path / "queue", "x", schema=pa.schema([("n", pa.int64())])):
        watcher = Watcher(tmp_path / "queue")
    with pytest.raises(SystemExit, match="grew 0 times within 0 s, not 5"):
        watcher.await_growth(5, within_s=0)
