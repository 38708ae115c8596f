"""The command line: its verbs, and what the exit status says.

0 sound, 1 damaged (or, in the demo, different), 2 wrong use, 3 files that could not be read.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cec_store.errors import CecError
from cec_store.terminal.exit_status import status_of
from cec_store.verbs import spark
from cec_store.verbs.changes import changes_verb
from cec_store.verbs.consumers import consumers_verb
from cec_store.verbs.demo import demo_verb
from cec_store.verbs.diff import diff_verb
from cec_store.verbs.dump import dump_verb
from cec_store.verbs.extent import extent_verb
from cec_store.verbs.fork import fork_verb
from cec_store.verbs.reindex import reindex_verb
from cec_store.verbs.replay import replay_verb
from cec_store.verbs.report import report_verb
from cec_store.verbs.state import state_verb
from cec_store.verbs.trim import trim_verb
from cec_store.verbs.verify import verify_verb


class Verbs(TyperGroup):
    """Turns what can go wrong into one line and a status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (CecError, FileExistsError, FileNotFoundError) as error:
            sys.stderr.write(f"cec-store: {error}\n")
            raise typer.Exit(status_of(error)) from error


app = typer.Typer(
    cls=Verbs,
    name="cec-store",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo_verb)
app.command("extent")(extent_verb)
app.command("verify")(verify_verb)
app.command("dump")(dump_verb)
app.command("state")(state_verb)
app.command("changes")(changes_verb)
app.command("diff")(diff_verb)
app.command("replay")(replay_verb)
app.command("report")(report_verb)
app.command("consumers")(consumers_verb)
app.command("trim")(trim_verb)
app.command("fork")(fork_verb)
app.command("reindex")(reindex_verb)
app.add_typer(spark.app, name="spark")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cec-store {version('cec-store')}")
        raise typer.Exit


@app.callback()
def _app(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say so and exit."),
    ] = False,
) -> None:
    """Look at output queues, read them again, and see recovery at work.

    Exit status: 0 sound, 1 damaged, 2 wrong use, 3 files that could not be read.
    """


def main() -> None:
    """Entry point."""
    app()
