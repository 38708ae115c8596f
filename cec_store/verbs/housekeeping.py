"""The verbs `consumers`, `trim` and `reindex`: who holds a queue, letting go of it, its index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cec_store.acknowledgement import acknowledgements
from cec_store.chain import Chain
from cec_store.consumers import ConsumerState, consumer_states, drop_consumer
from cec_store.files import LocalFolder
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.layout import WRITER_LOCK, acknowledgement_name, check_consumer_name
from cec_store.screens import Screen
from cec_store.store import open_queue
from cec_store.trimming import plan_trim
from cec_store.units import format_timestamp_us
from cec_store.verbs.arguments import AsJson, QueuePath, Yes


def consumers_verb(
    queue: QueuePath,
    drop: Annotated[
        str | None, typer.Option(metavar="NAME", help="Forget this consumer, with --yes.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List who the queue keeps its records for, and how far each of them is; or drop one."""
    screen = Screen()
    folder = LocalFolder(queue)
    chain = Chain(folder)
    if drop is not None:
        _require(folder, drop)
        if yes:
            drop_consumer(folder, drop)
        if as_json:
            screen.document({"path": folder.path, "dropped": drop, "done": yes})
        elif yes:
            screen.line(f"{folder.path}: dropped consumer {drop!r}; the queue waits for it no more")
        else:
            screen.line(f"{folder.path}: would drop consumer {drop!r}; do it with --yes")
        return
    found = consumer_states(chain)
    if as_json:
        offsets = {"first_offset": chain.first_offset(), "end_offset": chain.end.offset}
        rows = [asdict(each) for each in found]
        screen.document({"path": folder.path, **offsets, "consumers": rows})
    elif found:
        names = ("name", "received", "effects saved", "lag", "lag s", "acknowledged")
        screen.table(f"{folder.path}: consumers", names, [_row(each) for each in found])
    else:
        screen.line(f"{folder.path}: no consumers")


def _require(folder: LocalFolder, name: str) -> None:
    try:
        file_name = acknowledgement_name(check_consumer_name(name))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if file_name not in folder.names():
        raise typer.BadParameter(f"{folder.path}: no consumer {name!r}")


def _row(state: ConsumerState) -> tuple[str | int, ...]:
    lag_s = f"{state.lag_us / 1e6:,.1f}"
    when = format_timestamp_us(state.acknowledged_us)
    return (state.name, state.received, state.effects_saved, state.lag_records, lag_s, when)


def trim_verb(
    queue: QueuePath,
    before: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="Only records below this offset.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the segments that no consumer and no restart needs. Without either, name an offset."""
    screen = Screen()
    folder = LocalFolder(queue)
    chain = Chain(folder)
    plan = plan_trim(chain, acknowledgements(folder, chain.manifest.log_id), before)
    if yes and plan.segments:
        with open_queue(folder, "a") as writer:
            writer.trim(before)
    if as_json:
        screen.document({"path": folder.path, "done": yes, **asdict(plan)})
        return
    did = "removed" if yes else "would remove"
    screen.line(
        f"{folder.path}: {did} {plan.segments:,} segments; the oldest offset left is "
        f"{plan.first_offset:,}{'' if yes or not plan.segments else '; do it with --yes'}"
    )
    for name in plan.held_by:
        screen.line(f"  consumer {name!r} needs the oldest segment that stays")


def reindex_verb(
    queue: QueuePath,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the timestamp index and make it anew from the log. The log is not touched."""
    screen = Screen()
    folder = LocalFolder(queue)
    chain = Chain(folder)
    frames = 0
    if yes:
        lock = folder.lock(WRITER_LOCK)
        try:
            index = TimestampIndex(chain, writable=True)
            frames = index.rebuild(chain)
            index.close()
        finally:
            lock.close()
    if as_json:
        screen.document({"path": folder.path, "done": yes, "frames": frames})
    elif yes:
        screen.line(f"{folder.path}: the index was made anew and covers {frames:,} frames")
    else:
        screen.line(f"{folder.path}: would delete the index and make it anew; do it with --yes")
