"""The verb `cec-store advise`: which availability scheme, by what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.inspector.measuring.measured_query import measured_query
from cec_store.inspector.measuring.overview import overview_of
from cec_store.standby.costs import Cost, Query, cheapest, costs, windowed
from cec_store.standby.schemes import Scheme, System
from cec_store.terminal.exit_status import exit_if_damaged, wrong_use
from cec_store.terminal.extent_screens import seconds
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import size
from cec_store.verbs.arguments import AsJson, StorageOptions, place_of

_RUNS, _RUN_S, _TUPLES_MAX, _FAILURES = 5, 10.0, 1e6, 20

Operators = Annotated[
    str | None,
    typer.Argument(metavar="[PATH]", help="A queue or checkpoint whose operators to ask about."),
]
RecoveryTime = Annotated[
    float,
    typer.Option(min=0.0, metavar="SECONDS", help="From a failure until the state is back."),
]
RowTime = Annotated[
    float | None,
    typer.Option(help="Seconds of a processor for a row in a window; as `extent` calibrates it."),
]
Interval = Annotated[
    float, typer.Option(help="Seconds between checkpoints, acknowledgements or frames.")
]


def advise_verb(
    path: Operators = None,
    recovery_time: RecoveryTime = 1.0,
    rate: Annotated[float | None, typer.Option(help="Input rows a second.")] = None,
    window: Annotated[float, typer.Option(help="Seconds of a window; 0: a filter.")] = 0.0,
    advance: Annotated[
        float | None, typer.Option(help="Seconds between windows of a key; --window if not given.")
    ] = None,
    keys: Annotated[int, typer.Option(help="How many keys have windows.")] = 1,
    row_bytes: Annotated[float, typer.Option(help="Of an input row.")] = 50.0,
    row_time: RowTime = None,
    interval: Interval = 0.05,
    detection: Annotated[float, typer.Option(help="Seconds until a failure is known.")] = 0.25,
    redirect: Annotated[float, typer.Option(help="Seconds until input goes elsewhere.")] = 0.04,
    bandwidth: Annotated[float, typer.Option(help="Mbit/s between nodes.")] = 1000.0,
    delay: Annotated[float, typer.Option(help="Seconds between nodes.")] = 0.0005,
    extent_factor: Annotated[float, typer.Option(help="Q over the open windows.")] = 2.0,
    precise: Annotated[
        bool, typer.Option("--precise", help="No output twice, as if nothing had failed.")
    ] = False,
    may_lose: Annotated[
        bool, typer.Option("--may-lose", help="Input around the failure may be lost.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Simulate each scheme too; needs simpy.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Name the cheapest way to be back in time after a failure, and what each way costs."""
    row_s = 1 / known_rates().replay_rows_per_s if row_time is None else row_time
    advance = window if advance is None else advance
    if path is None and rate is None:
        raise typer.BadParameter("give a queue or checkpoint, or --rate and --window")
    if path is not None and (window or keys != 1 or simulate):
        raise typer.BadParameter("--window, --keys and --simulate are for when no PATH is given")
    with wrong_use():
        system = System(
            1.0 if rate is None else rate, detection, interval, redirect, row_bytes, 8.0,
            1e6 * bandwidth, delay, row_s,
        )  # fmt: skip
        if path is None:
            query = windowed(system, window, advance, keys)
        else:
            system, query = _of_place(path, storage_options, system, rate)
        found = costs(system, query, is_precise=precise, extent_factor=extent_factor)
    best = cheapest(found.values(), system, recovery_time, may_lose=may_lose)
    simulated: dict[Scheme, dict[str, Any]] = {}
    if simulate:
        if keys != 1:
            raise typer.BadParameter("--simulate has windows of one key; leave out --keys")
        with _simulator(), wrong_use():
            simulated = _simulated(system, window, advance, precise, extent_factor)
    if as_json:
        head = {"path": path, "recovery_time_s": recovery_time}
        body = _as_json(system, query, found, best, simulated, recovery_time, may_lose)
        Screen().document({**head, **body})
    else:
        _show(Screen(), system, found, best, simulated, recovery_time)


