"""Events of a cluster: what has happened to executors, partitions, replicas and moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.executors.snapshot import PartitionId

KINDS = (
    "executor_joined",
    "executor_draining",
    "executor_lost",
    "owned",
    "orphaned",
    "replica_placed",
    "replica_warm",
    "replica_evicted",
    "replica_dropped",
    "move_ordered",
    "move_done",
    "move_failed",
    "move_cancelled",
)
"""Kinds of events, as `scala/replicas/History.scala` names them."""


@dataclass(frozen=True)
class Event:
    """One change, as the driver has seen it."""

    number: int
    """Number of the event in its application, from 1; the driver keeps the last 2,000."""
    at_ms: int
    """Milliseconds since 1970."""
    kind: str
    """One of :data:`KINDS`."""
    id: PartitionId | None
    """The partition; None where the event is of an executor alone."""
    executor: str
    source: str | None
    """The executor that the partition comes from; None where there is none."""
    move: int | None
    """Number of the migration."""
    reason: str


def events_of(documents: Iterable[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Return the events in `Cluster.events()`, the oldest first.

    Raises:
        KeyError: a document lacks a field.
    """
    return tuple(
        Event(
            document["number"],
            document["at_ms"],
            document["kind"],
            None if document["query"] is None else PartitionId.of(document),
            document["executor"],
            document["from"],
            document["move"],
            document["reason"],
        )
        for document in documents
    )
