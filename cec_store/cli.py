"""The command line: its verbs, and what the exit status says.

0 sound, 1 damaged (or, in the demo, different), 2 wrong use, 3 files that could not be read; 130
where it was interrupted, 141 where nobody reads the output any more.

Before :func:`main` runs nothing is imported but what Python itself has: an interrupt meanwhile
would end in a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

_GROUPS: dict[str, dict[str, tuple[str, Callable[[], Any], str]]] = {
    "Any place": {
        "extent": (
            "Show what a restart would read back, what that costs, and which windows hold it open.",
            lambda: import_module("cec_store.verbs.extent").extent_verb,
            "extent checkpoints/totals --top 3",
        ),
        "verify": (
            "Check every checksum, link and mark; name each fault, where it is and what to do.",
            lambda: import_module("cec_store.verbs.verify").verify_verb,
            "verify queues/totals",
        ),
        "doctor": (
            "Look for what is set up wrong, on this machine or at a place, and say what to do.",
            lambda: import_module("cec_store.verbs.doctor").doctor_verb,
            "doctor checkpoints/totals",
        ),
        "watch": (
            "Show a place while it changes: rows and batches a second, restart, memory, lags.",
            lambda: import_module("cec_store.verbs.watch").watch_verb,
            "watch checkpoints/totals queues/totals --once",
        ),
        "report": (
            "Write one page about a place: is it sound, what will a restart cost, and why.",
            lambda: import_module("cec_store.verbs.report").report_verb,
            "report checkpoints/totals -o totals.html",
        ),
        "dump": (
            "Print frames and records as they stand in the log, over damage and on.",
            lambda: import_module("cec_store.verbs.dump").dump_verb,
            "dump queues/totals --last 5",
        ),
    },
    "Queues": {
        "tail": (
            "Show the last rows of a queue, all partitions in commit order; with "
            "-f those to come too.",
            lambda: import_module("cec_store.verbs.tail").tail_verb,
            "tail queues/totals -n 5",
        ),
        "replay": (
            "Read a queue's output of some time again; of a state store what was put and removed.",
            lambda: import_module("cec_store.verbs.replay").replay_verb,
            "replay queues/totals --since yesterday",
        ),
        "consumers": (
            "List who the queue keeps its records for; add or drop one; set what "
            "it deletes by itself.",
            lambda: import_module("cec_store.verbs.consumers").consumers_verb,
            "consumers queues/totals --add hourly",
        ),
        "trim": (
            "Remove segments that no consumer and no restart needs: as asked, or by its retention.",
            lambda: import_module("cec_store.verbs.trim").trim_verb,
            "trim queues/totals --keep 7d",
        ),
        "reindex": (
            "Delete the timestamp index and make it anew from the log. The log is not touched.",
            lambda: import_module("cec_store.verbs.reindex").reindex_verb,
            "reindex queues/totals",
        ),
    },
    "State": {
        "state": (
            "Write the state at a version or a moment: the keys or windows that are open then.",
            lambda: import_module("cec_store.verbs.state").state_verb,
            "state checkpoints/totals --format csv",
        ),
        "changes": (
            "Write what turned the state at FROM into that at TO.",
            lambda: import_module("cec_store.verbs.changes").changes_verb,
            "changes checkpoints/totals 3 5",
        ),
        "diff": (
            "Compare two versions of one place, or two places: keys added, removed and changed.",
            lambda: import_module("cec_store.verbs.diff").diff_verb,
            "diff checkpoints/totals --from 3",
        ),
        "advise": (
            "Name the cheapest way to be back in time after a failure, and what each way costs.",
            lambda: import_module("cec_store.verbs.standby.advise").advise_verb,
            "advise --rate 10000 --window 60",
        ),
        "size": (
            "Work out what a Spark query's state takes: heap, disk, restarts, requests.",
            lambda: import_module("cec_store.verbs.sizing.size").size_verb,
            "size --keys 10M --changes 100k",
        ),
    },
    "Checkpoints of Spark": {
        "fork": (
            "Make a checkpoint that runs on from the state at an earlier moment. "
            "The old one stays.",
            lambda: import_module("cec_store.verbs.fork").fork_verb,
            "fork checkpoints/totals checkpoints/earlier --batch 3",
        ),
        "adopt": (
            "Make a checkpoint in which a query of Spark's own stores goes on with cec-store.",
            lambda: import_module("cec_store.verbs.moving").adopt_verb,
            "adopt checkpoints/old checkpoints/new",
        ),
        "release": (
            "Make a checkpoint in which a query of cec-store goes on with one of "
            "Spark's own stores.",
            lambda: import_module("cec_store.verbs.moving").release_verb,
            "release checkpoints/totals checkpoints/back",
        ),
        "repartition": (
            "Make a checkpoint in which a query goes on with another number of "
            "partitions of state.",
            lambda: import_module("cec_store.verbs.moving").repartition_verb,
            "repartition checkpoints/totals checkpoints/wide --partitions 8",
        ),
        "compare": (
            "Tell whether two checkpoints hold the same state, by whatever providers.",
            lambda: import_module("cec_store.verbs.moving").compare_verb,
            "compare checkpoints/totals checkpoints/back",
        ),
    },
    "Clusters": {
        "spark": (
            "Use cec-store as Spark's state store.",
            lambda: import_module("cec_store.verbs.spark.spark").app,
            "spark conf --recovery-time-s 2",
        ),
        "standby": (
            "Keep processes ready that continue a query or an operator whose process has failed.",
            lambda: import_module("cec_store.verbs.standby.standby").app,
            "standby checkpoints/totals -- python job.py",
        ),
    },
    "Fleets": {
        "fleet": (
            "Run Spark queries that are joined by queues as one, and bring them back one by one.",
            lambda: import_module("cec_store.verbs.fleet.fleet").app,
            "fleet status fleets/sales",
        ),
    },
    "To try it": {
        "demo": (
            "Run Spark queries over a year of flights, kill the driver, and "
            "compare what comes out.",
            lambda: import_module("cec_store.verbs.demo").demo_verb,
            "demo --embedded --rows 20k",
        ),
    },
}
"""Verbs by what they are about, in the order of `--help`: first line of
the help, function, and an example."""


def _application() -> Any:
    """The `typer.Typer` of all verbs."""
    import typer

    from cec_store.terminal.lazy_group import LazyGroup, Verb

    class Verbs(LazyGroup):
        groups: ClassVar = {
            title: {name: Verb(*verb) for name, verb in verbs.items()}
            for title, verbs in _GROUPS.items()
        }

    app = typer.Typer(
        cls=Verbs,
        name="cec-store",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def print_version(is_asked: bool) -> None:
        if is_asked:
            from importlib.metadata import version

            typer.echo(f"cec-store {version('cec-store')}")
            raise typer.Exit

    @app.callback()
    def _all(
        show_version: bool = typer.Option(
            False, "--version", callback=print_version, is_eager=True,
            help="Print the version and exit.",
        ),
    ) -> None:  # fmt: skip
        """Look at output queues, read them again, and see recovery at work.

        Exit status: 0 sound, 1 damaged, 2 wrong use, 3 files that could not be read.
        """

    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return globals().setdefault("app", _application())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Entry point."""
    try:
        from cec_store.terminal.interrupts import raise_swallowed_interrupts_again

        raise_swallowed_interrupts_again()
        from cec_store.terminal.streams import escape_what_cannot_be_shown, flushed

        escape_what_cannot_be_shown()
        with flushed():
            _application()()
    except KeyboardInterrupt:
        sys.exit(130)
