"""Rows to the terminal, a pipe or a file, in any format, and what became of each log."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from cec_store.inspector.places.places import Place
from cec_store.inspector.showing.states import PlaceRows
from cec_store.storage.trees import new_file
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import exit_if_damaged
from cec_store.terminal.formats import Format, write_batches
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import counted

As = Annotated[
    Format | None, typer.Option("--format", help="By default what OUTPUT ends in, or a table.")
]
OutputFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="Into this file: whole, or not at all.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace OUTPUT if it is there.")]
_SUFFIXES = {f".{form.value}": form for form in Format} | {".pq": Format.PARQUET}


class _Incomplete(Exception):
    """Some of what belongs in a file cannot be read."""


def chosen_format(form: Format | None, output: Path | None, as_json: bool) -> Format:
    """The format that is asked for, or that the file's name says."""
    if as_json:
        form = Format.JSON
    if form is None and output is not None:
        form = _SUFFIXES.get(output.suffix.lower())
        if form is None:
            raise typer.BadParameter(f"{output}: which --format? Its name does not say")
    form = form or Format.TABLE
    if output is None and not form.is_text and _is_terminal():
        raise typer.BadParameter(f"{form.value} is not for a terminal: use -o FILE, or a pipe")
    return form


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def write_rows(
    place: Place,
    rows: PlaceRows,
    form: Format,
    output: Path | None,
    force: bool,
    limit: int | None,
    **own: Any,
) -> None:
    """All rows that can be read; raises where some cannot. A file has all, or is not there."""

    def about() -> dict[str, Any]:
        logs = [{**e.log.fields(), "rows": e.rows, "problem": e.problem} for e in rows.logs]
        columns = [{"name": part.name, "type": str(part.type)} for part in rows.schema]
        totals = {"logs": len(logs), "rows": sum(log["rows"] for log in logs)}
        return document(place, rows.is_sound, logs, totals, **own, columns=columns)

    screen = Screen()
    with screen.bar() as bar:
        task = bar.add_task("reading", total=len(rows.logs), visible=output is not None)
        batches = rows.batches(lambda: bar.advance(task), limit)
        if output is None:
            write_batches(batches, rows.schema, form, sys.stdout, about)
        else:
            with suppress(_Incomplete), new_file(output, force) as file:
                out = io.TextIOWrapper(file, "utf-8", newline="")
                write_batches(batches, rows.schema, form, out, about)
                out.detach()
                if not rows.is_sound:
                    raise _Incomplete
    exit_if_damaged(part.log.named(part.problem) for part in rows.logs if part.problem)
    if output is not None:
        count = sum(part.rows for part in rows.logs)
        screen.line(f"{output}: {count:,} rows of {counted(len(rows.logs), 'log')}")
