"""The verb `cec-store doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from cec_store.doctor.checkups import machine_checkup, place_checkup
from cec_store.terminal.doctor_screens import checkup_as_json, show_checkup
from cec_store.terminal.exit_status import COULD_NOT_LOOK, DAMAGED, wrong_use
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import AsJson, StorageOptions, storage_options_of
from cec_store.verbs.spark.session import settings_of


def doctor_verb(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="A queue, a state store, a checkpoint or a fleet; without it, this machine.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="NAME=VALUE", help="Of the Spark session that is looked at."
        ),
    ] = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is set up wrong, on this machine or at a place, and say what to do.

    Reads only. The exit status is 1 where something has to be done.
    """
    screen = Screen()
    options, settings = storage_options_of(storage_options), settings_of(conf)
    if path is None:
        if options:
            raise typer.BadParameter("--storage-option is for a PATH that is a URL")
        checkup = machine_checkup(settings)
    else:
        with wrong_use():
            checkup = place_checkup(path, options, settings)
    if as_json:
        screen.document(checkup_as_json(checkup))
    else:
        show_checkup(screen, checkup)
    if not checkup.is_sound:
        subjects = {line.subject for line in checkup.faults}
        raise typer.Exit(COULD_NOT_LOOK if subjects == {"unreadable"} else DAMAGED)
