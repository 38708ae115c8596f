"""Rows that wait in a fleet's queues for the queries that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cec_store.connectors.spark.fleet.declaration import Graph
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.history import FleetHistory
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.errors import CecError
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import unread_times


@dataclass(frozen=True)
class QueryLag:
    """Lag of one query behind the queues that it reads."""

    records_waiting: int | None
    """Number of records that no batch of it has read; ``None``: it cannot be known."""
    waiting_since_us: int | None
    """Time since which the oldest of these has been there, at the longest, in microseconds since
    1970; ``None``: there is none, or it cannot be known."""
    lag_problem: str = ""
    """Reason why it cannot be known."""


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


def lags_of(folder: FleetFolder, notes: Notes, queues: Opened) -> dict[str, QueryLag]:
    """Return the lag of each query, by its checkpoint and ``queues``, in any process."""
    history = FleetHistory(folder, notes, notes.graph)
    return {name: _lag(name, notes.graph, history, queues) for name in notes.graph.queries}


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
