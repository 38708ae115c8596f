"""The verbs `cec-store fleet pause`, `resume`, `restart`, `redeploy`: one query of a fleet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.status import status_of
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import AsJson, StorageOptions, storage_options_of
from cec_store.verbs.fleet.going_back import Folder, WaitS

_LOOK_S = 0.2
QueryName = Annotated[str, typer.Argument(metavar="QUERY", help="A query of the fleet.")]


def pause_verb(
    path: Folder,
    query: QueryName,
    wait_s: WaitS = 60.0,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Stop one query of a fleet until it is resumed; its input waits in the queues."""
    fleet = _asked(path, storage_options, lambda fleet: fleet.pause(query))
    is_done = _waited(fleet, wait_s, lambda: not fleet.folder.read().of(query).is_active)
    _say(fleet, query, is_done, as_json)


def resume_verb(
    path: Folder,
    query: QueryName,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Have a paused query of a fleet go on where it was, at the driver's next look."""
    fleet = _asked(path, storage_options, lambda fleet: fleet.resume(query))
    _say(fleet, query, True, as_json)


def restart_verb(
    path: Folder,
    query: QueryName,
    wait_s: WaitS = 60.0,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Stop one query of a fleet and start it again; one that has failed does not wait longer."""
    fleet = _asked(path, storage_options, lambda fleet: fleet.restart(query))
    is_done = _waited(fleet, wait_s, lambda: query not in fleet.folder.requests().restarts)
    _say(fleet, query, is_done, as_json)


def redeploy_verb(
    path: Folder,
    query: QueryName,
    wait_s: WaitS = 60.0,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Start one query of a fleet again with its module's code as it is now; the others run on."""
    fleet = _asked(path, storage_options, lambda fleet: fleet.redeploy(query))
    is_done = _waited(fleet, wait_s, lambda: query not in fleet.folder.requests().redeploys)
    problem = fleet.folder.read().of(query).code_failure if is_done else ""
    _say(fleet, query, is_done, as_json, problem)


def _asked(path: str, given: StorageOptions, ask: Callable[[Fleet], None]) -> Fleet:
    """Return the fleet, once its driver is asked for something."""
    with wrong_use():
        fleet = Fleet.at(path, storage_options_of(given))
        ask(fleet)
    return fleet


def _waited(fleet: Fleet, wait_s: float, is_done: Callable[[], bool]) -> bool:
    """Wait until the driver has done it; without a driver there is nothing to wait for."""
    end_s = time.monotonic() + wait_s
    if not status_of(fleet.folder, time.time()).is_driven:
        return True
    while not (is_done_now := is_done()) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)
    return is_done_now


def _say(
    fleet: Fleet, query: str, is_done: bool, as_json: bool, problem: str | None = None
) -> None:
    status = status_of(fleet.folder, time.time())
    (state,) = {seen.state for seen in status.queries if seen.name == query}
    screen = Screen()
    if as_json:
        document = {"path": status.path, "query": query, "state": state, "done": is_done}
        screen.document(document if problem is None else {**document, "problem": problem})
    elif problem:
        screen.line(f"{query} runs on with its old code: {problem}")
    elif not is_done:
        screen.line(f"{query}: the fleet's driver has not done it yet; it is {state}")
    elif not status.is_driven:
        screen.line(f"{query}: no driver is alive; the next one does as told")
    else:
        screen.line(f"{query}: {state}")
    if not is_done or problem:
        raise typer.Exit(1)
