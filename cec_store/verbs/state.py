"""The verb `cec-store state`."""

from __future__ import annotations

from typing import Annotated

import typer

from cec_store.inspector import Point, StoreReader, WindowReader, frame_at, version_at
from cec_store.inspector.places import place_at
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    Limit,
    Operator,
    Partition,
    PlacePath,
    Raw,
    Store,
    wrong_use,
)
from cec_store.verbs.outputs import As, Force, OutputFile, chosen_format, write_rows

Version = Annotated[int | None, typer.Option(min=1, help="At this version: batch N makes N + 1.")]


def state_verb(
    path: PlacePath,
    at: AtPoint = None,
    version: Version = None,
    operator: Operator = None,
    partition: Partition = None,
    store: Store = None,
    form: As = None,
    output: OutputFile = None,
    force: Force = False,
    raw: Raw = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Write the state at a version or a moment: the keys or windows that are open then."""
    form = chosen_format(form, output, as_json)
    place = place_at(path)
    if version is not None:
        if at is not None:
            raise typer.BadParameter("give --at or --version, not both")
        at = Point(str(version), version=version)
    with wrong_use():
        logs = place.chosen(operator, partition, store)
        if place.has_versions:
            wanted = version_at(place, at)
            rows = StoreReader(place, logs, raw, partition is None).state(wanted)
        else:
            if version is not None:
                raise ValueError(f"{place.path}: a {place.kind.value} has no versions")
            reader = WindowReader(place)
            rows = reader.state(frame_at(place, reader.chain, at))
    write_rows(place, rows, form, output, force, limit, version=rows.version)