def _of_place(
    path: str, storage_options: list[Any] | None, system: System, rate: float | None
) -> tuple[System, Query]:
    place = place_of(path, storage_options)
    found = overview_of(place, top=0, counts=True)
    exit_if_damaged([*found.faults, *(each.damage for each in found.logs if each.damage)])
    measured = measured_query(found, system.window_tuple_s)
    rate = measured.tuples_per_s if rate is None else rate
    if rate is None:
        raise ValueError(f"{path}: it does not say how much input there is; give --rate")
    return replace(system, tuples_per_s=rate), measured.query


@contextmanager
def _simulator() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise typer.BadParameter(
            f"--simulate needs simpy ({error}); pip install 'cec-store[simulation]'"
        ) from error


def _simulated(
    system: System, window_s: float, advance_s: float, is_precise: bool, extent_factor: float
) -> dict[Scheme, dict[str, Any]]:
    # Imports SimPy, which is an extra.
    from cec_store.standby.model.networks import aggregate_network, filter_network
    from cec_store.standby.model.outputs import observed
    from cec_store.standby.model.protocols import Readings
    from cec_store.standby.model.runs import Size, simulate

    network = aggregate_network(window_s, advance_s) if window_s else filter_network()
    least_s = 4 * window_s + 10 * system.interval_s + system.detection_s + system.redirect_s + 1
    run_s = max(least_s, min(_RUN_S, _TUPLES_MAX / system.tuples_per_s))
    points = {
        scheme: simulate(
            system, network, scheme, Size(_RUNS, run_s, _FAILURES), Readings(aligned=False),
            is_precise=is_precise, extent_factor=extent_factor,
        )
        for scheme in Scheme
    }  # fmt: skip
    return {
        scheme: {
            "recovery_s": point.recovery_ms / 1e3,
            "bandwidth_share": point.overhead_percent / 100,
            "output": observed(scheme, network.type, is_precise=is_precise).value,
        }
        for scheme, point in points.items()
    }


def _as_json(
    system: System,
    query: Query,
    found: dict[Scheme, Cost],
    best: Cost | None,
    simulated: dict[Scheme, dict[str, Any]],
    recovery_time_s: float,
    may_lose: bool,
) -> dict[str, Any]:
    """The document of ``cec-store advise --json``; docs/json/advise.schema.json."""
    schemes = [
        {
            **asdict(cost),
            "scheme": scheme.value,
            "outage_s": cost.outage_s(system),
            "fits": cost.outage_s(system) <= recovery_time_s and (may_lose or not cost.lost_tuples),
            "simulated": simulated.get(scheme),
        }
        for scheme, cost in found.items()
    ]
    return {
        "cheapest": None if best is None else best.scheme.value,
        "system": asdict(system),
        "query": {**asdict(query), "window_s": query.window_s},
        "schemes": schemes,
    }


def _show(
    screen: Screen,
    system: System,
    found: dict[Scheme, Cost],
    best: Cost | None,
    simulated: dict[Scheme, dict[str, Any]],
    recovery_time_s: float,
) -> None:
    names = ["scheme", "back after", "bandwidth", "processor", "memory", "disk", "lost rows",
             "output waits"]  # fmt: skip
    rows = []
    for scheme, cost in found.items():
        row = [
            scheme.value, seconds(cost.outage_s(system)), f"{100 * cost.bandwidth_share:.1f} %",
            f"{100 * cost.processor_share:.1f} %", size(round(cost.memory_bytes)),
            size(round(cost.disk_bytes)), round(cost.lost_tuples), seconds(cost.held_s),
        ]  # fmt: skip
        if scheme in simulated:
            each = simulated[scheme]
            back_s = cost.outage_s(system) - cost.recovery_s + each["recovery_s"]
            row += [seconds(back_s), f"{100 * each['bandwidth_share']:.1f} %", each["output"]]
        rows.append(row)
    screen.table(
        "bandwidth as a share of the input, processor as a share of one",
        names + ["simulated", "bandwidth", "output"] * bool(simulated), rows,
    )  # fmt: skip
    if best is None:
        screen.line(f"none is back within {seconds(recovery_time_s)} of a failure", "bold red")
    else:
        screen.line(f"{best.scheme.value} is the cheapest within {seconds(recovery_time_s)}")
