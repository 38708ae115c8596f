"""Exit statuses: 0 sound, 1 damaged, 2 wrong use, 3 where something could not be looked at."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer

from cec_store.errors import CorruptLog, StorageError, Unreadable

DAMAGED = 1
"""Exit status; 0 is sound."""
WRONG_USE = 2
COULD_NOT_LOOK = 3
INTERRUPTED = 130
"""Status of a shell for SIGINT."""
CUT_OFF = 141
"""Status of a shell for SIGPIPE: the reader of the output has gone."""


def status_of(error: Exception) -> int:
    """The exit status for an error that ends a verb."""
    if isinstance(error, CorruptLog):
        return DAMAGED
    # The cause is an error of the operating system: permissions, a disk that fails.
    is_of_system = type(error) is StorageError and isinstance(error.__cause__, OSError)
    return COULD_NOT_LOOK if isinstance(error, Unreadable) or is_of_system else WRONG_USE


def exit_if_damaged(problems: Iterable[str]) -> None:
    """Each problem as a line on standard error; raises where there is one."""
    every = list(problems)
    for problem in every:
        tell(problem)
    if every:
        raise typer.Exit(DAMAGED)


def tell(problem: str) -> None:
    """Write one line to standard error. A name in it may come from a log, and so from anyone."""
    from cec_store.inspector.decoding.plain_values import printable

    lines = [printable(line) for line in problem.split("\n")]
    sys.stderr.write("cec-store: " + "\n".join(lines) + "\n")


@contextmanager
def wrong_use() -> Iterator[None]:
    """Turn a refusal of what was asked for into one line and a status."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
