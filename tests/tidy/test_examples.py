"""Each example runs as it stands, without a word on standard error."""

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

from support.paths import EXAMPLES, ROOT
from support.stores.needed import need_program

COMPOSE = EXAMPLES / "compose"
EVERY = EXAMPLES.glob("*.py")
EXAMPLES = sorted(path for path in EVERY if not path.stem.startswith("spark_"))
SAYS = {
    "chain_of_operators": "20000 rides, ",
    "operator_with_recovery": "the same as without the stop",
    "queue_in_duckdb_and_polars": "polars: [('about', 20), ('home', 40)]",
    "replay_from_timestamp": "from 12:57:00 on: [77.0, 77.0]\nthe rest: [78.0, 78.0, 79.0, 79.0]",
}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert SAYS[path.stem] in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_readmes_example_runs_twice_to_the_same_end(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    every = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (code,) = (each for each in every if "open_queue" in each)  # Spark has tests of its own
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("[{'item': 1, 'price': 15.0}]\n", "")


def test_the_compose_file_names_files_that_are_there() -> None:
    text = (COMPOSE / "compose.yaml").read_text("utf-8")
    mounted = re.findall(r"(\.\.?/\S+?):/", text)
    assert len(mounted) == 4
    assert all((COMPOSE / path).is_file() for path in mounted)
    copied = re.findall(r"COPY (\S+\.py) ", (COMPOSE / "Dockerfile").read_text("utf-8"))
    assert all((ROOT / path).is_file() for path in [*copied, "examples/compose/Dockerfile"])
    [port] = re.findall(r'"--port", type=int, default=(\d+)', (COMPOSE / "counts.py").read_text())
    assert f'targets: ["counts:{port}"]' in (COMPOSE / "prometheus.yml").read_text("utf-8")


def in_build_context(path: str) -> bool:
    """Return True if Docker sends the file: the last pattern that it or a folder of it meets."""
    file = PurePosixPath(path)
    parts = [str(part) for part in (file, *file.parents)]
    is_sent = True
    for pattern in (ROOT / ".dockerignore").read_text("utf-8").split():
        if any(fnmatch(part, pattern.removeprefix("!")) for part in parts):
            is_sent = pattern.startswith("!")
    return is_sent


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "examples/compose/Dockerfile"])
def test_the_build_context_has_what_a_dockerfile_copies(dockerfile: str) -> None:
    sources = re.findall(r"^COPY (\S+) ", (ROOT / dockerfile).read_text("utf-8"), re.MULTILINE)
    assert sources
    assert all(in_build_context(source.replace("*", "any")) for source in sources)
    assert not any(map(in_build_context, ["dist/cec_store.tar.gz", ".venv/bin/python"]))


@pytest.mark.parametrize(
    "command",
    [
        ("docker-compose", "-f", "compose.yaml", "config", "--quiet"),
        ("promtool", "check", "config", "prometheus.yml"),
    ],
    ids=lambda command: command[0],
)
def test_compose_and_prometheus_take_their_files(command: tuple[str, ...]) -> None:
    need_program(command[0])
    done = subprocess.run(command, cwd=COMPOSE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
