"""Targets of figures, read from the scripts that measure them.

A script has them as a constant of its own, by name of a figure::

    TARGETS = {"seek_vs_scan": "at least 20", "write_ratio": "at most 1.1", "rss_mb": "report"}

``report`` is for figures that are for information. The constant is a literal and is read from the
source, because importing all scripts would take Spark and seconds.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from bench.harness.machine import ROOT

BENCH = ROOT / "bench"
ROOMS = ("micro", "papers", "spark", "fleet")
"""Folders of scripts with targets, in the order in which they are run and shown."""
_BOUNDS = ("at least", "at most")


@dataclass(frozen=True)
class Target:
    """Bound of one figure."""

    script: str
    """Path below ``bench/``, such as ``micro/seek.py``."""
    figure: str
    bound: str
    """"at least X", "at most X", or "report" for a figure without a bound."""

    def __post_init__(self) -> None:
        words, _, number = self.bound.rpartition(" ")
        if self.bound == "report":
            return
        if words not in _BOUNDS:
            raise ValueError(f"{self.script}, {self.figure}: no such bound: {self.bound}")
        float(number)

    def met_by(self, value: float) -> bool:
        """Return True if the value keeps the bound; any value does where there is none."""
        words, _, number = self.bound.rpartition(" ")
        if words == "at least":
            return value >= float(number)
        return words != "at most" or value <= float(number)


def all_targets(folder: Path = BENCH) -> tuple[Target, ...]:
    """Return the targets of all scripts, room by room, and by name of the script."""
    scripts = [script for room in ROOMS for script in sorted((folder / room).glob("*.py"))]
    return tuple(
        Target(script.relative_to(folder).as_posix(), figure, bound)
        for script in scripts
        for figure, bound in stated(script.read_text(encoding="utf-8")).items()
    )


def stated(source: str) -> dict[str, str]:
    """Return the ``TARGETS`` of a script's source, bounds by figure; empty where it has none.

    Raises:
        ValueError: they are no literal.
    """
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "TARGETS":
            return dict(ast.literal_eval(statement.value))
    return {}
