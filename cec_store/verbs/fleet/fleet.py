"""The verbs below `cec-store fleet`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.fleet_folder import STOP
from cec_store.connectors.spark.fleet.lags import QueryLag, lags_of, opened_queues
from cec_store.connectors.spark.fleet.status import FleetStatus, QueryStatus, status_of
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import counted, moment, span
from cec_store.verbs.arguments import AsJson, StorageOptions, storage_options_of
from cec_store.verbs.fleet.checkpoints import checkpoints_verb
from cec_store.verbs.fleet.going_back import (
    Folder,
    WaitS,
    folder_of,
    fork_fleet_verb,
    rollback_verb,
)
from cec_store.verbs.fleet.monitor import FleetMonitor
from cec_store.verbs.fleet.one_query import pause_verb, redeploy_verb, restart_verb, resume_verb
from cec_store.verbs.fleet.stopping import Sigterm
from cec_store.verbs.spark.session import settings_of, spark_session
from cec_store.verbs.working_folder import look_in_working_folder

_EXAMPLE = "Example: cec-store fleet "
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _fleet() -> None:
    """Run Spark queries that read each other's queues, and recover them one by one."""


app.command("checkpoints", epilog=_EXAMPLE + "checkpoints fleets/sales")(checkpoints_verb)
app.command("rollback", epilog=_EXAMPLE + "rollback fleets/sales")(rollback_verb)
app.command("fork", epilog=_EXAMPLE + "fork fleets/sales fleets/trial")(fork_fleet_verb)
app.command("pause", epilog=_EXAMPLE + "pause fleets/sales totals")(pause_verb)
app.command("resume", epilog=_EXAMPLE + "resume fleets/sales totals")(resume_verb)
app.command("restart", epilog=_EXAMPLE + "restart fleets/sales totals")(restart_verb)
app.command("redeploy", epilog=_EXAMPLE + "redeploy fleets/sales totals")(redeploy_verb)


def _fleet_at(place: str, given: StorageOptions) -> Fleet:
    """Return the fleet of a TOML file, or of a fleet's folder."""
    path, options = Path(place), storage_options_of(given)
    with wrong_use():
        return Fleet.of_toml(path, options) if path.is_file() else Fleet.at(place, options)


@app.command("run", epilog=_EXAMPLE + "run sales.toml")
def run_verb(
    place: Annotated[
        str, typer.Argument(metavar="FLEET", help="A TOML file, or the folder of a fleet.")
    ],
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="Of the session, over the file's."),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Run all on the executors that there are.")
    ] = False,
    storage_options: StorageOptions = None,
) -> None:
    """Start all of a fleet's queries, or go on where its last driver was, until it is stopped.

    Modules of its functions are looked for in the working folder first. SIGTERM and Ctrl-C stop it
    as `cec-store fleet stop` does.
    """
    look_in_working_folder()
    fleet = _fleet_at(place, storage_options)
    # FAIR, so that queries which are behind do not hold up the others.
    settings = {"spark.scheduler.mode": "FAIR", **fleet.spark, **settings_of(conf)}
    with ExitStack() as opened:
        with wrong_use():
            fleet.checked()
            fleet.check_is_free()
            name = f"fleet {fleet.folder.path}"
            session = opened.enter_context(spark_session(name, settings))
        # Before this point a signal may end the process at once, because nothing is driven yet.
        with Sigterm() as sigterm, fleet.start(session, accept=accept) as driver:
            sigterm.calls(driver.end_soon)
            path = fleet.folder.path
            Screen().note(f"{path}: runs; `cec-store fleet stop {path}` ends it")
            driver.wait()


@app.command(
    "watch",
    epilog=_EXAMPLE + "watch fleets/sales -- cec-store fleet run fleets/sales",
)
def watch_verb(
    path: Folder,
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="After --: what starts the fleet's driver."),
    ],
    storage_options: StorageOptions = None,
) -> None:
    """Start a fleet's driver again whenever it has failed; where the cluster does not run."""
    with wrong_use():
        monitor = FleetMonitor(folder_of(path, storage_options), command)
        Screen().note(f"{path}: watched; {command[0]} starts it when its driver is silent")
        monitor.watch(Event())


