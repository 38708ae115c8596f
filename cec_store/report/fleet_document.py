"""Everything that a report shows of a fleet, as one document: what `--json` prints of its folder.

The graph of queries and queues, who runs, who waits for what and until when, and what each query
has still to read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cec_store.connectors.spark.fleet.declaration import Graph, queue_path
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.lags import QueryLag, lags_of, opened_queues
from cec_store.connectors.spark.fleet.status import (
    QUERY_STATES,
    FleetStatus,
    QueryStatus,
    status_of,
)
from cec_store.errors import CecError, NoGlobalCheckpoint
from cec_store.ledger.queue_state import QueueState

Document = dict[str, Any]


def report_on_fleet(folder: FleetFolder) -> Document:
    """All of it, as the folder, the queues and the queries' checkpoints say. Writes nothing.

    A queue that cannot be opened is in the document with the reason.

    Raises:
        NotAFleet: there is none.
        CorruptLog, UnsupportedVersion: its notes cannot be read.
    """
    notes = folder.read()
    graph = notes.graph
    status = status_of(folder, time.time(), notes=notes)
    queues = opened_queues(folder, graph)
    lags = lags_of(folder, notes, queues, is_driven=status.is_driven)
    levels = _levels(graph)
    outage = notes.situation.outage
    queries = [_query(item, graph, lags[item.name], levels) for item in status.queries]
    return {
        "path": folder.path,
        "kind": "fleet",
        "state": status.state,
        "driver": status.driver,
        "written_us": _us(status.written_s),
        "message": status.message,
        "executors": [
            {"executor": name, "cores": cores}
            for name, cores in sorted(notes.situation.executors.items())
        ],
        "outage": outage and {
            "since_us": _us(outage.since_s),
            "cores_before": outage.cores_before,
            "arrivals_us": [_us(item) for item in outage.arrivals],
        },
        "checkpoints": _checkpoints(folder),
        "queries": queries,
        "queues": [_queue(path, queue, graph, levels) for path, queue in queues.items()],
        "totals": _totals(status, queries),
    }  # fmt: skip


def _us(seconds: float | None) -> int | None:
    return None if seconds is None else round(1e6 * seconds)


def _levels(graph: Graph) -> dict[str, int]:
    """Return the distance of each query and each queue from the inputs, along the longest way."""
    levels = dict.fromkeys(graph.inputs, 0)
    for name, query in graph.queries.items():  # each after those that it reads
        levels[name] = 1 + max((levels[path] for path in graph.reads(name)), default=0)
        if query.sink is None:
            levels[queue_path(query.writes)] = 1 + levels[name]
    return levels


def _query(status: QueryStatus, graph: Graph, lag: QueryLag, levels: Mapping[str, int]) -> Document:
    name, query = status.name, graph.queries[status.name]
    return {
        "query": name,
        "level": levels[name],
        "reads": list(graph.reads(name)),
        "writes": None if query.sink is not None else queue_path(query.writes),
        "sources": [source.name for source in query.sources],
        "sink": None if query.sink is None else query.sink.name,
        "state": status.state,
        "priority": status.priority,
        "cores": status.cores,
        "batch": status.batch,
        "waits_for": status.waits_for,
        "expected_us": _us(status.expected_s),
        "arrivals": status.arrivals,
        "failures": status.failures,
        "reason": status.reason,
        "records_waiting": lag.records_waiting,
        "waiting_since_us": lag.waiting_since_us,
    }


def _queue(
    path: str, queue: QueueState | CecError, graph: Graph, levels: Mapping[str, int]
) -> Document:
    head = {
        "path": path,
        "level": levels[path],
        "writer": graph.writers.get(path),
        "readers": [name for name in graph.queries if path in graph.reads(name)],
    }
    if isinstance(queue, CecError):
        return {**head, "partitions": None, "records": None, "end": None, "problem": str(queue)}
    commit = queue.commit
    return {
        **head,
        "partitions": len(commit.ends),
        "records": sum(commit.ends) - sum(commit.starts),
        "end": sum(commit.ends),
        "problem": "",
    }


def _checkpoints(folder: FleetFolder) -> list[Document]:
    """The global ones that are kept, the oldest first."""
    checkpoints = []
    for number in folder.checkpoints():
        with suppress(NoGlobalCheckpoint):  # the driver has just deleted it
            checkpoints.append(folder.checkpoint(number))
    return [
        {
            "number": checkpoint.number,
            "taken_us": checkpoint.at_us,
            "batches": dict(checkpoint.batches),
        }
        for checkpoint in checkpoints
    ]


def _totals(status: FleetStatus, queries: Sequence[Document]) -> Document:
    states = [query["state"] for query in queries]
    costs = [query["cores"] for query in queries if query["cores"] is not None]
    waiting = [query["records_waiting"] for query in queries]
    return {
        "queries": len(queries),
        **{state.replace(" ", "_"): states.count(state) for state in QUERY_STATES},
        "executors": status.executors,
        "cores": status.cores,
        "cores_asked": sum(costs),
        "records_waiting": None if None in waiting else sum(waiting),
    }
