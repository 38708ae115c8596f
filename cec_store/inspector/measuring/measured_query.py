"""Derive from a place's logs the rates of its operators, for costs of availability."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.inspector.measuring.place_extents import LogExtent, Overview
from cec_store.standby.costs import Query


@dataclass(frozen=True)
class MeasuredQuery:
    """Rates are by the records' own timestamps."""

    tuples_per_s: float | None
    """Rows of input per second; ``None`` where the logs do not say, as in state stores
    and trimmed queues."""
    query: Query


def measured_query(overview: Overview, tuple_s: float) -> MeasuredQuery:
    """All logs of a place that operators write, as one operator; needs counted records.

    Raises:
        ValueError: there is none, or too little in them for a rate.
    """
    path = overview.place.path
    logs = [log for log in overview.logs if log.report is not None and log.state is not None]
    if not logs:
        raise ValueError(f"{path}: no operator writes here; give --rate, --window and --advance")
    span_s = _span_s(logs)
    results = sum(_closed(log) for log in logs)
    if span_s <= 0 or not results:
        raise ValueError(
            f"{path}: {results:,} results in {span_s:g} s are too few for a rate; give --rate, "
            "--window and --advance"
        )
    with_input = [log.state for log in logs if log.state is not None and log.has_input]
    rows = sum(sum(state.replay_upto) for state in with_input)
    extents = [log.state.extent for log in logs if log.state is not None]
    records = sum(extent.records for extent in extents)
    stored = sum(extent.bytes for extent in extents)
    query = Query(
        open_windows=sum(extent.open_windows for extent in extents),
        results_per_s=results / span_s,
        tuple_s=tuple_s,
        footprint_bytes=stored / records if records else _record_bytes(logs),
    )
    # A trimmed log says what it has taken since its first day, and for how long it has results.
    is_whole = not any(_first_offset(log) for log in logs if log.has_input)
    return MeasuredQuery(rows / span_s if rows and is_whole else None, query)


def _first_offset(log: LogExtent) -> int:
    return 0 if log.report is None else log.report.totals.first_offset


def _span_s(logs: list[LogExtent]) -> float:
    times = [
        moment
        for log in logs
        if log.report is not None
        for moment in (log.report.totals.first_timestamp_us, log.report.totals.last_timestamp_us)
        if moment is not None
    ]
    return (max(times) - min(times)) / 1e6 if times else 0.0


def _closed(log: LogExtent) -> int:
    """Results, and outputs that close no window."""
    kinds = None if log.report is None else log.report.totals.kinds
    return 0 if kinds is None else kinds["RESULT"] + kinds["DATA"]


def _record_bytes(logs: list[LogExtent]) -> float:
    totals = [item.report.totals for item in logs if item.report is not None]
    records = sum(item.records for item in totals)
    return sum(item.bytes for item in totals) / max(1, records)
