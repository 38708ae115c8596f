"""Snapshot of a cluster: owner and replicas of each partition of state at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True, order=True)
class PartitionId:
    """One partition of an operator's state, the paper's key group.

    The stores of a join's partition, four of them, are one: one task reads them.
    """

    query: str
    """The run id of the query, as ``StreamingQuery.runId`` has it."""
    operator: int
    partition: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PartitionId:
        return cls(document["query"], document["operator"], document["partition"])

    def __str__(self) -> str:
        return f"partition {self.partition} of operator {self.operator} of query {self.query}"


@dataclass(frozen=True)
class Executor:
    """A process that runs tasks; one that is gone is in no snapshot."""

    executor_id: str
    host: str
    is_draining: bool
    """True if it is being decommissioned: it gets no more tasks."""
    replica_bytes: int
    replica_bytes_max: int


@dataclass(frozen=True)
class Replica:
    """State of a partition on an executor that does not own it."""

    executor_id: str
    state: str
    """``loading``, ``warm``, ``no_room`` or ``failing``."""
    version: int
    """Version of the state that the replica has; -1 while it has none."""
    lag_versions: int | None
    """Number of versions that it is behind the partition; None while it has none."""
    memory_bytes: int
    reason: str


@dataclass(frozen=True)
class Partition:
    """A partition of state, where it is, and its replicas."""

    id: PartitionId
    checkpoint: str
    owner: str | None
    """The executor whose task had it last; None where that is gone."""
    version: int
    """The newest that is committed; -1 before the first."""
    windows: int
    """Rows that its state holds."""
    state_bytes: int
    replicas_wanted: int
    is_placed: bool
    """Its replicas are where somebody has put them."""
    replicas: tuple[Replica, ...]

    def replica_on(self, executor_id: str) -> Replica | None:
        return next(
            (replica for replica in self.replicas if replica.executor_id == executor_id), None
        )

    @property
    def best_replica(self) -> Replica | None:
        """The one that lacks least."""
        warm = [replica for replica in self.replicas if replica.state == "warm"]
        return max(warm, key=lambda replica: replica.version, default=None)


@dataclass(frozen=True)
class Move:
    """A partition that goes, or has gone, from one executor to another on purpose."""

    number: int
    id: PartitionId
    source: str | None
    target: str
    protocol: str
    state: str
    """``catching_up``: its replica is made to lack nothing; ``locating``: the next batch is told
    the new place; ``done``, ``failed`` or ``cancelled``."""
    reason: str
    """Why it failed."""
    ordered_ms: int
    """Since 1970, as the next two."""
    located_ms: int | None
    """Time at which Spark was told the new place. The query goes on until then."""
    done_ms: int | None
    """Time at which the new owner had the state."""
    version: int | None
    """The one that the new owner has loaded."""
    is_from_replica: bool
    records_read: int
    """Records that the new owner read from the log in the batch that moved the partition."""
    load_ms: int
    """Milliseconds that the new owner took to load the state."""

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Snapshot:
    """Executors, partitions and moves, by one look of the driver."""

    executors: tuple[Executor, ...]
    partitions: tuple[Partition, ...]
    moves: tuple[Move, ...]
    """The oldest first."""
    shortage: str | None
    """Why there are fewer replicas than asked for."""

    @cached_property
    def by_id(self) -> dict[PartitionId, Partition]:
        return {partition.id: partition for partition in self.partitions}

    @property
    def usable(self) -> tuple[str, ...]:
        """Executors that may own something, in the order of their numbers."""
        return tuple(
            executor.executor_id for executor in self.executors if not executor.is_draining
        )

    def move(self, number: int) -> Move | None:
        return next((move for move in self.moves if move.number == number), None)


def parsed(status: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot in `Cluster.status()`, documented in `scala/replicas/Cluster.scala`."""
    replicas: dict[PartitionId, list[Replica]] = {}
    for document in status["replicas"]:
        replica = Replica(
            document["executor"],
            document["state"],
            document["version"],
            document["lag_versions"],
            document["memory_bytes"],
            document.get("reason") or "",
        )
        replicas.setdefault(PartitionId.of(document), []).append(replica)
    executors = [
        Executor(
            document["executor"],
            document["host"],
            document["state"] == "draining",
            document["replica_bytes"],
            document["replica_bytes_max"],
        )
        for document in status["executors"]
    ]
    partitions = [_partition(document, replicas) for document in status["assignments"]]
    return Snapshot(
        tuple(sorted(executors, key=lambda executor: executor_order(executor.executor_id))),
        tuple(sorted(partitions, key=lambda partition: partition.id)),
        tuple(map(move_of, status["migrations"])),
        status["wanted"],
    )


def _partition(
    document: Mapping[str, Any], replicas: Mapping[PartitionId, list[Replica]]
) -> Partition:
    key = PartitionId.of(document)
    return Partition(
        key,
        document["checkpoint"],
        document["owner"],
        document["version"],
        document["windows"],
        document["state_bytes"],
        document["replicas_wanted"],
        document["is_placed"],
        tuple(replicas.get(key, ())),
    )


def move_of(document: Mapping[str, Any]) -> Move:
    """One of `Cluster.migrations()`."""
    return Move(
        document["id"],
        PartitionId.of(document),
        document["from"],
        document["to"],
        document["protocol"],
        document["state"],
        document["reason"],
        document["ordered_ms"],
        document["located_ms"],
        document["done_ms"],
        document["version"],
        document["is_from_replica"],
        document["records_read"],
        document["load_ms"],
    )


def executor_order(executor_id: str) -> tuple[int, str]:
    """Numbers before names, 9 before 10."""
    return (int(executor_id), "") if executor_id.isdigit() else (1 << 62, executor_id)
