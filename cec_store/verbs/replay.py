"""The verb `cec-store replay`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cec_store.formats import Format, limited, replay_schema, write_batches
from cec_store.replay import OUTPUT_KINDS
from cec_store.state_log import CHANGE_KINDS, CHANGES, StateLog
from cec_store.store import open_queue
from cec_store.verbs.arguments import At, Kinds, Limit, QueuePath, Since, Until, folder_at


def replay_verb(
    queue: QueuePath,
    since: Since = None,
    until: Until = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = (
        False
    ),
    limit: Limit = None,
    kinds: Kinds = None,
    at: At = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also _timestamp, _kind and _offset.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As --format jsonl.")] = False,
) -> None:
    """Read a queue's output again, from a moment on; of a state store what was put and removed."""
    form = Format.JSONL if as_json else form
    if form is Format.ARROW and sys.stdout.isatty():
        raise typer.BadParameter("an Arrow stream is not for a terminal: send it to a file or pipe")
    with open_queue(folder_at(queue, at)) as source:
        if isinstance(source, StateLog):
            if follow:
                raise typer.BadParameter("a state store is read at a version: it has no --follow")
            rows = source.replay(
                since, until, at=at, kinds=kinds or CHANGE_KINDS, include_metadata=metadata
            )
            schema = replay_schema(CHANGES, metadata)
        else:
            rows = source.replay(
                since, until, follow=follow, kinds=kinds or OUTPUT_KINDS, include_metadata=metadata
            )
            schema = replay_schema(source.schema.data, metadata)
        try:
            write_batches(limited(rows, limit), schema, form, sys.stdout)
        except KeyboardInterrupt:
            if not follow:
                raise
            rows.stop()
