"""`cec-store standby`: what it refuses, and what it becomes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("cec-store")
SAYS = "import os; print(os.environ['CEC_STORE_STANDBY_OF']); raise SystemExit(7)"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, "standby", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')
    return str(tmp_path)


def test_it_becomes_the_command_and_says_whose_standby_that_is(checkpoint: str) -> None:
    done = run(checkpoint, "--", sys.executable, "-c", SAYS)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{checkpoint}\n", "")


def test_without_a_checkpoint_nothing_is_started(tmp_path: Path) -> None:
    done = run(str(tmp_path / "nowhere"), "--", sys.executable, "-c", SAYS)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no checkpoint of a Spark query here" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_command_that_is_not_there_is_named(checkpoint: str) -> None:
    done = run(checkpoint, "--", "no-such-program")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-program: cannot be started" in done.stderr


def test_a_command_is_needed(checkpoint: str) -> None:
    assert run(checkpoint).returncode == 2
