"""Costs and recovery times of each scheme in closed form: the availability paper's Table 3.

Intervals of the nodes begin at different times, because averages over time are about such nodes.
The processor's part of a message is counted as a filter's for each tuple or identifier, at both
ends. Work that all schemes share, such as the query's own, is in none of the costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.standby.schemes import Scheme, System

FRAME_BYTES = FRAME_HEADER_BYTES


@dataclass(frozen=True)
class Query:
    """A query's operator: its windows, and how fast they close."""

    open_windows: float
    """N; 0 of a filter."""
    results_per_s: float
    tuple_s: float
    """p: of the processor, for each input tuple."""
    footprint_bytes: float = 50.0
    """Bytes of one record of its log."""
    streams: int = 1

    def __post_init__(self) -> None:
        for name in ("open_windows", "tuple_s", "footprint_bytes"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} is {value:g}, and has to be at least 0")
        if not math.isfinite(self.results_per_s) or self.results_per_s <= 0:
            raise ValueError(f"results_per_s is {self.results_per_s:g}: give more than 0")
        if self.streams < 1:
            raise ValueError(f"streams is {self.streams}: give at least 1")

    @property
    def window_s(self) -> float:
        """Seconds that a window is open, by Little's law."""
        return self.open_windows / self.results_per_s


def windowed(system: System, window_s: float, advance_s: float, keys: int = 1) -> Query:
    """An aggregate over windows of time, or without a window a filter that passes everything on."""
    for name, value in (("window_s", window_s), ("advance_s", advance_s)):
        if not math.isfinite(value) or value < 0 or (window_s and value == 0):
            raise ValueError(f"{name} is {value:g}, and has to be greater than 0")
    if keys < 1:
        raise ValueError(f"keys is {keys}: give at least 1")
    if advance_s > window_s:
        raise ValueError(
            f"advance_s {advance_s:g} is more than window_s {window_s:g}: rows are lost"
        )
    if not window_s:
        return Query(0.0, system.tuples_per_s, system.window_tuple_s, system.tuple_bytes)
    windows = window_s / advance_s
    return Query(
        keys * windows, keys / advance_s, windows * system.window_tuple_s, system.tuple_bytes
    )


@dataclass(frozen=True)
class Cost:
    """One scheme's."""

    scheme: Scheme
    recovery_s: float
    """Seconds from detection until the state is what it was."""
    bandwidth_bytes_per_s: float
    bandwidth_share: float
    """Share of the input's bandwidth."""
    processor_share: float
    """Share of one processor."""
    memory_bytes: float
    """Bytes of memory at other nodes."""
    disk_bytes: float
    lost_tuples: float
    repeated_tuples: float
    held_s: float
    """Seconds that an output waits with no failure."""

    def outage_s(self, system: System) -> float:
        """Return the seconds from the failure until the state is back, or lost input has passed."""
        redirect_s = system.redirect_s if self.scheme is Scheme.AMNESIA else 0.0
        return system.detection_s + redirect_s + self.recovery_s


def costs(
    system: System, query: Query, *, is_precise: bool = False, extent_factor: float = 2.0
) -> dict[Scheme, Cost]:
    """Return what each scheme costs this query on this system.

    Raises:
        ValueError: the query needs more than a processor, or Q is less than the open windows.
    """
    load = system.tuples_per_s * query.tuple_s
    if load >= 1:
        raise ValueError(f"the query alone needs {load:.2f} processors; one node has one")
    if not 1 <= extent_factor < math.inf:
        raise ValueError(f"extent_factor is {extent_factor:g}: Q is at least the open windows")
    all_costs = (
        _amnesia(system, query),
        _passive(system, query, is_precise),
        _upstream(system, query, is_precise),
        _active(system, query, is_precise),
        _eventual(system, query, extent_factor),
    )
    return {cost.scheme: cost for cost in all_costs}