@app.command("stop", epilog=_EXAMPLE + "stop fleets/sales")
def stop_verb(
    path: Folder,
    wait_s: WaitS = 60.0,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Ask a fleet's driver to stop all of its queries."""
    folder = folder_of(path, storage_options)
    end_s = time.monotonic() + wait_s
    status = status_of(folder, time.time())
    if not status.has_ended:
        # A silent driver may wake up, and `fleet watch` may be about to start another one.
        folder.ask(STOP)
    while status.is_driven and time.monotonic() < end_s:
        status = status_of(folder, time.time())
    if as_json:
        Screen().document({"path": status.path, "stopped": not status.is_driven})
    else:
        Screen().line(f"{status.path}: {status.state}")
    if status.is_driven:
        raise typer.Exit(1)


@app.command("status", epilog=_EXAMPLE + "status fleets/sales")
def status_verb(
    path: Folder, storage_options: StorageOptions = None, as_json: AsJson = False
) -> None:
    """Show who runs, who waits for what, and when it will run."""
    folder = folder_of(path, storage_options)
    notes = folder.read()
    status = status_of(folder, time.time(), notes=notes)
    queues = opened_queues(folder, notes.graph)
    lags = lags_of(folder, notes, queues, is_driven=status.is_driven)
    screen = Screen()
    if as_json:
        queries = [{**asdict(query), **asdict(lags[query.name])} for query in status.queries]
        screen.document({**asdict(status), "queries": queries})
    else:
        _show(screen, status, lags)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _show(screen: Screen, status: FleetStatus, lags: Mapping[str, QueryLag]) -> None:
    screen.line(f"{status.path}: {status.state}; driver {status.driver}")
    cores = "core" if status.cores == 1 else "cores"
    screen.line(f"{counted(status.executors, 'executor')} with {status.cores:g} {cores}")
    if status.missing_since_s is not None:
        asked = "" if status.asked_s is None else f"; asked for {moment(_us(status.asked_s))}"
        since = moment(_us(status.missing_since_s))
        missing = counted(status.executors_missing, "executor")
        screen.line(f"{missing} missing since {since}{asked}", "bold")
    if status.ask_failure:
        screen.line(f"on_missing has failed: {status.ask_failure}", "bold red")
    if status.message:
        screen.line(status.message, "bold")
    if status.checkpoint is None:
        screen.line("no global checkpoint yet")
    else:
        screen.line(f"global checkpoint {status.checkpoint}, of {moment(status.checkpoint_us)}")
    names = ("query", "state", "priority", "cores", "batch", "records waiting", "for",
             "waits for", "expected")  # fmt: skip
    rows = [_row(query, lags[query.name]) for query in status.queries]
    screen.table("queries, each after those that it reads", names, rows)
    for query in status.queries:
        if query.failures:
            screen.line(
                f"{query.name} has failed {query.failures} times: {query.reason}", "bold red"
            )
        if problem := lags[query.name].lag_problem:
            screen.line(f"how far {query.name} is behind is not known: {problem}", "bold red")


def _row(query: QueryStatus, lag: QueryLag) -> list[str | int | float | None]:
    cores = "–" if query.cores is None else f"{query.cores:.3g}"
    since_us = lag.waiting_since_us
    waited = "" if since_us is None else span(time.time_ns() // 1000 - since_us)
    return [
        query.name, query.state, query.priority, cores, query.batch, lag.records_waiting, waited,
        query.waits_for, _expected(query),
    ]  # fmt: skip


def _expected(query: QueryStatus) -> str:
    if query.arrivals is None:
        return ""
    more = f"with {counted(query.arrivals, 'more executor')}"
    if query.expected_s is None:
        return f"{more}; none has come yet"
    return f"{more}, {moment(round(query.expected_s * 1e6))}"
