"""Everything that a report shows of a place, as one document: what `--json` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from cec_store.errors import CecError, OutOfRange
from cec_store.inspector import verify
from cec_store.inspector.places import Place
from cec_store.report.costs import load_rate, recovery_curve
from cec_store.report.facts import Damage, LogFacts, read_facts, told_once
from cec_store.report.views import view

Document = dict[str, Any]
_SUMMED = (
    "bytes", "segments", "frames", "records", "open_windows", "extent_records", "extent_bytes",
)  # fmt: skip


def report_on(
    place: Place,
    *,
    version: int | None = None,
    top: int = 10,
    with_verify: bool = False,
    done: Callable[[int], object] = lambda _: None,
) -> Document:
    """Look at every log of a place, damaged ones too.

    ``top`` is how many windows are named, and how many of the logs get plots of their own.
    ``done`` is told after each log how many have been looked at.

    Raises:
        OutOfRange: the version is not there.
    """
    damage: list[Damage] = []
    newest = version
    if version is None:
        try:
            newest = place.newest_version()
        except OutOfRange:
            newest = None  # no batch is committed: what the logs have is what there is
        except CecError as error:
            damage.append(Damage.of_error("", place.path, error))
    logs: list[LogFacts] = []
    for log in place.logs:
        logs.append(read_facts(place, log, newest))
        done(len(logs))
    if version is not None and all(facts.last is None for facts in logs):
        raise OutOfRange(f"{place.path}: {damage_in(logs)[0].what}")
    damage += damage_in(logs)
    verified = _verified(place, damage) if with_verify else None
    damage = told_once(damage)
    return {
        "path": place.path,
        "kind": place.kind.value,
        "sound": not damage,
        "version": newest,
        "verified": verified,
        "damage": [asdict(each) for each in damage],
        "logs": [_row(facts) for facts in logs],
        "totals": _totals(logs),
        "rates": {"load_records_per_s": load_rate(logs)},
        "views": _views(place, logs, top),
    }


def damage_in(logs: Sequence[LogFacts]) -> list[Damage]:
    return [each for facts in logs for each in facts.damage]


def _verified(place: Place, damage: list[Damage]) -> bool:
    """Whether every log is sound to the last byte; what is not goes to the damage."""
    is_sound = True
    for log in place.logs:
        try:
            faults = verify(log.folder).faults
        except CecError as error:
            is_sound = False
            damage.append(Damage.of_error(log.name, log.folder.path, error))
            continue
        is_sound = is_sound and not faults
        damage += [Damage.of_fault(log, fault) for fault in faults]
    return is_sound


def _row(facts: LogFacts) -> Document:
    log, history, found = facts.log, facts.history, facts.footprints
    oldest_us, age_us = None, None
    if found is not None and len(found.offsets):
        oldest_us, age_us = int(found.timestamps_us[0]), int(found.ages_us[0])
    return {
        "name": log.name,
        "path": log.folder.path,
        "operator": log.operator,
        "partition": log.partition,
        "store": log.store,
        "sound": not facts.damage,
        "has_windows": facts.has_windows,
        "bytes": history.bytes,
        "segments": len(history.segments),
        "frames": history.frames,
        "records": history.records,
        "open_windows": facts.open_windows,
        "extent_records": facts.extent_records,
        "extent_bytes": facts.extent_bytes,
        "oldest_timestamp_us": oldest_us,
        "age_us": age_us,
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


def _views(place: Place, logs: Sequence[LogFacts], top: int) -> list[Document]:
    """All logs together, then those with the largest extents (or most bytes) one by one."""
    chosen = sorted(logs, key=lambda f: (-f.extent_bytes, -f.history.bytes))[:top]
    groups = [("", [*logs])] if len(logs) == 1 else [("all logs", [*logs])]
    if len(logs) > 1:
        groups += [(facts.log.name, [facts]) for facts in sorted(chosen, key=logs.index)]
    rate = load_rate(logs)
    return [
        {**view(name, group, top, place.has_versions), "recovery": recovery_curve(group, rate)}
        for name, group in groups
    ]
