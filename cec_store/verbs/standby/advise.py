"""The verb `cec-store advise`: which availability scheme, by what each costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.inspector.measuring.measured_query import measured_query
from cec_store.inspector.measuring.overview import overview_of
from cec_store.inspector.places.places import PlaceKind
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import QueueChain
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import TimeWindow
from cec_store.operators.contract import Operator
from cec_store.operators.stateless import Filter
from cec_store.standby.costs import Cost, Query, costs, windowed
from cec_store.standby.costs_here import CostHere, cheapest, costs_here
from cec_store.standby.refusals import FOLLOWING, made_by, why_refused
from cec_store.standby.schemes import Scheme, System
from cec_store.terminal.exit_status import exit_if_damaged, wrong_use
from cec_store.terminal.extent_screens import seconds
from cec_store.terminal.screens import Cell, Screen
from cec_store.terminal.wording import size
from cec_store.verbs.arguments import AsJson, StorageOptions, count_option, place_of
from cec_store.verbs.standby.factories import product_of

_FOLLOWED_ONLY = "possible if the operator can be followed, which --operator tells"
_QUEUES_ONLY = "possible if the query reads queues and writes one (spark.follow)"

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
    operator: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Makes the operator, as for a Standby."),
    ] = None,
    recovery_time: RecoveryTime = 1.0,
    rate: Annotated[float | None, typer.Option(help="Input rows a second.")] = None,
    window: Annotated[float, typer.Option(help="Seconds of a window; 0: a filter.")] = 0.0,
    advance: Annotated[
        float | None, typer.Option(help="Seconds between windows of a key; --window if not given.")
    ] = None,
    keys: Annotated[int, count_option("How many keys have windows.")] = 1,
    row_bytes: Annotated[float, typer.Option(help="Of an input row.")] = 50.0,
    row_time: RowTime = None,
    interval: Interval = 0.05,
    detection: Annotated[float, typer.Option(help="Seconds until a failure is known.")] = 0.25,
    redirect: Annotated[
        float, typer.Option(help="Of the paper: until input goes elsewhere.")
    ] = 0.04,
    bandwidth: Annotated[float, typer.Option(help="Mbit/s between nodes.")] = 1000.0,
    delay: Annotated[float, typer.Option(help="Seconds between nodes.")] = 0.0005,
    extent_factor: Annotated[float, typer.Option(help="Q over the open windows.")] = 2.0,
    precise: Annotated[
        bool, typer.Option("--precise", help="The paper's figures with no output twice.")
    ] = False,
    may_lose: Annotated[
        bool, typer.Option("--may-lose", help="Input around the failure may be lost.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Name the cheapest scheme that recovers in time after a failure, and what each costs."""
    row_s = 1 / known_rates().replay_rows_per_s if row_time is None else row_time
    if path is None and rate is None:
        raise typer.BadParameter("give a queue or checkpoint, or --rate and --window")
    if path is not None and (window or keys != 1 or advance is not None):
        raise typer.BadParameter("--window, --advance and --keys are for when no PATH is given")
    advance = window if advance is None else advance
    with wrong_use():
        system = System(
            1.0 if rate is None else rate, detection, interval, redirect, row_bytes, 8.0,
            1e6 * bandwidth, delay, row_s,
        )  # fmt: skip
        made = None if operator is None else product_of(operator, made_by, "--operator ")
        if path is None:
            subject = _of_numbers(system, window, advance, keys, made)
        else:
            subject = _of_place(path, storage_options, system, rate, made)
        papers = costs(
            subject.system, subject.query, is_precise=precise, extent_factor=extent_factor
        )
        by_scheme = costs_here(subject.system, subject.query, extent_factor=extent_factor)
    if as_json:
        head = {"path": path, "recovery_time_s": recovery_time}
        body = _as_json(subject, by_scheme, papers, recovery_time, may_lose)
        Screen().document({**head, **body})
    else:
        _show(Screen(), subject, by_scheme, papers, recovery_time, may_lose)


@dataclass(frozen=True)
class _Subject:
    """Subject of the advice: a place, or an operator with a rate of input."""

    system: System
    query: Query
    operator: Operator | None
    """``None`` where only its log is known."""
    chains: tuple[QueueChain, ...] = ()
    is_spark: bool = False

    def refused(self, scheme: Scheme) -> str:
        """Return why a standby of this scheme is refused; empty where it is not."""
        if self.is_spark and scheme in (Scheme.AMNESIA, Scheme.UPSTREAM):
            return "a Spark query always continues with the state and the offsets in its checkpoint"
        return why_refused(scheme, self.operator, self.chains)

    def condition(self, scheme: Scheme) -> str:
        """Return what a scheme needs that is not known here; empty where it is."""
        if self.is_spark:
            return _QUEUES_ONLY if scheme is Scheme.ACTIVE else ""
        is_known = self.operator is not None or scheme not in FOLLOWING
        return "" if is_known else _FOLLOWED_ONLY


def _of_numbers(system: System, window_s: float, advance_s: float, keys: int,
                operator: Operator | None) -> _Subject:  # fmt: skip
    schema = pa.schema([("key", pa.int64())])
    known: Operator = Filter(pc.field("key") >= 0, schema)
    if window_s:
        known = Aggregate(
            group_by=["key"], aggregates={"rows": ("count",)}, window=TimeWindow(1),
            input_schema=schema,
        )  # fmt: skip
    return _Subject(system, windowed(system, window_s, advance_s, keys), operator or known)


