"""Everything that a report shows of a place, as one document: what `--json` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from cec_store.connectors.spark.checkpoint.scans import operator_scans
from cec_store.errors import CecError, OutOfRange
from cec_store.inspector.measuring.consumer_lags import consumer_lags
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.measuring.last_restart import last_restart
from cec_store.inspector.measuring.place_extents import At
from cec_store.inspector.measuring.reference_consumers import reference_consumers
from cec_store.inspector.places.places import Place
from cec_store.inspector.verifying.place import verify_place
from cec_store.inspector.verifying.results import PlaceVerification
from cec_store.report.facts import Damage, LogFacts, read_facts, without_repeats
from cec_store.report.restart_costs import RecoveryCurves, restart_of
from cec_store.report.time_series import progress_of
from cec_store.report.views import view

Document = dict[str, Any]
_SUMMED = (
    "bytes", "segments", "frames", "records", "open_windows", "extent_records", "extent_bytes",
    "replay_rows",
)  # fmt: skip


def report_on(
    place: Place,
    *,
    at: At = None,
    top: int = 10,
    with_verify: bool = True,
    rates: LoadRates,
    cores: int,
    done: Callable[[int], object] = lambda _: None,
) -> Document:
    """Look at every log of a place, damaged ones too.

    ``at`` as :func:`cec_store.inspector.measuring.overview.at_point` gives it.
    ``with_verify`` reads every byte; without it, the headers and what a restart needs.
    State that Spark's own providers keep has no views; each log says what its ``store`` is.
    ``top`` is how many windows are named, and how many of the logs get plots of their own.
    ``cores`` load state at a restart at the same time.
    ``done`` is called after each log with how many have been looked at.

    Raises:
        OutOfRange: what ``at`` names is not there.
        CorruptLog, UnsupportedVersion: a partitioned queue cannot be opened.
    """
    place.require_open()
    damage: list[Damage] = []
    chosen_at = at if at is not None else _newest(place, damage)
    logs: list[LogFacts] = []
    consumers = cache(lambda: reference_consumers(place))
    for log in place.logs:
        logs.append(read_facts(place, log, chosen_at, consumers))
        done(len(logs))
    if at is not None and not place.is_built_in and all(facts.last is None for facts in logs):
        raise OutOfRange(f"{place.path}: {damage_in(logs)[0].what}")
    verification = verify_place(place) if with_verify else None
    damage = _counted(verification, damage + damage_in(logs))
    for facts in logs:
        facts.damage = [item for item in damage if item.log == facts.log.name]
    version = _version(place, chosen_at, logs)
    last = last_restart(place, version)
    notes = {note for facts in logs for note in facts.notes}
    return {
        "path": place.path,
        "kind": place.kind.value,
        "sound": not damage,
        "version": version,
        "provider": place.provider,
        "retention": place.retention(),
        "consumers": [
            asdict(item) for item in consumer_lags([c for facts in logs for c in facts.consumers])
        ],
        "verified": None if verification is None else verification.is_sound,
        "damage": [asdict(item) for item in damage],
        "scans": [asdict(scan) for scan in operator_scans(place.checkpoint)]
        if place.checkpoint
        else [],
        "logs": [_row(facts) for facts in logs],
        "totals": _totals(logs),
        "rates": asdict(rates),
        "last_restart": None if last is None else asdict(last),
        "progress": None if place.checkpoint is None else progress_of(place, notes),
        "notes": sorted(notes),
        "views": [] if place.is_built_in else _views(place, logs, top, rates, cores),
    }


def _newest(place: Place, damage: list[Damage]) -> At:
    try:
        return place.newest_version()
    except OutOfRange:
        return None  # no batch is committed: what the logs have is what there is
    except CecError as error:
        damage.append(Damage.of_error("", place.path, error))
        return None


def _version(place: Place, chosen_at: At, logs: Sequence[LogFacts]) -> int | None:
    if not place.has_versions:
        return None
    if isinstance(chosen_at, int) or not logs or logs[0].last is None or len(logs) > 1:
        return chosen_at if isinstance(chosen_at, int) else None
    return logs[0].last.input_upto


def damage_in(logs: Sequence[LogFacts]) -> list[Damage]:
    """Return the damage in all logs, in their order."""
    return [damage for facts in logs for damage in facts.damage]


def _counted(verification: PlaceVerification | None, met: list[Damage]) -> list[Damage]:
    """The faults that `verify` counts; what the report met itself where `verify` names none.

    ``met`` is that, of all logs; it is all that is known where nothing was verified.
    """
    faults = [] if verification is None else verification.faults
    named = {fault.log for fault in faults}
    rest = without_repeats([damage for damage in met if damage.log not in named])
    return [*(Damage.of_fault(fault.log, fault) for fault in faults), *rest]


def _row(facts: LogFacts) -> Document:
    log, history, statistics = facts.log, facts.history, facts.footprints
    oldest_us, age_us = None, None
    if statistics is not None and len(statistics.offsets):
        oldest_us, age_us = int(statistics.timestamps_us[0]), int(statistics.ages_us[0])
    return {
        **log.fields(),
        "sound": not facts.damage,
        "has_windows": facts.has_windows,
        "bytes": history.bytes if facts.store is None else facts.store.bytes,
        "segments": len(history.segments),
        "frames": history.frames,
        "records": history.records,
        "open_windows": facts.open_windows,
        "extent_records": facts.extent_records,
        "extent_bytes": facts.extent_bytes,
        "oldest_timestamp_us": oldest_us,
        "age_us": age_us,
        "replay_rows": facts.replay_rows,
        "store": None if facts.store is None else asdict(facts.store),
    }


def _totals(logs: Sequence[LogFacts]) -> Document:
    rows = [_row(facts) for facts in logs]
    ages = [row["age_us"] for row in rows if row["age_us"] is not None]
    sums = {name: sum(row[name] for row in rows) for name in _SUMMED}
    return {
        "logs": len(rows),
        "damaged_logs": sum(not row["sound"] for row in rows),
        **sums,
        "age_us": max(ages, default=None),
    }


def _views(
    place: Place, logs: Sequence[LogFacts], top: int, rates: LoadRates, cores: int
) -> list[Document]:
    """All logs together, then those with the largest extents (or most bytes) one by one."""
    chosen = sorted(logs, key=lambda f: (-f.extent_bytes, -f.history.bytes))[:top]
    groups = [("", [*logs])] if len(logs) == 1 else [("all logs", [*logs])]
    if len(logs) > 1:
        groups += [(facts.log.name, [facts]) for facts in sorted(chosen, key=logs.index)]
    targets = RecoveryCurves(rates, cores)
    return [
        {
            **view(name, group, top, place.has_versions),
            "restart": restart_of(group, rates, cores),
            "recovery": targets.curve(group),
        }
        for name, group in groups
    ]
