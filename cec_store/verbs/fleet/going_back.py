"""The verbs `cec-store fleet rollback` and `fork`: a fleet at a global checkpoint."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.going_back import (
    check_is_kept,
    finished,
    fork_fleet,
    roll_back,
)
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint
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
        _tell(Screen(), folder.path, checkpoint, None, as_json, is_done=False)
        return
    with folder.leases().hold(LEASE, keep_alive=KEEP_ALIVE) as lease:
        # The last holder may have changed them since they were read.
        notes = finished(folder, folder.read(), lease.check)
        checkpoint = _wanted(folder, at, number)
        roll_back(folder, notes, checkpoint, lease.check)
    _tell(Screen(), folder.path, checkpoint, None, as_json, is_done=True)


def fork_fleet_verb(
    path: Folder,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The folder to make.")],
    at: At = None,
    number: Number = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a fleet of its own that goes on from a global checkpoint. The old one may run."""
    folder = folder_of(path, storage_options)
    checkpoint = _wanted(folder, at, number)
    if yes:
        fork_fleet(folder, new, checkpoint)
    else:
        check_is_kept(folder, folder.read(), checkpoint)
    _tell(Screen(), folder.path, checkpoint, folder.beside(new).path, as_json, is_done=yes)


def _tell(
    screen: Screen,
    path: str,
    checkpoint: GlobalCheckpoint,
    new: str | None,
    as_json: bool,
    *,
    is_done: bool,
) -> None:
    if as_json:
        screen.document(
            {
                "path": path,
                "new": new,
                "done": is_done,
                "checkpoint": checkpoint.number,
                "timestamp_us": checkpoint.at_us,
                "batches": dict(checkpoint.batches),
            }
        )
        return
    verb = "continues" if is_done else "would continue"
    screen.line(
        f"{new or path}: {verb} from global checkpoint {checkpoint.number}, of "
        f"{format_timestamp_us(checkpoint.at_us)}"
    )
    for name, batch in checkpoint.batches.items():
        screen.line(f"  {name}: {'anew' if batch is None else f'after batch {batch}'}")
    if not is_done:
        screen.line("do it with --yes")