def _cost(
    system: System,
    query: Query,
    scheme: Scheme,
    recovery_s: float,
    *,
    tuples_per_s: float = 0.0,
    record_bytes: float | None = None,
    other_bytes_per_s: float = 0.0,
    ids: float = 0.0,
    processor_share: float = 0.0,
    memory_bytes: float = 0.0,
    disk_bytes: float = 0.0,
    lost: float = 0.0,
    repeated: float = 0.0,
    held_s: float = 0.0,
) -> Cost:
    """``tuples_per_s`` and ``ids`` an interval are what its messages hold."""
    each_bytes = system.tuple_bytes if record_bytes is None else record_bytes
    ids_per_s = ids * messages_per_s(system)
    sent = tuples_per_s * each_bytes + ids_per_s * system.id_bytes + other_bytes_per_s
    handled = 2 * (tuples_per_s + ids_per_s) * system.window_tuple_s
    return Cost(
        scheme, recovery_s, sent, sent / system.input_bytes_per_s, processor_share + handled,
        memory_bytes, disk_bytes, lost, repeated, held_s,
    )  # fmt: skip


def messages_per_s(system: System) -> float:
    """Return messages per second of each kind: one an interval, unless nothing came meanwhile."""
    return min(1 / system.interval_s, system.tuples_per_s)


def _redirected_s(system: System) -> float:
    """K: until the recovery node has its first tuple."""
    return system.redirect_s + system.delay_s


def advance_of(query: Query) -> float:
    """Between two results, but no longer than a window."""
    return min(1 / query.results_per_s, query.window_s)


def state_tuples(system: System, query: Query) -> float:
    """Return the tuples in open windows: the oldest is between W and one advance less old."""
    return system.tuples_per_s * (query.window_s - advance_of(query) / 2)


def _still_open_share(system: System, query: Query) -> float:
    """Return the share of an interval's tuples that are in an open window at the interval's end."""
    interval_s, window_s, advance_s = system.interval_s, query.window_s, advance_of(query)
    all_s = min(interval_s, window_s - advance_s)
    some_s = min(max(0.0, interval_s - all_s), advance_s)
    return (all_s + some_s * (1 - some_s / (2 * advance_s))) / interval_s if advance_s else 0.0


def _amnesia(system: System, query: Query) -> Cost:
    away = system.tuples_per_s * (system.detection_s + system.redirect_s)
    return _cost(system, query, Scheme.AMNESIA, 0.0, lost=away + state_tuples(system, query))


def _passive(system: System, query: Query, is_precise: bool) -> Cost:
    """Q = Mλ/2; a checkpoint has the tuples that came and are in a window still."""
    again = system.tuples_per_s * system.interval_s / 2
    came = system.tuples_per_s * _still_open_share(system, query)
    state = state_tuples(system, query)
    queued = system.tuples_per_s * (system.interval_s / 2 + 2 * system.delay_s)
    stateful = 1 if query.open_windows else 0
    return _cost(
        system, query, Scheme.PASSIVE,
        _redirected_s(system) + again * (query.tuple_s + system.tuple_s),
        tuples_per_s=came + query.results_per_s,
        ids=2 * query.streams + 2 + stateful,
        memory_bytes=(state + queued) * system.tuple_bytes,
        repeated=0 if is_precise else _unacknowledged(system, query),
    )  # fmt: skip


def _unacknowledged(system: System, query: Query) -> float:
    """Outputs sent since the last that a node's last message knew to be there: (M + 2d) λ_out."""
    return query.results_per_s * (system.interval_s + 2 * system.delay_s)


def _upstream(system: System, query: Query, is_precise: bool) -> Cost:
    """Q = |state| + Mλ + 2dλ; while windows open again, a tuple goes into half of them."""
    state = system.tuples_per_s * query.window_s
    since_s = system.interval_s + 2 * system.delay_s + advance_of(query) / 2
    after = system.tuples_per_s * since_s
    again = state + after
    watermarks = system.tuples_per_s * system.id_bytes if is_precise else 0.0
    return _cost(
        system, query, Scheme.UPSTREAM,
        _redirected_s(system) + again * system.tuple_s + (state / 2 + after) * query.tuple_s,
        ids=2 * query.streams,
        other_bytes_per_s=watermarks,
        memory_bytes=again * system.tuple_bytes,
        repeated=0 if is_precise else _unacknowledged(system, query),
    )  # fmt: skip


