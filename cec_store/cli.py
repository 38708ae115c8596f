"""The command line. It reads options and prints; what there is to know is found out elsewhere.

Exit status: 0 sound, 1 damaged (or, in the demo, different), 2 wrong use.
"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from cec_store.demo import report_as_json, run_demo
from cec_store.errors import CecError, CorruptLog
from cec_store.screens import Screen, show_demo

DAMAGED = 1
WRONG_USE = 2

app = typer.Typer(
    name="cec-store",
    help="Look at output queues, read them again, and see recovery at work.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (docs/cli.md has the schema).")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cec-store {version('cec-store')}")
        raise typer.Exit


@app.callback()
def _app(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say so.")
    ] = False,
) -> None:
    """Look at output queues, read them again, and see recovery at work."""


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep the queues in this new folder.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides when the kills fall; random by default.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=20_000, help="Only the first flights, not the whole year.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run two operators over a year of flights, kill them twice, and compare what comes out."""
    screen = Screen()
    seed = random.randrange(1000) if seed is None else seed
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cec-demo-")))
        if not as_json:
            screen.line(f"flights of 2013 through two operators; seed {seed}")
        watcher = stack.enter_context(screen.demo(quiet=as_json))
        report = run_demo(folder, seed, watcher, rows)
    if as_json:
        screen.document(report_as_json(report))
    else:
        show_demo(screen, report)
        if keep is not None:
            screen.line(f"the queues are in {report.folder}: try cec-store extent on one")
    if not report.equal:
        raise typer.Exit(DAMAGED)


def main() -> None:
    """Run, and turn what can go wrong into one line and a status."""
    try:
        app()
    except CorruptLog as error:
        _fail(error, DAMAGED)
    except (CecError, FileExistsError, FileNotFoundError) as error:
        _fail(error, WRONG_USE)


def _fail(error: Exception, status: int) -> None:
    sys.stderr.write(f"cec-store: {error}\n")
    sys.exit(status)
