"""The rules of the benchmarks' rooms, read from their sources."""

import ast
from pathlib import Path

import pytest

from support.paths import BENCH, ROOT, TESTS

ROOMS = ("harness", "simulators", "micro", "spark", "fleet", "papers")
"""A file imports only from its own room and from those before it."""
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

SOURCES = {
    path.relative_to(BENCH).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(BENCH.rglob("*.py"))
}


def imported(source: str) -> set[str]:
    """Full names of modules, and of what is imported from them, as far as they are of `bench`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] in ("bench", "")}


def import_breaks(room: str, source: str) -> list[str]:
    """Return what a file of this room imports that is relative, or of a room after its own."""
    allowed = ROOMS[: ROOMS.index(room) + 1]
    return [
        name
        for name in sorted(imported(source))
        if name.startswith(".") or (name != "bench" and name.split(".")[1] not in allowed)
    ]


def length_breaks(source: str) -> list[str]:
    count = len(source.splitlines())
    breaks = [f"{count} lines in a file"] if count > FILE_LINES_MAX else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            count = (node.end_lineno or 0) - node.lineno + 1
            breaks += [f"{count} lines in {node.name}"] if count > FUNCTION_LINES_MAX else []
    return breaks


def unused(sources: dict[str, str], users: list[str]) -> set[str]:
    """Files that are no script and that no other file, and none of the users, imports."""
    names = set().union(*map(imported, [*sources.values(), *users]))
    return {
        file
        for file, source in sources.items()
        if not file.endswith("__init__.py")
        and "__main__" not in source
        and f"bench.{file.removesuffix('.py').replace('/', '.')}" not in names
    }


def room_of(file: str) -> str:
    return file.split("/")[0]


def test_every_file_stands_in_a_room() -> None:
    assert len(SOURCES) > 80
    assert {room_of(file) for file in SOURCES} == {*ROOMS, "__init__.py"}


def test_rooms_import_from_those_before_them() -> None:
    breaks = {
        file: import_breaks(room_of(file), source)
        for file, source in SOURCES.items()
        if file != "__init__.py"
    }
    assert {file: names for file, names in breaks.items() if names} == {}


def test_the_package_alone_says_where_modules_are_found() -> None:
    assert [file for file, source in SOURCES.items() if "sys.path" in source] == ["__init__.py"]


def test_files_and_functions_are_short() -> None:
    breaks = {file: length_breaks(source) for file, source in SOURCES.items()}
    assert {file: lengths for file, lengths in breaks.items() if lengths} == {}


def test_every_file_is_run_or_imported() -> None:
    tests = [path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))]
    assert unused(SOURCES, tests) == set()


def test_the_product_imports_no_benchmark() -> None:
    files = [path for room in ("cec_store", "indexes", "connectors")
             for path in sorted((ROOT / room).rglob("*.py"))]  # fmt: skip
    assert len(files) > 400
    assert [path for path in files if "bench" in modules(path)] == []


def modules(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path.read_text(encoding="utf-8"))}


# The rules themselves can fail.


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("from bench.harness.rounds import race", False),
        ("from bench.spark import worker", False),
        ("from bench.micro.bare_read import bare_read_time", False),
        ("from bench.fleet import fleet", True),
        ("import bench.papers.cec", True),
        ("def f():\n    from bench.papers.cec import main", True),
        ("from . import worker", True),
        ("from .worker import run", True),
        ("import json", False),
    ],
)
def test_import_rule(source: str, caught: bool) -> None:
    assert bool(import_breaks("spark", source)) is caught


def test_use_rule() -> None:
    sources = {
        "micro/seek.py": 'if __name__ == "__main__":\n    main()',
        "micro/rows.py": "ROWS = 1",
        "harness/rounds.py": "TURNS = 1",
    }
    assert unused(sources, []) == {"micro/rows.py", "harness/rounds.py"}
    assert unused(sources, ["from bench.harness import rounds"]) == {"micro/rows.py"}
    users = ["from bench.harness.rounds import TURNS", "from bench.micro.rows import ROWS"]
    assert unused(sources, users) == set()


def test_length_rule() -> None:
    assert length_breaks("def f():\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1)) == []
    assert length_breaks("def f():\n" + "    pass\n" * FUNCTION_LINES_MAX)
    assert length_breaks("x = 1\n" * (FILE_LINES_MAX + 1))
