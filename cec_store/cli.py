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
            "Print the frames and records of a log, skipping damaged regions.",
            lambda: import_module("cec_store.verbs.dump").dump_verb,
            "dump queues/totals --last 5",
        ),
    },
    "Queues": {
        "tail": (
            "Show the last rows of a queue, in commit order; -f also waits for new ones.",
            lambda: import_module("cec_store.verbs.tail").tail_verb,
            "tail queues/totals -n 5",
        ),
        "replay": (
            "Read the rows of a queue again, or the puts and removals of a state store.",
            lambda: import_module("cec_store.verbs.replay").replay_verb,
            "replay queues/totals --since yesterday",
        ),
        "consumers": (
            "List the consumers of a queue; add or drop one; set the queue's retention.",
            lambda: import_module("cec_store.verbs.consumers").consumers_verb,
            "consumers queues/totals --add hourly",
        ),
        "trim": (
            "Delete segments that no consumer and no restart needs, as asked or by the retention.",
            lambda: import_module("cec_store.verbs.trim").trim_verb,
            "trim queues/totals --keep 7d",
        ),
        "reindex": (
            "Rebuild the timestamp index from the log. The log is not changed.",
            lambda: import_module("cec_store.verbs.reindex").reindex_verb,
            "reindex queues/totals",
        ),
    },
    "State": {
        "state": (
            "Print the state at a version or a time: the keys or windows that were open.",
            lambda: import_module("cec_store.verbs.state").state_verb,
            "state checkpoints/totals --format csv",
        ),
        "changes": (
            "Print the changes between the states at FROM and at TO.",
            lambda: import_module("cec_store.verbs.changes").changes_verb,
            "changes checkpoints/totals 3 5",
        ),
        "diff": (
            "Compare two versions of one place, or two places: keys added, removed and changed.",
            lambda: import_module("cec_store.verbs.diff").diff_verb,
            "diff checkpoints/totals --from 3",
        ),
        "advise": (
            "Name the cheapest scheme that recovers in time after a failure, and what each costs.",
            lambda: import_module("cec_store.verbs.standby.advise").advise_verb,
            "advise --rate 10000 --window 60",
        ),
        "size": (
            "Estimate what a Spark query's state takes: heap, disk, restarts, requests.",
            lambda: import_module("cec_store.verbs.sizing.size").size_verb,
            "size --keys 10M --changes 100k",
        ),
    },
    "Checkpoints of Spark": {
        "fork": (
            "Make a checkpoint that continues from an earlier batch. The old one stays.",
            lambda: import_module("cec_store.verbs.fork").fork_verb,
            "fork checkpoints/totals checkpoints/earlier --batch 3",
        ),
        "adopt": (
            "Make a checkpoint in which a query of Spark's stores continues with cec-store.",
            lambda: import_module("cec_store.verbs.moving").adopt_verb,
            "adopt checkpoints/old checkpoints/new",
        ),
        "release": (
            "Make a checkpoint in which a query continues with one of Spark's own stores.",
            lambda: import_module("cec_store.verbs.moving").release_verb,
            "release checkpoints/totals checkpoints/back",
        ),
        "repartition": (
            "Make a checkpoint in which a query continues with more or fewer partitions.",
            lambda: import_module("cec_store.verbs.moving").repartition_verb,
            "repartition checkpoints/totals checkpoints/wide --partitions 8",
        ),
        "compare": (
            "Compare the state of two checkpoints, of any providers.",
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
            "Run Spark queries that read each other's queues, and recover them one by one.",
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
        """Inspect queues and state, read them again, and move, fork and watch checkpoints.

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
        from cec_store.terminal.interrupts import note_interrupts, raise_swallowed_interrupts_again

        raise_swallowed_interrupts_again()
        note_interrupts()
        from cec_store.terminal.streams import escape_what_cannot_be_shown, flushed

        escape_what_cannot_be_shown()
        with flushed():
            _application()()
    except KeyboardInterrupt:
        sys.exit(130)
