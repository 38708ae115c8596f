"""What the exit status of the command line says: 0 sound, 1 damaged, 2 wrong use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

DAMAGED = 1
WRONG_USE = 2
"""Exit status; 0 is sound."""


@contextmanager
def wrong_use() -> Iterator[None]:
    """A caller's mistake becomes one line and a status."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
