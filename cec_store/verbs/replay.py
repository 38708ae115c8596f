"""The verb `cec-store replay`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import pyarrow as pa
import typer

from cec_store.inspector.places.places import Place, PlaceKind
from cec_store.inspector.places.points import version_at
from cec_store.log.selection import OUTPUT_KINDS
from cec_store.opening import open_queue, read_queue
from cec_store.state_logs.state_log import CHANGE_KINDS, CHANGES, StateLog
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.formats import Format, limited, replay_schema, write_batches
from cec_store.terminal.streams import stopping_with_output
from cec_store.verbs.arguments import (
    AtPoint,
    Follow,
    FromMoment,
    Kinds,
    Limit,
    PlacePath,
    Since,
    StorageOptions,
    Until,
    logs_of,
)

Rows = Iterator[pa.RecordBatch]


def replay_verb(
    path: PlacePath,
    since: Since = None,
    until: Until = None,
    from_moment: FromMoment = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    follow: Follow = False,
    limit: Limit = None,
    kinds: Kinds = None,
    at: AtPoint = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also _timestamp, _kind and _offset.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="As --format jsonl.")] = False,
) -> None:
    """Read the rows of a queue again, or the puts and removals of a state store."""
    form = Format.JSONL if as_json or form is Format.JSON else form
    if not form.is_text and sys.stdout.isatty():
        raise typer.BadParameter(f"{form.value} is not for a terminal: send it to a file or pipe")
    place = logs_of(path, storage_options)
    if follow and place.kind is not PlaceKind.QUEUE:
        raise typer.BadParameter(f"a {place.kind.value} has no --follow here; dump --follow has")
    with ExitStack() as stack:
        with wrong_use():
            rows, schema = _rows(
                stack, place, at, follow,
                since=since, until=until, from_moment=from_moment,
                kinds=kinds, include_metadata=metadata,
            )  # fmt: skip
        try:
            write_batches(limited(rows, limit), schema, form, sys.stdout)
        except KeyboardInterrupt:
            if not follow:
                raise


def _rows(
    stack: ExitStack, place: Place, at: Any, follow: bool, **arguments: Any
) -> tuple[Rows, pa.Schema]:
    """Return the selected rows of a place, and their columns.

    ``wanted`` are arguments of the place's reader.
    """
    if place.kind is PlaceKind.CHECKPOINT:
        raise ValueError(
            f"{place.path}: a checkpoint has no output; what its batches did: cec-store changes"
        )
    if at is not None and not place.has_versions:
        raise ValueError(f"--at is a version of a Spark state store; {place.path} has none")
    arguments["kinds"] = arguments["kinds"] or (
        CHANGE_KINDS if place.has_versions else OUTPUT_KINDS
    )
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        reader = read_queue(place.folder, **arguments)
        return reader, reader.schema
    source = stack.enter_context(open_queue(place.folder))
    if isinstance(source, StateLog):
        changes = source.replay(at=version_at(place, at), **arguments)
        return changes, replay_schema(CHANGES, arguments["include_metadata"])
    rows = source.replay(follow=follow, **arguments)
    if follow:
        stack.enter_context(stopping_with_output(rows.stop))
    return rows, replay_schema(source.schema.data, arguments["include_metadata"])
