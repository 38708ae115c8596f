"""The verb `cec-store tail`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import typer

from cec_store.inspector.places.places import PlaceKind
from cec_store.log.selection import OUTPUT_KINDS
from cec_store.opening import follow as follow_queue
from cec_store.partitioned.following import Following
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.formats import Format, write_batches
from cec_store.terminal.interrupts import raise_noted_interrupt
from cec_store.terminal.streams import refuse_closed_output
from cec_store.verbs.arguments import (
    Follow,
    Kinds,
    Since,
    StorageOptions,
    Until,
    count_option,
    place_of,
)

_LINES = 10
_FORMATS = (Format.TABLE, Format.JSONL, Format.CSV)
QueuePath = Annotated[
    str, typer.Argument(metavar="QUEUE", help="A queue, of many partitions or of none.")
]


def tail_verb(
    path: QueuePath,
    follow: Follow = False,
    lines: Annotated[
        int | None,
        count_option(
            "The last so many rows; by default 10, or with --since all from there on.",
            "--lines", "-n",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    form: Annotated[
        Format, typer.Option("--format", metavar="table|jsonl|csv", help="How rows are written.")
    ] = Format.TABLE,
    kinds: Kinds = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also _timestamp, _kind, _offset and _partition.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="As --format jsonl.")] = False,
) -> None:  # fmt: skip
    """Show the last rows of a queue, in commit order; -f also waits for new ones."""
    form = Format.JSONL if as_json or form is Format.JSON else form
    if form not in _FORMATS:
        raise typer.BadParameter(f"{form.value} has an end; tail writes table, jsonl or csv")
    place = place_of(path, storage_options)
    if place.kind not in (PlaceKind.QUEUE, PlaceKind.PARTITIONED_QUEUE):
        raise typer.BadParameter(f"{place.path}: a {place.kind.value} is no queue; try dump")
    if lines is None and since is None:
        lines = _LINES
    with wrong_use():
        following = follow_queue(
            place.folder, since, until, last=lines, kinds=kinds or OUTPUT_KINDS,
            include_metadata=metadata,
        )  # fmt: skip
    with following:
        rows = _and_those_to_come(following) if follow else following.available()
        try:
            write_batches(rows, following.schema, form, sys.stdout)
        except KeyboardInterrupt:
            if not follow:
                raise


def _and_those_to_come(following: Following) -> Iterator[pa.RecordBatch]:
    """Yield rows for ever, and say once what is waited for."""
    has_said = False
    while True:
        raise_noted_interrupt()
        yield from following.available()
        if not has_said:
            sys.stderr.write(f"cec-store: waiting for {following.waits_for}; end with Ctrl-C\n")
            sys.stderr.flush()
            has_said = True
        refuse_closed_output()
        following.wait()
