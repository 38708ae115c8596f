"""Plain words in the source: how docstrings begin, and names of locals that say nothing."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from support.paths import ROOT

OPENINGS = {
    "What", "Whether", "Of", "As", "For", "So", "Who", "Where", "How", "When", "Which", "By",
    "From", "After", "Those", "These", "With", "In", "On", "At", "To", "Up", "That", "Before",
    "Once", "It", "If", "Not", "Until", "Whose", "Beside", "Below", "Without", "Only",
}  # fmt: skip
"""A docstring is a sentence that begins with a verb or a noun: "Return …", "Bytes …"."""
LOCALS = {"each", "found", "there", "wanted", "said"}
"""A local is a noun, such as `frame` or `segment`."""

OTHER_NAMES = re.compile(r"\b[Qq]ueues?[\s#*]+by[\s#*]+reference\b|\bREFERENCE_QUEUE\b")
"""Names of a partitioned queue that are not its name."""


def room_of(path: Path) -> str:
    """`log` for a file below `cec_store/log`, `connectors` for one below `connectors`."""
    first, *rest = path.relative_to(ROOT).parts
    if first != "cec_store":
        return first
    return rest[0] if len(rest) > 1 else first


SOURCES = {
    path.relative_to(ROOT).as_posix(): (room_of(path), path.read_text(encoding="utf-8"))
    for folder in ("cec_store", "indexes", "connectors", "bench")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
ROOMS = sorted({room for room, _ in SOURCES.values()})


def openings(source: str) -> list[int]:
    """Lines of docstrings, also those of attributes, that begin with one of OPENINGS."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and " ".join(node.value.value.split()[:1]).strip(":,") in OPENINGS
    ]


def vague_locals(source: str) -> list[int]:
    """Lines at which a function, or a lambda, has an argument or local named as in LOCALS."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return sorted(
        {
            node.lineno
            for function in ast.walk(ast.parse(source))
            if isinstance(function, functions)
            for node in ast.walk(function)
            if (isinstance(node, ast.arg) and node.arg in LOCALS)
            or (
                isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCALS
            )
        }
    )


OPENING_LINES = {name: openings(source) for name, (_, source) in SOURCES.items()}
LOCAL_LINES = {name: vague_locals(source) for name, (_, source) in SOURCES.items()}


def places(room: str, lines: dict[str, list[int]]) -> list[str]:
    return [f"{name}:{n}" for name, of in lines.items() if SOURCES[name][0] == room for n in of]


def test_every_room_is_read() -> None:
    rooms = Counter(room for room, _ in SOURCES.values())
    assert {"cec_store", "indexes", "connectors", "bench", "log", "inspector"} <= rooms.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_a_noun(room: str) -> None:
    left = places(room, OPENING_LINES)
    assert not left


@pytest.mark.parametrize("room", ROOMS)
def test_locals_are_nouns(room: str) -> None:
    left = places(room, LOCAL_LINES)
    assert not left, left


def test_a_partitioned_queue_has_one_name() -> None:
    """Commits are by reference; a queue of them is partitioned."""
    files = [*ROOT.glob("*.md")]
    for folder in ("cec_store", "connectors", "bench", "docs", "examples"):
        for ending in ("py", "scala", "md"):
            files += (ROOT / folder).rglob(f"*.{ending}")
    assert len(files) > 500
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    assert [name for name, text in texts.items() if OTHER_NAMES.search(text)] == []
    assert OTHER_NAMES.search("Queues\n# by reference")
    assert not OTHER_NAMES.search("by reference")


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('def f():\n    """Return the end."""', []),
        ('def f():\n    """What ends."""', [2]),
        ('class C:\n    a: int\n    """Of the end."""', [3]),
        ('"""Whether: it ends."""', [1]),
        ('"""Where it ends."""', [1]),
        ('def f():\n    """Without an end."""', [2]),
        ('"""Offsets of ends."""', []),
        ('x = "What ends"', []),
        ('""""""', []),
    ],
)
def test_opening_rule(source: str, lines: list[int]) -> None:
    assert openings(source) == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(frames):\n    return [frame for frame in frames]", []),
        ("def f(frames):\n    return [each for each in frames]", [2]),
        ("def f():\n    found = 1", [2]),
        ("def f(wanted):\n    pass", [1]),
        ("def f():\n    return lambda each: 1", [2]),
        ("class C:\n    found: int", []),
    ],
)
def test_local_rule(source: str, lines: list[int]) -> None:
    assert vague_locals(source) == lines
