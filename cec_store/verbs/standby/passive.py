"""The verb `cec-store standby`: an application that waits until it is needed."""

from __future__ import annotations

from typing import Annotated

import typer

from cec_store.connectors.spark.setup.environment import become
from cec_store.connectors.spark.takeover.passive import STANDBY_OF, check_checkpoint
from cec_store.terminal.exit_status import wrong_use
from cec_store.verbs.arguments import StorageOptions, storage_options_of


def standby_verb(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")
    ],
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="After --: what starts the application."),
    ],
    storage_options: StorageOptions = None,
) -> None:
    """Start a Spark application as its query's standby: warm, and at work once it is needed."""
    with wrong_use():
        check_checkpoint(checkpoint, storage_options_of(storage_options))
        become(command, {STANDBY_OF: checkpoint})
