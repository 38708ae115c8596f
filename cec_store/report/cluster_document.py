"""Everything that a report shows of a cluster, as one document: what `--cluster --json` prints.

Who owns what, who could take over and how fast, what moved and what that cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from cec_store.connectors.spark.executors.events import Event
from cec_store.connectors.spark.executors.saved import SavedCluster
from cec_store.connectors.spark.executors.snapshot import (
    Executor,
    Move,
    Partition,
    PartitionId,
    Snapshot,
)

Document = dict[str, Any]


def report_on_cluster(path: str, saved: SavedCluster) -> Document:
    """Return all of it, of a bounded number of migrations and events: the driver keeps the last."""
    snapshot = saved.snapshot
    record_s = _cold_record_s(snapshot.moves)
    partitions = [_partition(item, saved, record_s) for item in snapshot.partitions]
    return {
        "path": path,
        "kind": "cluster",
        "application": saved.application,
        "application_id": saved.application_id,
        "taken_us": saved.taken_us,
        "shortage": snapshot.shortage,
        "executors": [_executor(item, snapshot) for item in snapshot.executors],
        "partitions": partitions,
        "moves": [_move(item, saved) for item in snapshot.moves],
        "costs": _costs(snapshot.moves),
        "events": [_event(item, saved) for item in saved.events],
        "totals": _totals(snapshot, partitions),
    }


def _executor(executor: Executor, of: Snapshot) -> Document:
    owned = [partition for partition in of.partitions if partition.owner == executor.executor_id]
    held = [partition.replica_on(executor.executor_id) for partition in of.partitions]
    return {
        "executor": executor.executor_id,
        "host": executor.host,
        "is_leaving": executor.is_draining,
        "owns": len(owned),
        "owned_rows": sum(partition.windows for partition in owned),
        "owned_bytes": sum(partition.state_bytes for partition in owned),
        "replicas": sum(replica is not None for replica in held),
        "warm_replicas": sum(replica is not None and replica.state == "warm" for replica in held),
        "replica_bytes": executor.replica_bytes,
        "replica_bytes_max": executor.replica_bytes_max,
    }


def _identity(of: PartitionId, saved: SavedCluster) -> Document:
    return {
        "query": saved.names.get(of.query, of.query[:8]),
        "run_id": of.query,
        "operator": of.operator,
        "partition": of.partition,
    }


def _partition(partition: Partition, saved: SavedCluster, record_s: float | None) -> Document:
    best = partition.best_replica
    return {
        **_identity(partition.id, saved),
        "checkpoint": partition.checkpoint,
        "owner": partition.owner,
        "version": partition.version,
        "rows": partition.windows,
        "state_bytes": partition.state_bytes,
        "replicas_wanted": partition.replicas_wanted,
        "is_placed": partition.is_placed,
        "takeover": best and {"executor": best.executor_id, "lag_versions": best.lag_versions or 0},
        "cold_load_us": None if record_s is None else round(1e6 * record_s * partition.windows),
        "replicas": [asdict(replica) for replica in partition.replicas],
    }


def _cold_record_s(moves: Sequence[Move]) -> float | None:
    """Return the seconds per record of loads without a replica; ``None`` where there were none."""
    cold = [move for move in moves if move.state == "done" and not move.is_from_replica]
    records = sum(move.records_read for move in cold)
    return sum(move.load_ms for move in cold) / 1e3 / records if records else None


def _move(move: Move, saved: SavedCluster) -> Document:
    done_ms = move.done_ms
    return {
        "number": move.number,
        **_identity(move.id, saved),
        "from": move.source,
        "to": move.target,
        "protocol": move.protocol,
        "state": move.state,
        "reason": move.reason,
        "ordered_us": 1000 * move.ordered_ms,
        "took_us": None if done_ms is None else 1000 * (done_ms - move.ordered_ms),
        "is_from_replica": move.is_from_replica,
        "records_read": move.records_read,
        "load_us": 1000 * move.load_ms,
    }


def _event(event: Event, saved: SavedCluster) -> Document:
    of = event.id
    return {
        "number": event.number,
        "at_us": 1000 * event.at_ms,
        "kind": event.kind,
        "partition": None if of is None else _identity(of, saved),
        "executor": event.executor,
        "from": event.source,
        "move": event.move,
        "reason": event.reason,
    }


def _costs(moves: Sequence[Move]) -> list[Document]:
    """Return the number and cost of moves, by protocol and by where the state came from."""
    costs = []
    done = [move for move in moves if move.state == "done" and move.done_ms is not None]
    for kind in sorted({(move.protocol, move.is_from_replica) for move in done}):
        group = [move for move in done if (move.protocol, move.is_from_replica) == kind]
        costs.append(
            {
                "protocol": kind[0],
                "is_from_replica": kind[1],
                "moves": len(group),
                "records_read": sum(move.records_read for move in group),
                "load_us_median": round(1000 * median(move.load_ms for move in group)),
                "load_us_max": 1000 * max(move.load_ms for move in group),
                "took_us_median": round(
                    1000 * median((move.done_ms or 0) - move.ordered_ms for move in group)
                ),
            }
        )
    return costs


def _totals(snapshot: Snapshot, partitions: Sequence[Document]) -> Document:
    lags = [item["takeover"]["lag_versions"] for item in partitions if item["takeover"]]
    states = [item.state for item in snapshot.moves]
    return {
        "executors": len(snapshot.executors),
        "partitions": len(partitions),
        "rows": sum(item["rows"] for item in partitions),
        "state_bytes": sum(item["state_bytes"] for item in partitions),
        "replica_bytes": sum(item.replica_bytes for item in snapshot.executors),
        "without_owner": sum(item["owner"] is None for item in partitions),
        "covered": len(lags),
        "lag_versions_max": max(lags, default=None),
        "moves_done": states.count("done"),
        "moves_failed": states.count("failed"),
        "moves_running": sum(not item.is_over for item in snapshot.moves),
    }
