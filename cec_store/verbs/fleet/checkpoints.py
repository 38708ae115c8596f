"""The verb `cec-store fleet checkpoints`: global checkpoints, listed and asked for."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cec_store.connectors.spark.fleet.fleet_folder import CHECKPOINT, FleetFolder
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint
from cec_store.connectors.spark.fleet.status import status_of
from cec_store.errors import NoGlobalCheckpoint
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import moment
from cec_store.verbs.arguments import AsJson, StorageOptions
from cec_store.verbs.fleet.going_back import Folder, WaitS, folder_of

_LOOK_S = 0.2


def checkpoints_verb(
    path: Folder,
    take: Annotated[
        bool, typer.Option("--take", help="Ask the fleet's driver to take one now, and wait.")
    ] = False,
    wait_s: WaitS = 60.0,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """List the global checkpoints of a fleet that are kept, the oldest first."""
    folder = folder_of(path, storage_options)
    folder.read()
    if take:
        _take(folder, wait_s)
    kept = [folder.checkpoint(number) for number in folder.checkpoints()]
    screen = Screen()
    if as_json:
        screen.document({"path": folder.path, "checkpoints": list(map(_document, kept))})
        return
    names = ["number", "taken", "last batch of each query; –: it begins anew"]
    screen.table(f"global checkpoints of {folder.path}", names, list(map(_row, kept)))


def _take(folder: FleetFolder, wait_s: float) -> None:
    """Ask for one, and return once it is there, or the newest one has all that is done."""
    end_s = time.monotonic() + wait_s
    if not status_of(folder, time.time()).is_driven:
        raise NoGlobalCheckpoint(
            f"{folder.path}: no driver is alive, and only a driver takes global checkpoints; "
            "start the fleet first"
        )
    folder.ask(CHECKPOINT)
    while folder.requests().is_checkpoint_asked:
        if time.monotonic() >= end_s:
            folder.withdraw(CHECKPOINT)
            raise NoGlobalCheckpoint(
                f"{folder.path}: no global checkpoint within {wait_s:g} s: there is none during a "
                "recovery; `cec-store fleet status` says what is waited for"
            )
        time.sleep(_LOOK_S)


def _document(checkpoint: GlobalCheckpoint) -> dict[str, object]:
    return {
        "checkpoint": checkpoint.number,
        "timestamp_us": checkpoint.at_us,
        "batches": dict(checkpoint.batches),
    }


def _row(checkpoint: GlobalCheckpoint) -> list[str | int | float | None]:
    batches = (
        (name, "–" if batch is None else batch) for name, batch in checkpoint.batches.items()
    )
    return [
        checkpoint.number,
        moment(checkpoint.at_us),
        ", ".join(f"{name} {at}" for name, at in batches),
    ]
