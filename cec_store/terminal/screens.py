"""Tables of the command line on a terminal, and plain lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Timer
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from cec_store.inspector.decoding.plain_values import printable
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_id_of
from cec_store.terminal.wording import aligned, json_text

Cell = str | int | float | None
BAR_AFTER_S = 2.0
"""Seconds of work before a bar appears."""


class Screen:
    """Standard output, and standard error for what is only of interest while it lasts."""

    def __init__(self, *, has_bars: bool = True) -> None:
        """``has_bars``: show progress on standard error, which documents of JSON go without."""
        # Texts may come from anyone: "[b]" and ":b:" are these letters.
        plain = partial(Console, highlight=False, markup=False, emoji=False)
        self.out = plain(soft_wrap=True)
        self.error = plain(stderr=True)
        self._is_asked_for_bars = has_bars

    @property
    def is_terminal(self) -> bool:
        return self.out.is_terminal

    @property
    def has_bars(self) -> bool:
        """True where standard error is a terminal and the verb writes no JSON."""
        return self._is_asked_for_bars and self.error.is_terminal

    def line(self, text: str = "", style: str = "") -> None:
        """One line, styled on a terminal only."""
        text = printable(text)
        if self.is_terminal:
            self.out.print(text, style=style or None)
        else:
            sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """One line on standard error."""
        self.error.print(printable(text))

    def document(self, value: Any) -> None:
        """The one JSON document of a verb."""
        sys.stdout.write(json_text(value, indent=2) + "\n")

    def json_line(self, value: Any) -> None:
        """One of many JSON objects."""
        sys.stdout.write(json_text(value) + "\n")

    def flush(self) -> None:
        """Hand all lines on, so that whoever reads a pipe sees them now."""
        sys.stdout.flush()

    def pairs(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Names with their values."""
        if self.is_terminal:
            table = Table(title=_plain(title), title_justify="left", show_header=False)
            for row in rows:
                table.add_row(*map(_plain, row))
            self.out.print(table)
            return
        self.line(title)
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self.line(f"  {name:<{width}}  {value}".rstrip())

    def table(self, title: str, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Rows under names, numbers to the right; without rows the names, and "0 rows"."""
        if not rows:
            self.line(title)
            self.line("  " + "  ".join(names))
            self.line("  0 rows")
            return
        texts = [[_text(cell) for cell in row] for row in rows]
        right = [all(not isinstance(row[n], str) for row in rows) for n in range(len(names))]
        # Beside its cells a column has a border and two blanks.
        widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
        if self.is_terminal and sum(widths) + 3 * len(widths) + 1 > self.out.width:
            self._records(title, names, texts)
            return
        if self.is_terminal:
            table = Table(title=_plain(title), title_justify="left")
            for name, is_right in zip(names, right, strict=True):
                table.add_column(name, justify="right" if is_right else "left", overflow="fold")
            for text in texts:
                table.add_row(*map(Text, text))
            self.out.print(table)
            return
        self.line(title)
        for row in [list(names), *texts]:
            self.line("  " + aligned(row, widths, right))

    def _records(self, title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table that is wider than the terminal: each row below its first cell."""
        self.line(title)
        width = max(map(len, names[1:]), default=0)
        for first, *rest in rows:
            self.line(f"  {names[0]} {first}", "bold")
            for name, text in zip(names[1:], rest, strict=True):
                self.line(f"    {name:<{width}}  {text}")

    @contextmanager
    def bytes_progress(self, what: str, *folders: Folder) -> Iterator[Callable[[int], None]]:
        """A bar on standard error while logs are read; nothing where that is no terminal."""
        total = 0
        for folder in folders if self.has_bars else ():
            for name in folder.names() if folder.exists() else []:
                with suppress(FileNotFoundError):  # trimmed this very moment
                    total += folder.size(name) if segment_id_of(name) is not None else 0
        with self.bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A bar that moves, and the time, for work of which nobody knows how much it is."""
        with self._bar(BarColumn()) as bar:
            bar.add_task(what, total=None)
            yield

    def bar(self) -> Progress:
        """A progress bar on standard error, that is shown on a terminal only."""
        return self._bar(BarColumn(), MofNCompleteColumn())

    def _bar(self, *columns: ProgressColumn) -> Progress:
        return _LateBar(
            TextColumn("{task.description}"),
            *columns,
            TimeElapsedColumn(),
            console=self.error,
            transient=True,
            disable=not self.has_bars,
        )


class _LateBar(Progress):
    """A bar that appears once its block has run for BAR_AFTER_S; before it would only flicker."""

    _timer: Timer | None = None

    def start(self) -> None:
        if not self.disable:
            self._timer = Timer(BAR_AFTER_S, super().start)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self.live.is_started:
            super().stop()


def _plain(text: str) -> Text:
    return Text(printable(text))


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:,}" if isinstance(cell, int) else printable(str(cell))
