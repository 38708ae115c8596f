"""The rules of the tests' own folders, read from the files themselves."""

import ast
from collections import Counter
from pathlib import PurePosixPath

import pytest

from support.paths import DATA, TESTS, below_tests

FOLDER_FILES_MAX = 20
# Rooms that have the name of what they test, `tests/log` for `cec_store/log`; and for the
# connectors, below `connectors/spark`, where `provider` is what stands in its `scala`,
# and `transforms` a room of that.
MIRRORS = {
    "storage", "format", "log", "checkpoints", "indexes", "queues", "partitioned", "state_logs",
    "scans", "operators", "standby", "placement", "recovery_plans", "signals", "inspector",
    "doctor", "watching",
    "report", "terminal", "demos", "verbs",
    "connectors/setup", "connectors/queues", "connectors/checkpoint", "connectors/provider",
    "connectors/takeover", "connectors/executors", "connectors/fleet", "connectors/moving",
    "connectors/progress", "connectors/transforms",
    "format/by_columns", "operators/aggregate", "partitioned/by_reference",
}  # fmt: skip
ACROSS = {"faults", "tidy", "bench", "queues/contract"}
"""Suites across rooms, rules of the repository, and the benchmarks' own tests."""

FILES = sorted(
    below_tests(path)
    for path in TESTS.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts and DATA not in path.parents
)
SOURCES = {name: (TESTS / name).read_text("utf-8") for name in FILES if name.endswith(".py")}


def crowded(files: list[str]) -> set[str]:
    counts = Counter(PurePosixPath(name).parent.as_posix() for name in files)
    return {folder for folder, count in counts.items() if count > FOLDER_FILES_MAX}


def is_at_home(name: str) -> bool:
    """A test in a room; else in `support`, in `places` if run by hand, or the one `conftest.py`."""
    path = PurePosixPath(name)
    if path.name.startswith("test_"):
        return path.parent.as_posix() in MIRRORS | ACROSS
    return path.parts[0] in ("support", "places") or name == "conftest.py"


def imported(source: str) -> set[str]:
    """Full names of what is imported, as far as the source says; `.` before relative ones."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def import_breaks(source: str, files: list[str]) -> list[str]:
    """Another test, `conftest`, a helper by its bare name, or a folder other than `support`."""
    # `bench` is the benchmarks' own package, beside the room of their tests.
    rooms = {PurePosixPath(name).parts[0] for name in files} - {"support", "bench"}
    bare = {PurePosixPath(name).stem for name in files if name.startswith("support/")} | rooms
    breaks = []
    for name in sorted(imported(source)):
        first, *_ = parts = name.split(".")
        of_a_test = any(part == "conftest" or part.startswith("test_") for part in parts[:-1])
        if not first or first in bare | {"tests"} or of_a_test:
            breaks.append(f"imports {name}")
    return breaks


def place_breaks(source: str) -> list[str]:
    """`support.paths` alone says where things are, and pytest alone what can be imported."""
    breaks = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id == "__file__":
            breaks.append(f"line {node.lineno}: __file__")
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
            breaks.append(f"line {node.lineno}: sys.path")
    return breaks


def test_there_are_files_to_check() -> None:
    assert len(FILES) > 150
    assert {PurePosixPath(name).parts[0] for name in FILES} > {"support", "faults", "conftest.py"}


def test_no_folder_is_crowded() -> None:
    assert crowded(FILES) == set()


def test_every_test_stands_in_a_room_and_every_helper_in_support() -> None:
    assert [name for name in FILES if not is_at_home(name)] == []


def test_imports() -> None:
    breaks = {name: import_breaks(source, FILES) for name, source in SOURCES.items()}
    assert {name: found for name, found in breaks.items() if found} == {}


def test_places() -> None:
    breaks = {name: place_breaks(source) for name, source in SOURCES.items()}
    assert breaks.pop("support/paths.py")
    assert {name: found for name, found in breaks.items() if found} == {}


# The rules themselves can fail.


def test_crowd_rule() -> None:
    files = [f"log/test_{number}.py" for number in range(FOLDER_FILES_MAX)]
    assert crowded([*files, "queues/test_a.py"]) == set()
    assert crowded([*files, "log/test_more.py"]) == {"log"}


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("log/test_tail.py", False),
        ("connectors/queues/test_queue.py", False),
        ("faults/test_sizes.py", False),
        ("support/disks/memory_folder.py", False),
        ("support/disks/faultshim.c", False),
        ("conftest.py", False),
        ("test_tail.py", True),
        ("connectors/test_queue.py", True),
        ("strange/test_tail.py", True),
        ("support/test_disks.py", True),
        ("log/made_logs.py", True),
        ("log/conftest.py", True),
        ("memory_folder.py", True),
    ],
)
def test_room_rule(name: str, caught: bool) -> None:
    assert is_at_home(name) is not caught


KNOWN = [
    "log/test_tail.py",
    "queues/test_queue.py",
    "bench/test_bench.py",
    "support/disks/memory_folder.py",
]


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("from support.disks.memory_folder import MemoryFolder", False),
        ("from support.disks import memory_folder", False),
        ("import support.disks.memory_folder", False),
        ("from cec_store.queues import test_run", False),
        ("import queue, json", False),
        ("from bench.harness.rounds import race", False),
        ("from bench.test_bench import FIGURES", True),
        ("from memory_folder import MemoryFolder", True),
        ("import memory_folder", True),
        ("def f():\n    import memory_folder", True),
        ("from conftest import CRASH_FULL", True),
        ("from test_tail import cut", True),
        ("from log.test_tail import cut", True),
        ("import log", True),
        ("from tests.log import test_tail", True),
        ("from . import memory_folder", True),
        ("from .memory_folder import MemoryFolder", True),
    ],
)
def test_import_rule(source: str, caught: bool) -> None:
    assert bool(import_breaks(source, KNOWN)) is caught


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("here = Path(__file__).parent", True),
        ("sys.path.insert(0, 'tests')", True),
        ("program = late_job.__file__", False),
        ("path = sys.executable", False),
    ],
)
def test_place_rule(source: str, caught: bool) -> None:
    assert bool(place_breaks(source)) is caught
