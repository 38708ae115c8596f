"""What the exit status of the command line says: 0 sound, 1 damaged, 2 wrong use."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer

DAMAGED = 1
WRONG_USE = 2
"""Exit status; 0 is sound."""


def exit_if_damaged(problems: Iterable[str]) -> None:
    """Each problem as a line on standard error; raises where there is one."""
    lines = [f"cec-store: {problem}\n" for problem in problems]
    sys.stderr.writelines(lines)
    if lines:
        raise typer.Exit(DAMAGED)


@contextmanager
def wrong_use() -> Iterator[None]:
    """A caller's mistake becomes one line and a status."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
