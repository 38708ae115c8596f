"""The verbs `cec-store fleet rollback` and `fork`: a fleet at a global checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import typer

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.going_back import (
    check_is_kept,
    finished,
    fork_fleet,
    not_taken_back,
    roll_back,
    shared_outputs,
)
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint, Notes
from cec_store.connectors.spark.fleet.outer import OuterEffect
from cec_store.connectors.spark.fleet.rules import KEEP_ALIVE
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import NoGlobalCheckpoint
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Screen
from cec_store.values import format_timestamp_us
from cec_store.verbs.arguments import AsJson, StorageOptions, Yes, moment_of, storage_options_of

WaitS = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait until it is done.")]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The fleet's folder.")]


def folder_of(path: str, given: StorageOptions) -> FleetFolder:
    """Return the fleet's folder at a path or URL; the options are for URLs."""
    options = storage_options_of(given)
    with wrong_use():
        return FleetFolder(path, options)


def _moment(text: str) -> int:
    moment = moment_of(text)
    if not isinstance(moment, int):
        raise typer.BadParameter(f"{text!r} is an offset; give a time")
    return moment


At = Annotated[
    Any,
    typer.Option(
        parser=_moment, metavar="MOMENT", help="The last global checkpoint taken by this time."
    ),
]
Number = Annotated[
    int | None, typer.Option("--checkpoint", min=0, help="The global checkpoint of this number.")
]

Again = Annotated[
    list[str] | None,
    typer.Option(
        "--again",
        metavar="QUERY",
        help="A query whose sink, which is no queue, may get batches once more.",
    ),
]


def _wanted(folder: FleetFolder, at: int | None, number: int | None) -> GlobalCheckpoint:
    """The newest one where neither is given."""
    if at is not None and number is not None:
        raise typer.BadParameter("give --at or --checkpoint, not both")
    if number is not None:
        return folder.checkpoint(number)
    if at is not None:
        return folder.checkpoint_at(at)
    newest = folder.newest_checkpoint()
    if newest is None:
        raise NoGlobalCheckpoint(f"{folder.path}: no global checkpoint was taken yet")
    return newest


def rollback_verb(
    path: Folder,
    at: At = None,
    number: Number = None,
    again: Again = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Bring all queries and queues of a stopped fleet back to a global checkpoint."""
    folder = folder_of(path, storage_options)
    notes = folder.read()
    if not yes:
        checkpoint = _wanted(folder, at, number)
        check_is_kept(folder, notes, checkpoint)
        told = _Told(folder.path, None, notes, checkpoint)
        _tell(told, not_taken_back(folder, notes, checkpoint), as_json, is_done=False)
        return
    with folder.leases().hold(LEASE, keep_alive=KEEP_ALIVE) as lease:
        # The last holder may have changed them since they were read.
        notes = finished(folder, folder.read(), lease.check)
        checkpoint = _wanted(folder, at, number)
        effects = not_taken_back(folder, notes, checkpoint)
        roll_back(folder, notes, checkpoint, lease.check, again or ())
    _tell(_Told(folder.path, None, notes, checkpoint), effects, as_json, is_done=True)


def fork_fleet_verb(
    path: Folder,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The folder to make.")],
    at: At = None,
    number: Number = None,
    again: Again = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a fleet of its own that goes on from a global checkpoint. The old one may run."""
    folder = folder_of(path, storage_options)
    checkpoint, notes = _wanted(folder, at, number), folder.read()
    if yes:
        fork_fleet(folder, new, checkpoint, again or ())
    else:
        check_is_kept(folder, notes, checkpoint)
    told = _Told(folder.path, folder.beside(new).path, notes, checkpoint)
    _tell(told, shared_outputs(notes, checkpoint), as_json, is_done=yes)


class _Told(NamedTuple):
    """A fleet that goes back or is forked, and where to."""

    path: str
    new: str | None
    notes: Notes
    checkpoint: GlobalCheckpoint


def _tell(told: _Told, effects: Sequence[OuterEffect], as_json: bool, *, is_done: bool) -> None:
    screen, checkpoint = Screen(), told.checkpoint
    queries = told.notes.graph.queries
    sources = {
        name: [source.name for source in query.sources]
        for name, query in queries.items()
        if query.sources
    }
    if as_json:
        screen.document(
            {
                "path": told.path,
                "new": told.new,
                "done": is_done,
                "checkpoint": checkpoint.number,
                "timestamp_us": checkpoint.at_us,
                "batches": dict(checkpoint.batches),
                "not_taken_back": [asdict(effect) for effect in effects],
                "read_again": sources,
            }
        )
        return
    verb = "continues" if is_done else "would continue"
    screen.line(
        f"{told.new or told.path}: {verb} from global checkpoint {checkpoint.number}, of "
        f"{format_timestamp_us(checkpoint.at_us)}"
    )
    for name, batch in checkpoint.batches.items():
        at = "anew" if batch is None else f"after batch {batch}"
        read = f"; reads {', '.join(sources[name])} from there on" if name in sources else ""
        screen.line(f"  {name}: {at}{read}")
    for effect in effects:
        screen.line(f"not taken back: {effect}", "bold red")
    if not is_done:
        consent = "".join(f" --again {effect.query}" for effect in effects)
        screen.line(f"do it with --yes{consent}")
