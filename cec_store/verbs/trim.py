"""The verb `cec-store trim`: removes segments that no consumer and no restart needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from cec_store.inspector.measuring.totals import sums
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.ledger.reference_trims import TrimBounds
from cec_store.log.selection import Moment
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.gathering import gather
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import counted, size
from cec_store.values import Position
from cec_store.verbs.arguments import (
    AsJson,
    PlacePath,
    StorageOptions,
    Yes,
    moment_of,
    place_of,
    retention_of,
)
from cec_store.verbs.upkeep.by_log import (
    Trim,
    carry_out_trims,
    plan_trim_of,
    queues_of,
)
from cec_store.verbs.upkeep.by_reference import (
    carry_out_reference_trims,
    plan_reference_trims,
)


def _before(text: str) -> Moment:
    return Position(int(text)) if re.fullmatch(r"\d+", text) else moment_of(text)


Before = Annotated[
    Any,
    typer.Option(parser=_before, metavar="OFFSET|MOMENT", help="Only records before this."),
]


def trim_verb(
    path: PlacePath,
    before: Before = None,
    keep: Annotated[
        Any,
        typer.Option(
            parser=retention_of, metavar="7d|10GiB", help="What is older, or beyond that size."
        ),
    ] = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Delete segments that no consumer and no restart needs, as asked or by the retention."""
    screen = Screen()
    place = place_of(path, storage_options)
    place.require_open()
    is_reference = place.kind is PlaceKind.PARTITIONED_QUEUE
    with wrong_use():
        queues = place.logs if is_reference else queues_of(place)
        if is_reference and isinstance(before, Position):
            raise ValueError(f"{place.path} has partitions: give a moment, not an offset")
        TrimBounds(None if before is None else {}, keep)  # raises where both are given

    @cache
    def plan_partition() -> Callable[[Log], Trim]:
        return plan_reference_trims(place, before, keep)

    def plan(log: Log) -> Trim:
        return plan_partition()(log) if is_reference else plan_trim_of(log, before, keep)

    gathered = gather(place, queues, plan)
    trims = [trim for _, trim in gathered.answers]
    is_done = yes and gathered.is_sound
    if is_done:
        (carry_out_reference_trims if is_reference else carry_out_trims)(place, trims)
    totals = {
        "logs": len(queues),
        "segments": sum(planned.plan.segments for planned in trims),
        **sums(trims, "bytes", "records"),
    }
    if as_json:
        screen.document(gathered.as_json(_as_json, totals, done=is_done))
    else:
        for planned in trims:
            _show(screen, place, planned, is_done)
        if len(queues) > 1:
            did = "removed" if is_done else "would remove"
            what = f"{counted(totals['segments'], 'segment')} ({size(totals['bytes'])})"
            screen.line(f"{place.path}: {did} {what} of {len(queues):,} partitions", "bold")
        if totals["segments"] and not yes:
            screen.line("do it with --yes")
        if yes and not is_done:
            screen.line("nothing was removed, since not all could be read", "bold red")
    gathered.end()


def _as_json(trim: Trim) -> dict[str, Any]:
    return {
        "segments": trim.plan.segments,
        "files": list(trim.files),
        "bytes": trim.bytes,
        "records": trim.records,
        "first_segment": trim.plan.first_segment,
        "first_offset": trim.plan.first_offset,
        "held_by": list(trim.plan.held_by),
    }


def _show(screen: Screen, place: Place, trim: Trim, is_done: bool) -> None:
    plan = trim.plan
    did = "removed" if is_done else "would remove"
    what = counted(plan.segments, "segment")
    if plan.segments:
        what += (
            f" ({size(trim.bytes)}), offsets {trim.oldest_offset:,} to {plan.first_offset - 1:,}"
        )
    what = trim.log.named(f"{did} {what}; the oldest offset left is {plan.first_offset:,}")
    screen.line(f"{place.path}: {what}")
    for name in plan.held_by:
        screen.line(f"  consumer {name!r} needs the oldest segment that stays")
