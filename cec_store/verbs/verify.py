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
    screen = Screen(has_bars=not as_json)
    place = place_of(path, storage_options)
    with screen.bytes_progress("checking", *(log.folder for log in place.logs)) as progress:
        verification = verify_place(place, deep=deep, records=records, progress=progress)
    if as_json:
        screen.document(verification_as_json(verification, deep=deep, records=records or deep))
    else:
        show_verification(screen, verification)
    if not verification.is_sound:
        kinds = {fault.kind for fault in verification.faults}
        if kinds <= {"version"}:
            raise typer.Exit(WRONG_USE)
        raise typer.Exit(COULD_NOT_LOOK if kinds <= {"version", "unreadable"} else DAMAGED)


# -- JSON -------------------------------------------------------------------------------------


def verification_as_json(
    verification: PlaceVerification, *, deep: bool, records: bool
) -> dict[str, Any]:
    """The document of ``cec-store verify --json``; docs/json/verify.schema.json."""
    batches = None
    if verification.batches is not None:
        batches = dict(zip(("first", "last"), verification.batches, strict=True))
    return document(
        verification.place,
        verification.is_sound,
        [_log_as_json(entry) for entry in verification.logs],
        _totals(verification),
        deep=deep,
        records_decoded=records,
        batches=batches,
        provider=verification.place.provider,
        faults=[{**asdict(fault), "advice": fault.advice} for fault in verification.faults],
        notes=[asdict(note) for note in verification.notes],
    )


def _log_as_json(entry: VerifiedLog) -> dict[str, Any]:
    figures = None
    if entry.found is not None:
        fields = asdict(entry.found)
        figures = {n: v for n, v in fields.items() if n not in ("path", "faults", "notes")}
    store = None if entry.store is None else asdict(entry.store)
    kept = entry.loadable and dict(zip(("first", "last"), entry.loadable, strict=True))
    return {
        **entry.log.fields(),
        "sound": not entry.faults,
        "figures": figures,
        "store": store,
        "loadable": kept,
    }


def _totals(result: PlaceVerification) -> dict[str, Any]:
    known = [entry.found for entry in result.logs if entry.found is not None]
    kinds = [item.kinds for item in known if item.kinds]
    return {
        "logs": len(result.logs),
        "damaged_logs": sum(entry.faults > 0 for entry in result.logs),
        "faults": len(result.faults),
        "notes": len(result.notes),
        **sums(known, *_SUMS),
        "kinds": {k.name: sum(item[k.name] for item in kinds) for k in RecordKind} if kinds else {},
        "versions": sum(item.versions or 0 for item in known)
        if result.place.has_versions
        else None,
    }


# -- text -------------------------------------------------------------------------------------


def show_verification(screen: Screen, result: PlaceVerification) -> None:
    """Each fault with its place and what to do, then what was looked at."""
    for fault in result.faults:
        log = f" ({fault.log})" if fault.log else ""
        screen.line(f"{fault.path}: byte {fault.byte}: {fault.kind}: {fault.what}", "bold red")
        whose = "acknowledged" if fault.acknowledged else "nothing acknowledged"
        screen.line(f"  effect: {fault.effect} ({whose}){log}")
        screen.line(f"  advice: {fault.advice}")
    for note in result.notes:
        screen.line(f"{note.path}: byte {note.byte}: note: {note.what}")
    if result.place.is_built_in:
        title = f"{result.place.path}: {result.place.kind.value} of {short(result.place.provider)}"
        show_verified_stores(screen, title, result.logs)
        _show_batches(screen, result)
    elif len(result.logs) == 1 and result.logs[0].found is not None and not result.logs[0].log.name:
        screen.pairs(result.place.path, _figures(result.logs[0].found))
    else:
        _show_logs(screen, result)
    count = len(result.faults)
    if result.is_sound:
        screen.line("sound", "bold green")
    else:
        is_newer = all(fault.kind == "version" for fault in result.faults)
        what = "newer than this release knows" if is_newer else "damaged"
        screen.line(f"{what}: {count} fault{'s' if count > 1 else ''}", "bold red")


def _figures(verification: Verification) -> list[tuple[str, str]]:
    kinds = by_kind(verification.kinds)
    checked = f"; N and q counted anew at {verification.recounted_frames:,} frames"
    rows = [
        ("segments", f"{verification.segments:,} ({size(verification.bytes)})"),
        ("frames", f"{verification.frames:,}{checked if verification.recounted_frames else ''}"),
        ("records", f"{verification.records:,}" + (f" ({kinds})" if kinds else "")),
        ("offsets", f"{verification.first_offset:,} to {verification.end_offset:,}"),
    ]
    if verification.versions is not None:
        rows.append(("versions", f"{verification.versions:,}{_range(verification)}"))
    return [*rows, ("index", verification.index)]


def _range(result: Verification) -> str:
    return f" ({result.first_version} to {result.last_version})" if result.versions else ""


def _show_logs(screen: Screen, verification: PlaceVerification) -> None:
    has_versions = verification.place.has_versions
    names = ["log", "segments", "size", "frames", "records"]
    names += ["versions"] if has_versions else ["offsets"]
    listed = [e for e in verification.logs if len(verification.logs) <= _LISTED_MAX or e.faults]
    rows = []
    for entry in listed:
        figures = entry.found
        if figures is None:
            rows.append([entry.log.name, *[None] * 5, entry.faults])
            continue
        reach = f"{figures.first_offset:,} to {figures.end_offset:,}"
        if has_versions:
            reach = f"{figures.versions:,}{_range(figures)}"
        name = entry.log.name
        rows.append(
            [
                name,
                figures.segments,
                size(figures.bytes),
                figures.frames,
                figures.records,
                reach,
                entry.faults,
            ]
        )
    totals = _totals(verification)
    last = f"{totals['versions']:,}" if has_versions else None
    rows.append(
        [f"{totals['logs']:,} logs", totals["segments"], size(totals["bytes"]), totals["frames"],
         totals["records"], last, totals["faults"]]
    )  # fmt: skip
    screen.table(
        f"{verification.place.path}: {verification.place.kind.value}", [*names, "faults"], rows
    )
    if len(listed) < len(verification.logs):
        screen.line(f"{len(verification.logs) - len(listed):,} logs without a fault are not listed")
    if totals["kinds"]:
        recounted = f"N and q counted anew at {totals['recounted_frames']:,} frames"
        screen.line(f"decoded: {by_kind(totals['kinds'])}; {recounted}")
    _show_batches(screen, verification)


def _show_batches(screen: Screen, verification: PlaceVerification) -> None:
    if verification.batches is not None:
        first, newest = verification.batches
        screen.line(f"batches that Spark has committed and keeps: {first:,} to {newest:,}")
