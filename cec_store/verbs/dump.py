"""The verb `cec-store dump`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.inspector import DamageRow, DumpFilter, FrameRow, RecordRow, dump
from cec_store.records import RecordKind
from cec_store.screens import Screen
from cec_store.units import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Position
from cec_store.verbs.arguments import (
    DAMAGED,
    AsJson,
    At,
    Kinds,
    Limit,
    QueuePath,
    Since,
    Until,
    folder_at,
)
from cec_store.verbs.wording import moment, value


def dump_verb(
    queue: QueuePath,
    records: Annotated[
        bool, typer.Option("--print-data-log/--frames-only", help="Records too, or frames alone.")
    ] = True,
    kinds: Kinds = None,
    since: Since = None,
    until: Until = None,
    since_offset: Annotated[int | None, typer.Option(min=0, help="As --since @offset.")] = None,
    until_offset: Annotated[int | None, typer.Option(min=0, help="As --until @offset.")] = None,
    segment: Annotated[int | None, typer.Option(min=0, help="Only this segment.")] = None,
    at: At = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Print frames and records as they stand in the log, over damage and on."""
    screen = Screen()
    since_offset = since.offset if isinstance(since, Position) else since_offset
    until_offset = until.offset if isinstance(until, Position) else until_offset
    wanted = DumpFilter(
        kinds=kinds or frozenset(RecordKind),
        since_offset=since_offset or 0,
        until_offset=until_offset,
        since_us=since if isinstance(since, int) else MIN_TIMESTAMP_US,
        until_us=until if isinstance(until, int) else MAX_TIMESTAMP_US,
        segment_id=segment,
        at=at,
        records=records,
    )
    is_damaged = False
    for number, row in enumerate(dump(folder_at(queue, at), wanted)):
        if number == limit:
            break
        is_damaged |= isinstance(row, DamageRow) and row.acknowledged
        screen.json_line(dump_row_as_json(row)) if as_json else show_dump_row(screen, row)
    if is_damaged:
        raise typer.Exit(DAMAGED)


def dump_row_as_json(row: FrameRow | RecordRow | DamageRow) -> dict[str, Any]:
    """One line of ``cec-store dump --json``."""
    names = {FrameRow: "frame", RecordRow: "record", DamageRow: "damage"}
    return {"row": names[type(row)], **asdict(row)}


def show_dump_row(screen: Screen, row: FrameRow | RecordRow | DamageRow) -> None:
    """One line, with the words of kafka-dump-log where they mean the same."""
    if isinstance(row, FrameRow):
        screen.line(_frame_line(row), "bold")
    elif isinstance(row, RecordRow):
        screen.line(_record_line(row))
    else:
        what = "damage" if row.acknowledged else "torn tail, not a fault"
        screen.line(f"{row.path}: byte {row.byte}: {what}: {row.what}", "bold red")


def _frame_line(row: FrameRow) -> str:
    parts = [f"{row.type} seq: {row.seq}"]
    if row.record_count:
        parts.append(f"offset: {row.first_offset}-{row.end_offset - 1} count: {row.record_count}")
    parts.append(f"segment: {row.segment_id} position: {row.byte} size: {row.frame_bytes}")
    parts.append(f"epoch: {row.epoch}")
    if row.min_timestamp_us is not None:
        parts.append(f"time: {moment(row.min_timestamp_us)}..{moment(row.max_timestamp_us)}")
    if row.open_windows or row.extent_records:
        parts.append(f"N: {row.open_windows} q: {row.extent_records} input: {row.input_upto}")
    if row.type == "COMMIT":
        parts.append(f"durable: {row.durable_upto}")
    parts.append(f"isvalid: {'false (' + row.problem + ')' if row.problem else 'true'}")
    if not row.acknowledged:
        parts.append("not acknowledged")
    return " ".join(parts)


def _record_line(row: RecordRow) -> str:
    parts = [f"| offset: {row.offset} {row.kind} {moment(row.timestamp_us)}"]
    if row.position:
        parts.append(f"input: {','.join(map(str, row.position))}")
    if row.kind != "DATA":
        parts.append(f"key: {value(row.key)}")
    if row.state is not None:
        parts.append(f"state: {value(row.state)}")
    if row.data is not None:
        parts.append(f"payload: {value(row.data)}")
    return " ".join(parts)
