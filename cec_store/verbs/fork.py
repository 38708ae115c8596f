"""The verb `cec-store fork`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cec_store.connectors.spark.checkpoint.fork import fork
from cec_store.inspector.places.places import place_at
from cec_store.terminal.documents import document
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import size
from cec_store.values import format_timestamp_us
from cec_store.verbs.arguments import AsJson, BeganAt, StorageOptions, Yes, given_folders


def fork_verb(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A query's checkpointLocation.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The folder to make.")],
    at: BeganAt = None,
    batch: Annotated[int | None, typer.Option(min=0, help="After this batch.")] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="From this version of the state: batch + 1.")
    ] = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a checkpoint that continues from an earlier batch. The old one stays."""
    if [at, batch, version].count(None) != 2:
        raise typer.BadParameter("give one of --at, --batch and --version")
    batch = version - 1 if version is not None else batch
    places = given_folders((checkpoint, new), storage_options)
    screen = Screen(has_bars=not as_json)
    with screen.waiting("copying the checkpoint" if yes else "reading the checkpoint"):
        done = fork(*places, at=at, batch=batch, dry_run=not yes)
    if as_json:
        place = place_at(places[0])
        fields = asdict(done)
        names = ("linked_files", "linked_bytes", "copied_files", "copied_bytes")
        totals = {"logs": len(place.logs)} | {name: fields[name] for name in names}
        own = {name: fields[name] for name in ("batch", "timestamp_us", "query_id")}
        logs = [log.fields() for log in place.logs]
        screen.document(document(place, True, logs, totals, new=done.path, done=yes, **own))
        return
    continues = "continues" if yes else "would continue"
    began = format_timestamp_us(done.timestamp_us)
    screen.line(f"{done.path}: {continues} after batch {done.batch}, which began at {began}")
    screen.line(
        f"  {done.linked_files:,} files of state linked ({size(done.linked_bytes)}), "
        f"{done.copied_files:,} files copied ({size(done.copied_bytes)})"
    )
    if not yes:
        screen.line("do it with --yes")
