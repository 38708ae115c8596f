"""`cec-store standby node | list | switch | pause | resume | wait`: what they say, and refuse."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from support.command_line.json_schemas import check
from support.crashes.acknowledged_chains import ROWS
from support.standby.node_threads import NodeThreads
from support.standby.two_nodes import expected, rows_between

PROGRAM = Path(sys.executable).with_name("cec-store")
JOBS = """
from cec_store import Job, QueueInput, open_queue
from support.crashes.acknowledged_chains import OPERATORS, ROWS

def counts():
    return Job(
        "out", lambda: OPERATORS["count windows"](ROWS), lambda: [QueueInput(open_queue("in"), "o")]
    )

def cold():
    return Job("out", lambda: OPERATORS["map"](ROWS), counts().inputs, "eventual checkpoint")

number = 5
"""


def said(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["standby", *map(str, words)])
    assert "Traceback" not in result.output
    assert result.exit_code == status, result.output
    return result.output


def document(verb: str, *words: object, status: int = 0, schema: str = "") -> Any:
    told = json.loads(said(verb, *words, "--json", status=status))
    check(f"standby-{schema or verb}", told)
    return told


@pytest.fixture
def running(tmp_path: Path) -> Any:
    with NodeThreads(tmp_path, damping_s=600.0, turn_s=5.0) as nodes:
        nodes.start("a")
        nodes.primary()
        nodes.feed(50)
        nodes.start("b")
        nodes.wait_ready("b")
        yield nodes


def test_leases_are_listed_with_who_waits(running: NodeThreads) -> None:
    (lease,) = document("list", running.output)["leases"]
    assert (lease["name"], lease["holder"], lease["sign"]) == ("primary", "a", "alive")
    assert [(n["name"], n["state"], n["lag"]) for n in lease["nodes"]] == [
        ("a", "primary", 0), ("b", "ready", 0)
    ]  # fmt: skip
    text = said("list", running.output)
    assert "primary: a, alive" in text
    running.end("b")
    (lease,) = document("list", running.output)["leases"]
    assert lease["nodes"][1]["state"] == "ended"


def test_a_switch_a_pause_and_what_is_listed_of_them(running: NodeThreads) -> None:
    told = document("switch", running.output, "b")
    assert (told["node"], told["tenure"]) == ("b", 2)
    assert running.primary() == "b"
    assert document("pause", running.output)["paused"] is True
    assert "takeovers are paused since order 2" in said("list", running.output)
    assert document("resume", running.output, schema="pause")["paused"] is False
    assert "paused" not in said("list", running.output)


def test_the_exit_status_says_if_a_standby_is_warm(running: NodeThreads) -> None:
    assert document("wait", running.output, "--timeout", 30)["warm"] is True
    assert "b is warm" in said("wait", running.output, "--node", "b", "--lag-max", 0)
    told = document("wait", running.output, "--node", "z", "--timeout", 0, status=1)
    assert told == {"path": running.output, "lease": "primary", "node": "z", "warm": False}
    assert "not warm after 0 s" in said("wait", running.output, "--node", "z", "--timeout", 0,
                                        status=1)  # fmt: skip


def test_what_cannot_be_is_refused_by_name(running: NodeThreads, tmp_path: Path) -> None:
    assert "no node 'z'; there are a, b" in said("switch", running.output, "z", status=2)
    assert "node 'a' is the primary" in said("switch", running.output, "a", status=2)
    assert "no nodes run under the lease 'other'" in said(
        "pause", running.output, "--lease", "other", status=2
    )
    assert "not a lease's name" in said("wait", running.output, "--lease", "a/b", status=2)
    assert "does not exist" in said("list", tmp_path / "nowhere", status=2)
    with open_queue(tmp_path / "quiet", "x", schema=ROWS):
        pass
    assert "nobody holds a lease here" in said("list", tmp_path / "quiet")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs_of_nodes.py").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    with open_queue("in", "x", schema=ROWS) as queue:
        part = rows_between(0, 50, 0)
        queue.append(part.select(ROWS.names), part.column("t").combine_chunks(), sync=True)
    return tmp_path


def node(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, "standby", "node", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_a_node_works_until_sigterm_and_hands_over(jobs: Path) -> None:
    first = node("jobs_of_nodes:counts", "--name", "a")
    try:
        assert said("wait", "out", "--node", "a")
        second = node("jobs_of_nodes:counts", "--name", "a")
        _, error = second.communicate(timeout=60)
        assert second.returncode == 2
        assert "a node 'a' of 'primary' runs already" in error
    finally:
        first.send_signal(signal.SIGTERM)
        _, error = first.communicate(timeout=60)
    assert first.returncode == 0, error
    assert "a: primary" in error
    (lease,) = document("list", "out")["leases"]
    assert (lease["sign"], lease["nodes"][0]["state"]) == ("released", "ended")
    with open_queue("out") as queue:
        rows = [row for batch in queue.replay() for row in batch.to_pylist()]
    assert rows == expected("count windows", 50)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("jobs_of_nodes:none", "--name", "a"), "no such function"),
        (("no_such_module:none", "--name", "a"), "no such function"),
        (("jobs_of_nodes:number", "--name", "a"), "has to return a cec_store.Job"),
        (("jobs_of_nodes:counts", "--name", "a/b"), "not a lease's name"),
        (("jobs_of_nodes:counts", "--name", "a", "--turn", "-1"), "turn_s=-1"),
        (("jobs_of_nodes:counts", "--name", "a", "--period", "0"), "period_s=0"),
        (("jobs_of_nodes:cold", "--name", "a", "--lag-max", "5"), "lag_max=5"),
    ],
)
def test_a_node_that_cannot_run_writes_nothing(
    jobs: Path, words: tuple[str, ...], named: str
) -> None:
    before = sorted(os.listdir("."))
    assert named in said("node", *words, status=2)
    assert [name for name in sorted(os.listdir(".")) if name != "__pycache__"] == before
