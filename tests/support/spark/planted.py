"""Bugs to be planted in the provider's sources before these are compiled for a test."""

import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cec_store.connectors.spark.setup import compiler

SWITCH = "cec.planted"
_CHOSEN: list[str] = []
_PLANTED: list[tuple[str, str, str]] = []
"""A file below `scala`, what stands there once, and what stands there with the bug."""


def plant(file: str, right: str, wrong: str) -> None:
    """From now on, in this process."""
    _PLANTED.append((file, right, wrong))


def plant_one_of(bugs: Mapping[str, tuple[str, str, str]], chosen: str) -> None:
    """One of several in expressions: all of them are compiled, and the JVM is told which is on."""
    by_place: dict[tuple[str, str], str] = {}
    for name, (file, right, wrong) in bugs.items():
        rest = by_place.get((file, right), right)
        by_place[file, right] = (
            f'(if (sys.props.get("{SWITCH}").contains("{name}")) {wrong} else {rest})'
        )
    for (file, right), switched in by_place.items():
        plant(file, right, switched)
    _CHOSEN.append(chosen)


def java_options() -> list[str]:
    """Return options for a JVM that runs the planted sources."""
    return [f"-D{SWITCH}={name}" for name in _CHOSEN]


def is_any() -> bool:
    return bool(_PLANTED)


@cache
def jar() -> Path:
    """Return the provider's jar with the bugs, for a Spark session."""
    with tempfile.TemporaryDirectory() as folder:
        scala = Path(folder)
        shutil.copytree(compiler.SOURCES, scala, dirs_exist_ok=True)
        into(scala)
        return compiler.jar(sources=scala, carried=scala / "never")


def into(scala: Path) -> None:
    """Put the bugs into a copy of the sources.

    Raises:
        AssertionError: the source does not read as it did when the bug was thought up.
    """
    for file, right, wrong in _PLANTED:
        text = (scala / file).read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{file} does not have once: {right}"
        (scala / file).write_text(text.replace(right, wrong), encoding="utf-8")
