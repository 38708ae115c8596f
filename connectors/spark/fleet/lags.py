"""Rows that wait in a fleet's queues for the queries that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cec_store.connectors.spark.fleet.declaration import Graph, Query
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.history import FleetHistory
from cec_store.connectors.spark.fleet.notes import Notes, QueryNotes
from cec_store.connectors.spark.fleet.outer import OuterLag
from cec_store.errors import CecError
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import unread_times


@dataclass(frozen=True)
class QueryLag:
    """Lag of one query behind the queues and other sources that it reads."""

    records_waiting: int | None
    """Number of records that no batch of it has read; ``None``: it cannot be known."""
    waiting_since_us: int | None
    """Time since which the oldest of these has been there, at the longest, in microseconds since
    1970; ``None``: there is none, or it cannot be known."""
    lag_problem: str = ""
    """Reason why it cannot be known."""
    outer_lags: tuple[OuterLag, ...] = ()
    """Lag behind each source that is no queue, as Spark said it of the last batch."""


Opened = Mapping[str, QueueState | CecError]
"""A fleet's queues by their paths, or why they cannot be opened."""


def opened_queues(folder: FleetFolder, graph: Graph) -> Opened:
    """Open the queues that the fleet's queries read and write."""
    paths = dict.fromkeys((*graph.read_queues, *graph.writers))
    return {path: _opened(folder, path) for path in paths}


def _opened(folder: FleetFolder, path: str) -> QueueState | CecError:
    try:
        return ReferenceLog(folder.queue(path)).open()
    except CecError as error:
        return error


def lags_of(
    folder: FleetFolder, notes: Notes, queues: Opened, *, is_driven: bool
) -> dict[str, QueryLag]:
    """Return the lag of each query, by its checkpoint and ``queues``, in any process.

    ``is_driven``: a driver is alive, so what Spark has told it of other sources counts.
    """
    history = FleetHistory(folder, notes, notes.graph)
    graph = notes.graph
    return {
        name: with_outer(_lag(name, graph, history, queues), query, notes.of(name), is_driven)
        for name, query in graph.queries.items()
    }


def with_outer(lag: QueryLag, query: Query, notes: QueryNotes, is_driven: bool) -> QueryLag:
    """Add to a query's lag behind its queues what Spark has said of its other sources.

    Only of a query that runs: of one that does not, what it said once is no lag any more.
    """
    if not query.sources:
        return lag
    lag = replace(lag, outer_lags=notes.outer_lags)
    if lag.lag_problem:
        return lag
    names = ", ".join(source.name for source in query.sources)
    if not (is_driven and notes.is_active):
        return _unknown(lag, f"only Spark tells of {names}, and this query does not run")
    if len(notes.outer_lags) < len(query.sources):
        return _unknown(lag, f"no batch has told of {names} yet")
    silent = [outer.source for outer in notes.outer_lags if outer.records is None]
    if silent:
        return _unknown(lag, f"Spark does not say it of {', '.join(silent)}")
    records = sum(outer.records or 0 for outer in notes.outer_lags)
    # Since when those of an outer input have been there is nowhere said.
    since_us = None if records else lag.waiting_since_us
    return replace(lag, records_waiting=(lag.records_waiting or 0) + records,
                   waiting_since_us=since_us)  # fmt: skip


def _unknown(lag: QueryLag, problem: str) -> QueryLag:
    return replace(lag, records_waiting=None, waiting_since_us=None, lag_problem=problem)


def _lag(name: str, graph: Graph, history: FleetHistory, queues: Opened) -> QueryLag:
    records = 0
    times: list[int | None] = []
    try:
        batches = history.batches(name)
        for path in graph.reads(name):
            queue = queues[path]
            if isinstance(queue, CecError):
                raise queue
            read = history.read(name, batches[-1], path) if batches else {}
            kept = zip(queue.commit.starts, queue.commit.ends, strict=True)
            for partition, (start, end) in enumerate(kept):
                upto = max(start, read.get(partition, 0))
                if upto < end:
                    records += end - upto
                    times.append(unread_times(queue, partition, upto)[1])
    except CecError as error:
        return QueryLag(None, None, str(error))
    return QueryLag(records, min((us for us in times if us is not None), default=None))
