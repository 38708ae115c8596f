"""The verb `cec-store extent`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import pyarrow as pa
import typer

from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.measuring.extent_history import WhatIf, parse_what_if
from cec_store.inspector.measuring.extents import OpenWindow, OperatorState
from cec_store.inspector.measuring.kept_rates import keep_rates, known_rates
from cec_store.inspector.measuring.overview import calibrated, overview_of
from cec_store.inspector.measuring.place_extents import LogExtent, Overview
from cec_store.inspector.measuring.totals import LogTotals
from cec_store.inspector.measuring.what_if import TargetOutcome
from cec_store.inspector.places.places import Log
from cec_store.terminal.built_in_screens import show_beside
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import DAMAGED, wrong_use
from cec_store.terminal.extent_screens import show_extent
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    AtVersion,
    Cores,
    PlacePath,
    StorageOptions,
    count_option,
    place_of,
    places_of,
    wanted_at,
)


def _what_if(text: str) -> WhatIf:
    with wrong_use():
        return parse_what_if(text)


def extent_verb(
    path: PlacePath,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[OTHER]", help="Another checkpoint, to be shown beside it."),
    ] = None,
    at: AtPoint = None,
    version: AtVersion = None,
    top: Annotated[int, count_option("How many of the oldest windows.")] = 10,
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
    cores: Cores = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show what a restart would read back, what that costs, and which windows hold it open.

    Of checkpoints that Spark's own providers keep: which snapshot, and which changes since.
    """
    screen = Screen(has_bars=not as_json)
    top = 0 if quick else top
    if other is None:
        places = [place_of(path, storage_options)]
    else:
        places = [*places_of((path, other), storage_options)]
    overviews = []
    for place in places:
        if other is not None and place.checkpoint is None:
            raise typer.BadParameter(f"{place.path}: only checkpoints are shown beside each other")
        chosen_at = wanted_at(place, at, version)
        with wrong_use(), _progress(screen, len(place.logs)) as progress:
            overviews.append(
                overview_of(
                    place, at=chosen_at, top=top, counts=counts, targets=what_if or (),
                    progress=progress,
                )
            )  # fmt: skip
    rates = _rates(screen, overviews[0], calibrate)
    cores = cores or pa.cpu_count()
    if as_json:
        first, *rest = [extent_as_json(item, rates, cores, top) for item in overviews]
        screen.document({**first, "other": rest[0] if rest else None})
    else:
        for overview in overviews:
            show_extent(screen, overview, rates, cores, top)
        if other is not None:
            show_beside(screen, overviews)
    if not all(item.is_sound for item in overviews):
        raise typer.Exit(DAMAGED)


def _rates(screen: Screen, overview: Overview, is_wanted: bool) -> LoadRates:
    if not is_wanted:
        return known_rates()
    with screen.waiting("timing loads"):
        rates = calibrated(overview, known_rates())
    if rates is None:
        screen.note("nothing was timed: no operator's log is here that can be read")
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


def extent_as_json(overview: Overview, rates: LoadRates, cores: int, top: int) -> dict[str, Any]:
    """The document of ``cec-store extent --json``; docs/json/extent.schema.json."""
    return document(
        overview.place,
        overview.is_sound,
        [_log_as_json(entry, rates) for entry in overview.logs],
        {**overview.totals(rates, cores), "what_if": _what_if_as_json(overview.what_if())},
        retention=overview.place.retention(),
        version=overview.version,
        batch_timestamp_us=overview.timestamp_us,
        provider=overview.place.provider,
        restart_reads=None if overview.place.checkpoint is None else asdict(overview.restart_reads),
        faults=list(overview.faults),
        notes=list(overview.notes),
        last_restart=None if overview.last_restart is None else asdict(overview.last_restart),
        rates=asdict(rates),
        oldest_windows=[
            {"log": entry.log.name, **asdict(window), "saves_s": _saves(entry, window, rates)}
            for entry, window in overview.oldest_windows(top)
        ],
    )


def _what_if_as_json(outcomes: Sequence[TargetOutcome]) -> list[dict[str, Any]]:
    return [{**asdict(outcome), "check_overhead": outcome.check_overhead} for outcome in outcomes]


def _saves(entry: LogExtent, window: OpenWindow, rates: LoadRates) -> float | None:
    return None if entry.state is None else entry.state.freed_s(window, rates)


def _log_as_json(entry: LogExtent, rates: LoadRates) -> dict[str, Any]:
    report = entry.report
    return {
        **entry.log.fields(),
        "sound": not entry.damage,
        "damage": entry.damage,
        "epoch": None if report is None else report.epoch,
        "version": None if report is None else report.version,
        "has_state": None if report is None else report.has_state,
        "totals": None if report is None else _totals_as_json(report.totals),
        "state": None if entry.state is None else _state_as_json(entry, entry.state, rates),
        "what_if": _what_if_as_json(entry.what_if),
        "store": None if entry.store is None else asdict(entry.store),
    }


def _totals_as_json(totals: LogTotals) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(totals).items() if name != "is_state"},
        "write_amplification": totals.write_amplification,
        "check_overhead": totals.check_overhead,
    }


def _state_as_json(entry: LogExtent, state: OperatorState, rates: LoadRates) -> dict[str, Any]:
    return {
        **asdict(state),
        "cost_records": entry.cost_records,
        "default_target_records": entry.default_target,
        **asdict(entry.crash_cost(rates)),
    }
