"""The verb `cec-store extent`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.inspector import ExtentReport, OperatorState, inspect_extent
from cec_store.screens import Cell, Screen
from cec_store.verbs.arguments import DAMAGED, AsJson, At, QueuePath, folder_at
from cec_store.verbs.wording import duration, moment, places, size, value


def extent_verb(
    queue: QueuePath,
    at: At = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the oldest windows.")] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not count records by kind over the whole log.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a restart would have to read back, and which windows hold it open."""
    screen = Screen()
    folder = folder_at(queue, at)
    with screen.bytes_progress("reading", folder) as progress:
        report = inspect_extent(folder, at=at, top=top, counts=not quick, progress=progress)
    screen.document(extent_as_json(report)) if as_json else show_extent(screen, report)
    if report.damage:
        raise typer.Exit(DAMAGED)


def extent_as_json(report: ExtentReport) -> dict[str, Any]:
    """The document of ``cec-store extent --json``."""
    document = asdict(report)
    document["totals"]["write_amplification"] = report.totals.write_amplification
    return {"sound": not report.damage, **document}


def show_extent(screen: Screen, report: ExtentReport) -> None:
    """Totals, the extent and its oldest windows."""
    totals = report.totals
    rows = [
        ("segments", f"{totals.segments:,} ({size(totals.bytes)})"),
        ("frames", f"{totals.frames:,}"),
        ("records", f"{totals.records:,}"),
        ("offsets", f"{totals.first_offset:,} to {totals.end_offset:,}"),
        ("time", f"{moment(totals.first_timestamp_us)} to {moment(totals.last_timestamp_us)}"),
    ]
    if totals.kinds is not None:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in totals.kinds.items() if count)
        rows.append(("kinds", kinds or "–"))
    if report.version is not None:
        rows.append(("version", f"{report.version:,}"))
    elif totals.write_amplification is not None and report.has_state:
        figure = f"{totals.write_amplification:.2f} control records for each of output"
        rows.append(("write amplification", figure))
    if totals.unreadable:
        rows.append(("unreadable", f"{totals.unreadable:,} places; see cec-store verify"))
    screen.pairs(report.path, rows)
    if report.state is not None:
        _show_state(screen, report.state, report.version is None)
    elif not report.has_state and not report.damage:
        screen.line("no operator writes this queue, so it has no state and no extent")
    if report.damage:
        screen.line(f"damaged: {report.damage}", "bold red")


def _show_state(screen: Screen, state: OperatorState, has_input: bool) -> None:
    extent = state.extent
    reach = (
        f"{extent.records:,} records in {extent.frames:,} frames, {size(extent.bytes)}, "
        f"{extent.segments:,} segment{'s' if extent.segments != 1 else ''}"
    )
    age = f"{moment(state.oldest_timestamp_us)}, {duration(state.age_us)} before the end"
    replay = [
        ("replay from T", f"input {places(state.replay_from)}"),
        ("replay u", f"{state.replay_rows:,} rows, up to {places(state.replay_upto)}"),
        ("closed after T", f"{state.closed_windows:,} windows"),
    ]
    screen.pairs(
        "a restart would read back",
        [
            ("open windows N", f"{extent.open_windows:,}"),
            ("extent q", reach),
            ("oldest footprint", age if state.oldest_timestamp_us is not None else "–"),
            *(replay if has_input else []),
        ],
    )
    rows: list[list[Cell]] = [
        [value(w.key), w.kind, w.offset, places(w.position), moment(w.timestamp_us),
         w.records_back, w.replay_rows]
        for w in state.oldest_windows
    ]  # fmt: skip
    if rows:
        names = ["key", "footprint", "offset", "input", "time", "q from here", "u from here"]
        screen.table("windows with the oldest footprints", names, rows)
