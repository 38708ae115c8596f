"""What an inspection found, on a screen."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from cec_store.formats import finite
from cec_store.inspector import (
    DamageRow,
    ExtentReport,
    FrameRow,
    OperatorState,
    RecordRow,
    Verification,
)
from cec_store.screens import Cell, Screen
from cec_store.units import format_timestamp_us

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def _size(count: int) -> str:
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def _moment(timestamp_us: int | None) -> str:
    return "–" if timestamp_us is None else format_timestamp_us(timestamp_us)


def _duration(microseconds: int | None) -> str:
    """The two largest units of a stretch of time."""
    if microseconds is None:
        return "–"
    sign, rest = ("-" if microseconds < 0 else ""), abs(microseconds)
    parts = []
    for name, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000)):
        if rest >= size:
            parts.append(f"{rest // size:,} {name}")
            rest %= size
    if len(parts) < 2:
        parts.append(f"{rest / 1e6:g} s")
    return sign + " ".join(parts[:2])


def _value(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, default=str)


def _places(positions: tuple[int, ...]) -> str:
    return ", ".join(f"{position:,}" for position in positions)


# -- verify ---------------------------------------------------------------------------------------


def verification_as_json(found: Verification) -> dict[str, Any]:
    """The document of ``cec-store verify --json``."""
    faults = [{**asdict(fault), "advice": fault.advice} for fault in found.faults]
    return {"sound": found.is_sound, **asdict(found), "faults": faults}


def show_verification(screen: Screen, found: Verification) -> None:
    """Each fault with its place and what to do, then what was looked at."""
    for fault in found.faults:
        screen.line(f"{fault.path}: byte {fault.byte}: {fault.kind}: {fault.what}", "bold red")
        whose = "acknowledged" if fault.acknowledged else "nothing acknowledged"
        screen.line(f"  effect: {fault.effect} ({whose})")
        screen.line(f"  advice: {fault.advice}")
    for note in found.notes:
        screen.line(f"{note.path}: byte {note.byte}: note: {note.what}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items() if count)
    checked = f"; N and q counted anew at {found.recounted_frames:,} frames"
    screen.pairs(
        found.path,
        [
            ("segments", f"{found.segments:,} ({_size(found.bytes)})"),
            ("frames", f"{found.frames:,}{checked if found.recounted_frames else ''}"),
            ("records", f"{found.records:,}" + (f" ({kinds})" if kinds else "")),
            ("offsets", f"{found.first_offset:,} to {found.end_offset:,}"),
            *([("versions", f"{found.versions:,}")] if found.versions is not None else []),
            ("index", found.index),
        ],
    )
    count = len(found.faults)
    if found.is_sound:
        screen.line("sound", "bold green")
    else:
        screen.line(f"damaged: {count} fault{'s' if count > 1 else ''}", "bold red")


# -- extent ---------------------------------------------------------------------------------------


def extent_as_json(report: ExtentReport) -> dict[str, Any]:
    """The document of ``cec-store extent --json``."""
    document = asdict(report)
    document["totals"]["write_amplification"] = report.totals.write_amplification
    return {"sound": not report.damage, **document}


def show_extent(screen: Screen, report: ExtentReport) -> None:
    """Totals, the extent and its oldest windows."""
    totals = report.totals
    rows = [
        ("segments", f"{totals.segments:,} ({_size(totals.bytes)})"),
        ("frames", f"{totals.frames:,}"),
        ("records", f"{totals.records:,}"),
        ("offsets", f"{totals.first_offset:,} to {totals.end_offset:,}"),
        ("time", f"{_moment(totals.first_timestamp_us)} to {_moment(totals.last_timestamp_us)}"),
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
    size = (
        f"{extent.records:,} records in {extent.frames:,} frames, {_size(extent.bytes)}, "
        f"{extent.segments:,} segment{'s' if extent.segments != 1 else ''}"
    )
    age = f"{_moment(state.oldest_timestamp_us)}, {_duration(state.age_us)} before the end"
    replay = [
        ("replay from T", f"input {_places(state.replay_from)}"),
        ("replay u", f"{state.replay_rows:,} rows, up to {_places(state.replay_upto)}"),
        ("closed after T", f"{state.closed_windows:,} windows"),
    ]
    screen.pairs(
        "a restart would read back",
        [
            ("open windows N", f"{extent.open_windows:,}"),
            ("extent q", size),
            ("oldest footprint", age if state.oldest_timestamp_us is not None else "–"),
            *(replay if has_input else []),
        ],
    )
    rows: list[list[Cell]] = [
        [_value(w.key), w.kind, w.offset, _places(w.position), _moment(w.timestamp_us),
         w.records_back, w.replay_rows]
        for w in state.oldest_windows
    ]  # fmt: skip
    if rows:
        names = ["key", "footprint", "offset", "input", "time", "q from here", "u from here"]
        screen.table("windows with the oldest footprints", names, rows)


# -- dump -----------------------------------------------------------------------------------------


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
        parts.append(f"time: {_moment(row.min_timestamp_us)}..{_moment(row.max_timestamp_us)}")
    if row.open_windows or row.extent_records:
        parts.append(f"N: {row.open_windows} q: {row.extent_records} input: {row.input_upto}")
    if row.type == "COMMIT":
        parts.append(f"durable: {row.durable_upto}")
    parts.append(f"isvalid: {'false (' + row.problem + ')' if row.problem else 'true'}")
    if not row.acknowledged:
        parts.append("not acknowledged")
    return " ".join(parts)


def _record_line(row: RecordRow) -> str:
    parts = [f"| offset: {row.offset} {row.kind} {_moment(row.timestamp_us)}"]
    if row.position:
        parts.append(f"input: {','.join(map(str, row.position))}")
    if row.kind != "DATA":
        parts.append(f"key: {_value(row.key)}")
    if row.state is not None:
        parts.append(f"state: {_value(row.state)}")
    if row.data is not None:
        parts.append(f"payload: {_value(row.data)}")
    return " ".join(parts)