def _of_place(path: str, storage_options: list[Any] | None, system: System,
              rate: float | None, operator: Operator | None) -> _Subject:  # fmt: skip
    place = place_of(path, storage_options)
    overview = overview_of(place, top=0, counts=True)
    exit_if_damaged([*overview.faults, *(item.damage for item in overview.logs if item.damage)])
    chains = tuple(chain_at(item.folder) for item in place.logs if place.kind is PlaceKind.QUEUE)
    # A log without checkpoints does not say how many windows are open.
    operators = [item for item in chains if item.schema().inputs]
    if reason := why_refused(Scheme.EVENTUAL, None, operators):
        raise ValueError(f"{reason}. Give --rate, --window and --advance in place of PATH")
    measured = measured_query(overview, system.window_tuple_s)
    rate = measured.tuples_per_s if rate is None else rate
    if rate is None:
        raise ValueError(f"{path}: it does not say how much input there is; give --rate")
    system = replace(system, tuples_per_s=rate)
    return _Subject(system, measured.query, operator, chains, is_spark=place.has_versions)


def _as_json(
    subject: _Subject,
    by_scheme: dict[Scheme, CostHere],
    papers: dict[Scheme, Cost],
    recovery_time_s: float,
    may_lose: bool,
) -> dict[str, Any]:
    """The document of ``cec-store advise --json``; docs/json/advise.schema.json."""
    best, better = _named(subject, by_scheme, recovery_time_s, may_lose)
    schemes = [
        {
            **asdict(cost),
            "scheme": scheme.value,
            "bandwidth_share": cost.bandwidth_share(subject.system),
            "fits": cost.fits(recovery_time_s, may_lose=may_lose),
            "refused": subject.refused(scheme) or None,
            "condition": subject.condition(scheme) or None,
            "paper": {
                **{
                    name: figure
                    for name, figure in asdict(papers[scheme]).items()
                    if name != "scheme"
                },
                "outage_s": papers[scheme].outage_s(subject.system),
            },
        }
        for scheme, cost in by_scheme.items()
    ]
    return {
        "cheapest": None if best is None else best.scheme.value,
        "cheaper_if": None if better is None else better.scheme.value,
        "system": asdict(subject.system),
        "query": {**asdict(subject.query), "window_s": subject.query.window_s},
        "schemes": schemes,
    }


def _named(
    subject: _Subject, by_scheme: dict[Scheme, CostHere], recovery_time_s: float, may_lose: bool
) -> tuple[CostHere | None, CostHere | None]:
    """The cheapest that a standby takes, and a cheaper one that it may take."""
    possible = [cost for scheme, cost in by_scheme.items() if not subject.refused(scheme)]
    known = [offer for offer in possible if not subject.condition(offer.scheme)]
    best = cheapest(known, subject.system, recovery_time_s, may_lose=may_lose)
    better = cheapest(possible, subject.system, recovery_time_s, may_lose=may_lose)
    return best, None if better == best else better


def _show(
    screen: Screen,
    subject: _Subject,
    by_scheme: dict[Scheme, CostHere],
    papers: dict[Scheme, Cost],
    recovery_time_s: float,
    may_lose: bool,
) -> None:
    system = subject.system
    rows: list[list[Cell]] = []
    for scheme, cost in by_scheme.items():
        state = "perhaps" if subject.condition(scheme) else "yes"
        state = "refused" if subject.refused(scheme) else state
        rows.append([
            scheme.value, state, seconds(cost.outage_s),
            f"{100 * cost.bandwidth_share(system):.1f} %", f"{100 * cost.processor_share:.1f} %",
            size(round(cost.memory_bytes)), size(round(cost.disk_bytes)), round(cost.lost_rows),
            seconds(cost.held_s),
        ])  # fmt: skip
    screen.table(
        "bandwidth: log and input, written and read, as a share of the input; processor: of one",
        ["scheme", "possible", "back after", "bandwidth", "processor", "memory", "disk",
         "lost rows", "output waits"], rows,
    )  # fmt: skip
    _show_paper(screen, system, papers)
    for scheme in by_scheme:
        if reason := subject.refused(scheme):
            screen.line(f"{scheme.value} is refused: {reason}")
        elif condition := subject.condition(scheme):
            screen.line(f"{scheme.value}: {condition}")
    best, better = _named(subject, by_scheme, recovery_time_s, may_lose)
    within = f"within {seconds(recovery_time_s)}"
    if best is None:
        screen.line(f"none that is known to be possible is back {within} of a failure", "bold red")
    else:
        screen.line(f"{best.scheme.value} is the cheapest {within}")
    if better is not None:
        screen.line(f"{better.scheme.value} is cheaper, if it is possible")


def _show_paper(screen: Screen, system: System, papers: dict[Scheme, Cost]) -> None:
    rows: list[list[Cell]] = [
        [
            scheme.value, seconds(cost.outage_s(system)), f"{100 * cost.bandwidth_share:.1f} %",
            f"{100 * cost.processor_share:.1f} %", round(cost.lost_tuples),
            round(cost.repeated_tuples), seconds(cost.held_s),
        ]
        for scheme, cost in papers.items()
    ]  # fmt: skip
    screen.table(
        "the paper's protocols, with messages between nodes in place of a log (its Table 3)",
        ["scheme", "back after", "bandwidth", "processor", "lost rows", "rows twice",
         "output waits"], rows,
    )  # fmt: skip