def _active(system: System, query: Query, is_precise: bool) -> Cost:
    """All is done twice; what is left is to send the output that was held back."""
    kept = _unacknowledged(system, query)
    return _cost(
        system, query, Scheme.ACTIVE,
        system.redirect_s if is_precise else kept * system.tuple_s,
        ids=3 * query.streams,
        other_bytes_per_s=system.input_bytes_per_s,
        processor_share=system.tuples_per_s * query.tuple_s,
        memory_bytes=(state_tuples(system, query) + kept) * system.tuple_bytes,
        repeated=0 if is_precise else kept,
    )  # fmt: skip


def _footprint_ages(span_s: float, interval_s: float) -> tuple[float, float]:
    """Return the ages in seconds, at a frame, of the oldest footprint and of the average one.

    Each is of the frame after a moment, and the moments are spread evenly over the span before it.
    """
    frames = math.floor(max(0.0, span_s / interval_s - 1e-9))
    if not frames:
        return 0.0, 0.0
    whole_s = frames * interval_s
    sum_s = interval_s * interval_s * frames * (frames - 1) / 2 + whole_s * (span_s - whole_s)
    return whole_s, sum_s / span_s


@dataclass(frozen=True)
class LogCost:
    """Cost of writing a log with footprints, and of reading it back after a failure."""

    records_per_s: float
    frame_bytes: float
    """Bytes of an interval's frame."""
    extent_records: float
    read_s: float
    """Reading the extent."""
    rows_again: float
    """Input rows between the oldest footprint and the failure."""
    rows_into_windows: float
    """The same as rows that each go into all open windows: younger windows lack fewer."""


def log_cost(system: System, query: Query, extent_factor: float) -> LogCost:
    """Return the cost of a query's log with an extent of at most ``extent_factor`` times N.

    Without CHECKs the extent is 2 N; a smaller Q asks for one of each window every (Q/N - 1) W. No
    window can be checked more often than there are frames.
    """
    interval_s, window_s = system.interval_s, query.window_s
    checked_s = max(interval_s, min(1.0, extent_factor - 1) * window_s)
    checks_per_s = max(0.0, query.open_windows / checked_s - query.results_per_s)
    if not query.open_windows or checked_s > window_s:
        checks_per_s = 0.0
    opens_per_s = query.results_per_s * min(1.0, window_s / interval_s)
    records_per_s = query.results_per_s + opens_per_s + checks_per_s
    oldest_s, mean_s = _footprint_ages(min(window_s, checked_s), interval_s)
    extent = min(2.0, max(1.0, extent_factor)) * query.open_windows
    return LogCost(
        records_per_s=records_per_s,
        frame_bytes=records_per_s * interval_s * query.footprint_bytes + FRAME_BYTES,
        extent_records=extent,
        read_s=2 * system.delay_s
        + extent * (8 * query.footprint_bytes / system.bits_per_s + system.window_tuple_s),
        rows_again=system.tuples_per_s * (oldest_s + interval_s / 2),
        rows_into_windows=system.tuples_per_s * (mean_s + interval_s / 2),
    )


def _eventual(system: System, query: Query, extent_factor: float) -> Cost:
    log = log_cost(system, query, extent_factor)
    again_s = log.rows_again * system.tuple_s + log.rows_into_windows * query.tuple_s
    return _cost(
        system, query, Scheme.EVENTUAL,
        max(_redirected_s(system), log.read_s) + again_s,
        tuples_per_s=log.records_per_s,
        record_bytes=query.footprint_bytes,
        other_bytes_per_s=FRAME_BYTES * messages_per_s(system),
        ids=query.streams,
        disk_bytes=log.extent_records * query.footprint_bytes,
        held_s=system.interval_s / 2 + 8 * log.frame_bytes / system.bits_per_s + system.delay_s,
    )  # fmt: skip
