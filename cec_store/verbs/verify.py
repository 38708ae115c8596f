"""The verb `cec-store verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.files import LocalFolder
from cec_store.inspector import Verification, verify
from cec_store.screens import Screen
from cec_store.verbs.arguments import DAMAGED, AsJson, QueuePath
from cec_store.verbs.wording import size


def verify_verb(
    queue: QueuePath,
    records: Annotated[
        bool, typer.Option(help="Also decode all records and count N and q anew.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check every checksum, link and mark; name each fault, where it is and what to do."""
    screen = Screen()
    folder = LocalFolder(queue)
    with screen.bytes_progress("checking", folder) as progress:
        found = verify(folder, records=records, progress=progress)
    screen.document(verification_as_json(found)) if as_json else show_verification(screen, found)
    if not found.is_sound:
        raise typer.Exit(DAMAGED)


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
            ("segments", f"{found.segments:,} ({size(found.bytes)})"),
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
