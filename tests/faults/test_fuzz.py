"""Hostile bytes, in a process with little memory: each is read or refused, and nothing else."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fuzzing.fuzz import CORPUS, corpus_of
from support.fuzzing.targets import TARGETS
from support.runs.suites import Tally

PROGRAM = "support.fuzzing.fuzz"
RUNS = {
    "segment": 200_000, "state_schema": 80_000, "checkpoint": 400_000, "unsafe_rows": 300_000,
    "family_rows": 200_000, "variables_schema": 100_000,
    "body": 2_000_000,
}  # fmt: skip
"""At full size; of the others, which are small and quick, a million each."""
GUIDED_SHARE = 0.1


def fuzzed(name: str, folder: Path, *words: str) -> str:
    """What the program says; fails where it found something, and keeps the input."""
    command = [sys.executable, "-m", PROGRAM, name, "--save", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3_000, check=False)
    if done.returncode == 0:
        return done.stdout
    newest = max(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    kept = shutil.copy(newest, tempfile.mkdtemp(prefix="cec-fuzz-"))
    raise AssertionError(
        f"{newest.name}: exit status {done.returncode}\n{done.stderr[-2_000:]}\n"
        f"this input alone: PYTHONPATH=tests python -m {PROGRAM} {newest.name} {kept}"
    )


def test_the_corpus_is_read_or_refused(tmp_path: Path) -> None:
    """And a few mutations of it."""
    said = [line.split() for line in fuzzed("all", tmp_path, "--runs", "200").splitlines()]
    assert [name for name, *_ in said] == list(TARGETS)
    for name, sound, refused in said:
        assert int(sound) > 0, f"{name}: nothing was sound"
        assert int(refused) > 50, f"{name}: hardly anything was refused"


def test_the_corpus_is_small_and_has_every_target() -> None:
    assert sorted(TARGETS) == sorted(folder.name for folder in CORPUS.iterdir())
    assert sum(len(data) for name in TARGETS for data in corpus_of(name)) < 200_000


@pytest.mark.crash
@pytest.mark.parametrize("name", TARGETS)
def test_mutations_are_read_or_refused(
    name: str, tmp_path: Path, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    runs = crash_count(0, RUNS.get(name, 1_000_000))
    if not runs:
        pytest.skip("a few mutations are tried with the corpus; `make crash` tries a million")
    fuzzed(name, tmp_path, "--runs", str(runs))
    if importlib.util.find_spec("atheris"):
        guided = int(runs * GUIDED_SHARE)
        fuzzed(name, tmp_path, "--runs", str(guided), "--atheris")
        runs += guided
    tally(runs)


def test_the_fuzzer_fails_where_a_target_does(tmp_path: Path) -> None:
    """An input that is no answer of the target's: the driver must not take it for a refusal."""
    with pytest.raises(AssertionError, match="this input alone"):
        fuzzed("no_such_target", _with_a_file(tmp_path))


def _with_a_file(folder: Path) -> Path:
    (folder / "no_such_target").write_bytes(b"")
    return folder
