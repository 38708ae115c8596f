"""Arrow tables of the partitions on executors, and of moves between these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import pyarrow as pa

from cec_store.connectors.spark.executors.events import Event
from cec_store.connectors.spark.executors.loads import Cost
from cec_store.connectors.spark.executors.snapshot import Move, PartitionId, Snapshot

_PARTITION = [("query", pa.string()), ("operator", pa.int64()), ("partition", pa.int32())]
_PARTITIONS = pa.schema(
    [
        *_PARTITION,
        ("owner", pa.string()),
        ("version", pa.int64()),
        ("rows", pa.int64()),
        ("state_bytes", pa.int64()),
        ("replica", pa.string()),
        ("replica_lag_versions", pa.int64()),
        ("replica_bytes", pa.int64()),
    ]
)
_MOVES = pa.schema(
    [
        *_PARTITION,
        ("source", pa.string()),
        ("target", pa.string()),
        ("protocol", pa.string()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("ordered_ms", pa.int64()),
        ("located_ms", pa.int64()),
        ("done_ms", pa.int64()),
        ("is_from_replica", pa.bool_()),
        ("records_read", pa.int64()),
        ("load_ms", pa.int64()),
    ]
)


_LOADS = pa.schema(
    [
        *_PARTITION,
        ("executor", pa.string()),
        ("tasks", pa.int64()),
        ("cpu_s", pa.float64()),
        ("rows", pa.int64()),
        ("shuffled_bytes", pa.int64()),
        ("written_bytes", pa.int64()),
        ("memory_bytes", pa.int64()),
        ("state_bytes", pa.int64()),
    ]
)
_EVENTS = pa.schema(
    [
        ("number", pa.int64()),
        ("at_ms", pa.int64()),
        ("kind", pa.string()),
        *_PARTITION,
        ("executor", pa.string()),
        ("source", pa.string()),
        ("move", pa.int64()),
        ("reason", pa.string()),
    ]
)


def table_of_partitions(snapshot: Snapshot) -> pa.Table:
    """A row for each partition, with the replica that lacks least; nulls where there is none."""
    rows = []
    for partition in snapshot.partitions:
        best = partition.best_replica
        rows.append(
            {
                **asdict(partition.id),
                "owner": partition.owner,
                "version": partition.version,
                "rows": partition.windows,
                "state_bytes": partition.state_bytes,
                "replica": best and best.executor_id,
                "replica_lag_versions": best and best.lag_versions,
                "replica_bytes": best and best.memory_bytes,
            }
        )
    return pa.Table.from_pylist(rows, _PARTITIONS)


def table_of_moves(snapshot: Snapshot) -> pa.Table:
    """A row for each migration, the oldest first."""
    return pa.Table.from_pylist([*map(_flat, snapshot.moves)], _MOVES)


def table_of_events(events: Iterable[Event]) -> pa.Table:
    """Return a row for each event, the oldest first; nulls for the partition of an executor's."""
    return pa.Table.from_pylist([*map(_flat, events)], _EVENTS)


def _flat(item: Move | Event) -> dict[str, object]:
    """Return the fields, with those of its partition in the place of `id`."""
    row = asdict(item)
    return {**(row.pop("id") or {}), **row}


def table_of_loads(
    snapshot: Snapshot, costs: Mapping[PartitionId, Cost], others: Mapping[str, float]
) -> pa.Table:
    """Return a row for each partition that runs and has cost something, then one for each executor.

    Args:
        others: Processor seconds of each executor's tasks for no partition of state.
    """
    rows: list[dict[str, object]] = []
    for partition in snapshot.partitions:
        cost = costs.get(partition.id, Cost())
        if cost.tasks:
            rows.append(
                {
                    **asdict(partition.id),
                    "executor": partition.owner,
                    **asdict(cost),
                    "state_bytes": partition.state_bytes,
                }
            )
    rows += [{"executor": name, "cpu_s": spent} for name, spent in others.items() if spent > 0]
    return pa.Table.from_pylist(rows, _LOADS)
