"""The verb `cec-store extent`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.measuring.extent_history import WhatIf, parse_what_if
from cec_store.inspector.measuring.extents import OpenWindow, OperatorState
from cec_store.inspector.measuring.kept_rates import keep_rates, known_rates
from cec_store.inspector.measuring.overview import LogExtent, Overview, calibrated, overview_of
from cec_store.inspector.measuring.totals import LogTotals
from cec_store.inspector.measuring.what_if import TargetOutcome
from cec_store.inspector.places.places import Log
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import DAMAGED, wrong_use
from cec_store.terminal.extent_screens import show_extent
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    AtVersion,
    PlacePath,
    StorageOptions,
    place_of,
    wanted_at,
)


def _what_if(text: str) -> WhatIf:
    with wrong_use():
        return parse_what_if(text)


def extent_verb(
    path: PlacePath,
    at: AtPoint = None,
    version: AtVersion = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the oldest windows.")] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="Headers alone: no oldest windows but T.")
    ] = False,
    counts: Annotated[
        bool, typer.Option("--counts", help="Also read the whole log and count records by kind.")
    ] = False,
    what_if: Annotated[
        list[Any] | None,
        typer.Option(parser=_what_if, metavar="Q=…", help="What another target would have given."),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Time loads on this machine, and remember it.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show what a restart would read back, what that costs, and which windows hold it open."""
    screen = Screen()
    place = place_of(path, storage_options)
    wanted = wanted_at(place, at, version)
    top = 0 if quick else top
    with wrong_use(), _progress(screen, len(place.logs)) as progress:
        found = overview_of(
            place, at=wanted, top=top, counts=counts, targets=what_if or (), progress=progress
        )
    rates = _rates(screen, found, calibrate)
    if as_json:
        screen.document(extent_as_json(found, rates, top))
    else:
        show_extent(screen, found, rates, top)
    if not found.is_sound:
        raise typer.Exit(DAMAGED)


def _rates(screen: Screen, found: Overview, is_wanted: bool) -> LoadRates:
    if not is_wanted:
        return known_rates()
    rates = calibrated(found)
    if rates is None:
        screen.note("nothing was timed: no extent here has a MiB, so use a larger log")
        return known_rates()
    keep_rates(rates)
    return rates


@contextmanager
def _progress(screen: Screen, logs: int) -> Iterator[Any]:
    with screen.bar() as bar:
        task = bar.add_task("reading", total=logs)
        seen: list[str] = []

        def show(log: Log, _: int) -> None:
            if log.folder.path not in seen[-1:]:
                seen.append(log.folder.path)
                bar.update(task, completed=len(seen) - 1, description=log.name or "reading")

        yield show


def extent_as_json(found: Overview, rates: LoadRates, top: int) -> dict[str, Any]:
    """The document of ``cec-store extent --json``; docs/json/extent.schema.json."""
    return document(
        found.place,
        found.is_sound,
        [_log_as_json(each, rates) for each in found.logs],
        {**found.totals(rates), "what_if": _what_if_as_json(found.what_if())},
        retention=found.place.retention(),
        version=found.version,
        batch_timestamp_us=found.timestamp_us,
        faults=list(found.faults),
        rates=asdict(rates),
        oldest_windows=[
            {"log": each.log.name, **asdict(window), "saves_s": _saves(each, window, rates)}
            for each, window in found.oldest_windows(top)
        ],
    )


def _what_if_as_json(outcomes: Sequence[TargetOutcome]) -> list[dict[str, Any]]:
    return [{**asdict(each), "check_overhead": each.check_overhead} for each in outcomes]


def _saves(each: LogExtent, window: OpenWindow, rates: LoadRates) -> float | None:
    return None if each.state is None else each.state.freed_s(window, rates)


def _log_as_json(each: LogExtent, rates: LoadRates) -> dict[str, Any]:
    report = each.report
    return {
        **each.log.fields(),
        "sound": not each.damage,
        "damage": each.damage,
        "epoch": None if report is None else report.epoch,
        "version": None if report is None else report.version,
        "has_state": None if report is None else report.has_state,
        "totals": None if report is None else _totals_as_json(report.totals),
        "state": None if each.state is None else _state_as_json(each, each.state, rates),
        "what_if": _what_if_as_json(each.what_if),
    }


def _totals_as_json(totals: LogTotals) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(totals).items() if name != "is_state"},
        "write_amplification": totals.write_amplification,
        "check_overhead": totals.check_overhead,
    }


def _state_as_json(each: LogExtent, state: OperatorState, rates: LoadRates) -> dict[str, Any]:
    return {
        **asdict(state),
        "cost_records": each.cost_records,
        "default_target_records": each.default_target,
        **asdict(each.crash_cost(rates)),
    }
