"""How the command line shows things: tables on a terminal, plain lines in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cec_store.demo import RUNS, DemoReport
from cec_store.files import LocalFolder
from cec_store.formats import finite, printable
from cec_store.layout import segment_id_of

Cell = str | int | float | None


class Screen:
    """Standard output, and standard error for what is only of interest while it lasts."""

    def __init__(self) -> None:
        self.out = Console(highlight=False, soft_wrap=True)
        self.error = Console(stderr=True, highlight=False)

    @property
    def is_terminal(self) -> bool:
        return self.out.is_terminal

    def line(self, text: str = "", style: str = "") -> None:
        """One line, styled on a terminal only."""
        text = printable(text)
        if self.is_terminal:
            self.out.print(text, style=style or None, markup=False)
        else:
            sys.stdout.write(text + "\n")

    def document(self, value: Any) -> None:
        """The one JSON document of a verb."""
        text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(text + "\n")

    def json_line(self, value: Any) -> None:
        """One of many JSON objects."""
        text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(text + "\n")

    def pairs(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Names with their values."""
        if self.is_terminal:
            table = Table(title=Text(title), title_justify="left", show_header=False)
            for row in rows:
                table.add_row(*map(Text, row))
            self.out.print(table)
            return
        self.line(title)
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self.line(f"  {name:<{width}}  {value}".rstrip())

    def table(self, title: str, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Rows under names; numbers stand to the right."""
        texts = [[_text(cell) for cell in row] for row in rows]
        right = [all(not isinstance(row[n], str) for row in rows) for n in range(len(names))]
        if self.is_terminal:
            table = Table(title=title, title_justify="left")
            for name, is_right in zip(names, right, strict=True):
                table.add_column(name, justify="right" if is_right else "left", overflow="fold")
            for text in texts:
                table.add_row(*map(Text, text))
            self.out.print(table)
            return
        self.line(title)
        widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
        for row in [list(names), *texts]:
            cells = [
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, right, strict=True)
            ]
            self.line("  " + "  ".join(cells).rstrip())

    @contextmanager
    def bytes_progress(self, what: str, folder: LocalFolder) -> Iterator[Callable[[int], None]]:
        """A bar on standard error while a queue is read; nothing where that is no terminal."""
        names = folder.names() if folder.exists() else []
        total = 0
        for name in names:
            with suppress(FileNotFoundError):  # trimmed this very moment
                total += folder.size(name) if segment_id_of(name) is not None else 0
        with self._bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def _bar(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.error,
            transient=True,
            disable=not self.error.is_terminal,
        )

    @contextmanager
    def demo(self, quiet: bool) -> Iterator[DemoWatcher]:
        """Two bars for the demo's two runs, and a line for each event."""
        with self._bar() as bar:
            yield DemoWatcher(self, bar, quiet)


class DemoWatcher:
    """Shows the demo's progress."""

    def __init__(self, screen: Screen, bar: Progress, quiet: bool) -> None:
        self._screen = screen
        self._bar = bar
        self._quiet = quiet
        names = dict(zip(RUNS, ("never killed", "killed twice"), strict=True))
        self._tasks = {run: bar.add_task(names[run], total=None) for run in RUNS}

    def advance(self, run: str, row: int, total: int) -> None:
        self._bar.update(self._tasks[run], completed=row, total=total)

    def tell(self, text: str) -> None:
        if self._quiet:
            return
        if self._screen.is_terminal and not self._bar.disable:
            self._bar.console.print(text, markup=False)  # above the bars, which stay below
        else:
            self._screen.line(text)


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:,}" if isinstance(cell, int) else printable(str(cell))


def show_demo(screen: Screen, report: DemoReport) -> None:
    """The demo's table and its verdict."""
    names = ["operator", "kill", "at row", "windows", "extent q", "Q", "KiB", "load ms",
             "replayed u", "U", "replay ms"]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            r.operator, r.kill, r.log_at_row, r.open_windows, r.extent_records, r.extent_target,
            r.extent_bytes >> 10, round(r.load_s * 1e3), r.replayed_rows, r.replay_target,
            round(r.replay_s * 1e3),
        ]
        for r in report.recoveries
    ]  # fmt: skip
    screen.table("recoveries by backward scan", names, rows)
    for output in report.outputs:
        if output.first_difference is not None:
            screen.line(
                f"{output.operator}: {output.rows:,} rows against {output.reference_rows:,}, "
                f"different from row {output.first_difference:,} on",
                style="bold red",
            )
    if report.equal:
        counts = " + ".join(f"{output.rows:,} {output.operator}" for output in report.outputs)
        screen.line(
            f"{report.output_rows:,} output rows ({counts}) after {len(report.kills_at)} kills: "
            "row for row those of the run that was never killed",
            style="bold green",
        )
    else:
        screen.line("the outputs differ: this is a defect", style="bold red")
