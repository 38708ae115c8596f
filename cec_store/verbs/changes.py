"""The verb `cec-store changes`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cec_store.inspector.places.points import seq_at, version_at, version_before
from cec_store.inspector.showing.states import StoreReader, WindowReader
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.outputs import As, Force, OutputFile, chosen_format, write_rows
from cec_store.verbs.arguments import (
    AsJson,
    Limit,
    Operator,
    Partition,
    PlacePath,
    Raw,
    StorageOptions,
    Store,
    logs_of,
    parse_point,
)

From = Annotated[
    Any, typer.Argument(parser=parse_point, metavar="FROM", help="After this version or moment.")
]
To = Annotated[
    Any, typer.Argument(parser=parse_point, metavar="TO", help="Up to this one, included.")
]


def changes_verb(
    path: PlacePath,
    after: From,
    to: To,
    operator: Operator = None,
    partition: Partition = None,
    store: Store = None,
    form: As = None,
    output: OutputFile = None,
    force: Force = False,
    raw: Raw = False,
    limit: Limit = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print the changes between the states at FROM and at TO."""
    form = chosen_format(form, output, as_json)
    place = logs_of(path, storage_options)
    own: dict[str, Any]
    with wrong_use():
        logs = place.chosen(operator, partition, store)
        if place.has_versions:
            last = version_at(place, to)
            first = version_before(place, after)
            if isinstance(last, int) and first > last:
                raise ValueError(f"version {first} comes after {last}")
            rows = StoreReader(place, logs, raw, partition is None).changes(first + 1, last)
            own = {"from_version": first, "to_version": last}
        else:
            reader = WindowReader(place)
            ends = [seq_at(place, reader.chain, point) for point in (after, to)]
            if (-1 if ends[0] is None else ends[0]) > (-1 if ends[1] is None else ends[1]):
                raise ValueError(f"{after.text} comes after {to.text}")
            rows = reader.changes(*ends)
            own = {"from_seq": ends[0], "to_seq": ends[1]}
    write_rows(place, rows, form, output, force, limit, **own)
