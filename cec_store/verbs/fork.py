"""The verb `cec-store fork`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cec_store.connectors.spark.fork import fork
from cec_store.screens import Screen
from cec_store.units import format_timestamp_us
from cec_store.verbs.arguments import AsJson, BeganAt


def fork_verb(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A query's checkpointLocation.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder to make.")],
    at: BeganAt = None,
    batch: Annotated[int | None, typer.Option(min=0, help="After this batch.")] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="From this version of the state: batch + 1.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a checkpoint that runs on from the state at an earlier moment. The old one stays."""
    if [at, batch, version].count(None) != 2:
        raise typer.BadParameter("give one of --at, --batch and --version")
    batch = version - 1 if version is not None else batch
    done = fork(checkpoint, new, at=at, batch=batch, dry_run=dry_run)
    screen = Screen()
    if as_json:
        screen.document({**asdict(done), "done": not dry_run})
        return
    goes_on = "would go on" if dry_run else "goes on"
    began = format_timestamp_us(done.timestamp_us)
    screen.line(f"{done.path}: {goes_on} after batch {done.batch}, which began at {began}")
    screen.line(
        f"  {done.linked_files:,} files of state linked ({done.linked_bytes:,} bytes), "
        f"{done.copied_files:,} files copied ({done.copied_bytes:,} bytes)"
    )
