"""The verb `cec-store verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.format.schema import RecordKind
from cec_store.inspector.measuring.totals import sums
from cec_store.inspector.verifying.place import verify_place
from cec_store.inspector.verifying.results import PlaceVerification, Verification, VerifiedLog
from cec_store.terminal.built_in_screens import short, show_verified_stores
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import COULD_NOT_LOOK, DAMAGED, WRONG_USE
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import by_kind, size
from cec_store.verbs.arguments import AsJson, PlacePath, StorageOptions, place_of

_LISTED_MAX = 40
"""More logs than this are not listed one by one, but for those with faults."""
_SUMS = ("segments", "frames", "records", "bytes", "recounted_frames")


def verify_verb(
    path: PlacePath,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also --records, rebuild every version, decode keys and values."
        ),
    ] = False,
    records: Annotated[
        bool,
        typer.Option("--records/--no-records", help="Also decode all records; count N and q anew."),
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Check every checksum, link and mark; name each fault, where it is and what to do."""
    screen = Screen()
    place = place_of(path, storage_options)
    with screen.bytes_progress("checking", *(log.folder for log in place.logs)) as progress:
        found = verify_place(place, deep=deep, records=records, progress=progress)
    if as_json:
        screen.document(verification_as_json(found, deep=deep, records=records or deep))
    else:
        show_verification(screen, found)
    if not found.is_sound:
        kinds = {fault.kind for fault in found.faults}
        if kinds <= {"version"}:
            raise typer.Exit(WRONG_USE)
        raise typer.Exit(COULD_NOT_LOOK if kinds <= {"version", "unreadable"} else DAMAGED)


# -- JSON -------------------------------------------------------------------------------------


def verification_as_json(found: PlaceVerification, *, deep: bool, records: bool) -> dict[str, Any]:
    """The document of ``cec-store verify --json``; docs/json/verify.schema.json."""
    batches = None
    if found.batches is not None:
        batches = dict(zip(("first", "last"), found.batches, strict=True))
    return document(
        found.place,
        found.is_sound,
        [_log_as_json(entry) for entry in found.logs],
        _totals(found),
        deep=deep,
        records_decoded=records,
        batches=batches,
        provider=found.place.provider,
        faults=[{**asdict(fault), "advice": fault.advice} for fault in found.faults],
        notes=[asdict(note) for note in found.notes],
    )


def _log_as_json(entry: VerifiedLog) -> dict[str, Any]:
    figures = None
    if entry.found is not None:
        found = asdict(entry.found)
        figures = {n: v for n, v in found.items() if n not in ("path", "faults", "notes")}
    store = None if entry.store is None else asdict(entry.store)
    kept = entry.loadable and dict(zip(("first", "last"), entry.loadable, strict=True))
    return {
        **entry.log.fields(),
        "sound": not entry.faults,
        "figures": figures,
        "store": store,
        "loadable": kept,
    }


def _totals(found: PlaceVerification) -> dict[str, Any]:
    known = [entry.found for entry in found.logs if entry.found is not None]
    kinds = [each.kinds for each in known if each.kinds]
    return {
        "logs": len(found.logs),
        "damaged_logs": sum(entry.faults > 0 for entry in found.logs),
        "faults": len(found.faults),
        "notes": len(found.notes),
        **sums(known, *_SUMS),
        "kinds": {k.name: sum(each[k.name] for each in kinds) for k in RecordKind} if kinds else {},
        "versions": sum(each.versions or 0 for each in known) if found.place.has_versions else None,
    }


# -- text -------------------------------------------------------------------------------------


def show_verification(screen: Screen, found: PlaceVerification) -> None:
    """Each fault with its place and what to do, then what was looked at."""
    for fault in found.faults:
        log = f" ({fault.log})" if fault.log else ""
        screen.line(f"{fault.path}: byte {fault.byte}: {fault.kind}: {fault.what}", "bold red")
        whose = "acknowledged" if fault.acknowledged else "nothing acknowledged"
        screen.line(f"  effect: {fault.effect} ({whose}){log}")
        screen.line(f"  advice: {fault.advice}")
    for note in found.notes:
        screen.line(f"{note.path}: byte {note.byte}: note: {note.what}")
    if found.place.is_built_in:
        title = f"{found.place.path}: {found.place.kind.value} of {short(found.place.provider)}"
        show_verified_stores(screen, title, found.logs)
        _show_batches(screen, found)
    elif len(found.logs) == 1 and found.logs[0].found is not None and not found.logs[0].log.name:
        screen.pairs(found.place.path, _figures(found.logs[0].found))
    else:
        _show_logs(screen, found)
    count = len(found.faults)
    if found.is_sound:
        screen.line("sound", "bold green")
    else:
        is_newer = all(fault.kind == "version" for fault in found.faults)
        what = "newer than this release knows" if is_newer else "damaged"
        screen.line(f"{what}: {count} fault{'s' if count > 1 else ''}", "bold red")


def _figures(found: Verification) -> list[tuple[str, str]]:
    kinds = by_kind(found.kinds)
    checked = f"; N and q counted anew at {found.recounted_frames:,} frames"
    rows = [
        ("segments", f"{found.segments:,} ({size(found.bytes)})"),
        ("frames", f"{found.frames:,}{checked if found.recounted_frames else ''}"),
        ("records", f"{found.records:,}" + (f" ({kinds})" if kinds else "")),
        ("offsets", f"{found.first_offset:,} to {found.end_offset:,}"),
    ]
    if found.versions is not None:
        rows.append(("versions", f"{found.versions:,}{_range(found)}"))
    return [*rows, ("index", found.index)]


def _range(found: Verification) -> str:
    return f" ({found.first_version} to {found.last_version})" if found.versions else ""


def _show_logs(screen: Screen, found: PlaceVerification) -> None:
    has_versions = found.place.has_versions
    names = ["log", "segments", "size", "frames", "records"]
    names += ["versions"] if has_versions else ["offsets"]
    listed = [e for e in found.logs if len(found.logs) <= _LISTED_MAX or e.faults]
    rows = []
    for entry in listed:
        each = entry.found
        if each is None:
            rows.append([entry.log.name, *[None] * 5, entry.faults])
            continue
        reach = f"{each.first_offset:,} to {each.end_offset:,}"
        if has_versions:
            reach = f"{each.versions:,}{_range(each)}"
        name = entry.log.name
        rows.append(
            [name, each.segments, size(each.bytes), each.frames, each.records, reach, entry.faults]
        )
    totals = _totals(found)
    last = f"{totals['versions']:,}" if has_versions else None
    rows.append(
        [f"{totals['logs']:,} logs", totals["segments"], size(totals["bytes"]), totals["frames"],
         totals["records"], last, totals["faults"]]
    )  # fmt: skip
    screen.table(f"{found.place.path}: {found.place.kind.value}", [*names, "faults"], rows)
    if len(listed) < len(found.logs):
        screen.line(f"{len(found.logs) - len(listed):,} logs without a fault are not listed")
    if totals["kinds"]:
        recounted = f"N and q counted anew at {totals['recounted_frames']:,} frames"
        screen.line(f"decoded: {by_kind(totals['kinds'])}; {recounted}")
    _show_batches(screen, found)


def _show_batches(screen: Screen, found: PlaceVerification) -> None:
    if found.batches is not None:
        first, newest = found.batches
        screen.line(f"batches that Spark has committed and keeps: {first:,} to {newest:,}")
