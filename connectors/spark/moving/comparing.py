"""Comparison of the state in two checkpoints, whatever providers and partitions they have."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.moving.state_job import asked, check_all_noted, moving_of, reading
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions, folders_at


@dataclass(frozen=True)
class StoreComparison:
    """One state store of an operator, over all partitions; a list has a row for each value."""

    operator: int
    name: str
    """Name that Spark gives the operator."""
    store: str
    rows: int
    other_rows: int
    only_here: int
    """Rows that the other checkpoint does not have, with this key and value."""
    only_there: int


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints beside each other."""

    checkpoint: str
    batch: int
    other: str
    other_batch: int
    stores: tuple[StoreComparison, ...]

    @property
    def is_same(self) -> bool:
        """True if both hold the same rows."""
        return not any(store.only_here or store.only_there for store in self.stores)


def compare(
    session: Any,
    checkpoint: AnyPath,
    other: AnyPath,
    *,
    batch: int | None = None,
    other_batch: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Comparison:
    """See whether two checkpoints of one query hold the same state.

    Each is read by the provider that has it, in a Spark job, and compared key by key and value by
    value, as bytes; in which partition a row is does not matter. Nothing is written, and the
    queries may be running.

    Args:
        session: A `SparkSession` that was begun with ``spark.configure(builder)``.
        checkpoint, other: The two checkpointLocations.
        batch, other_batch: The state that this batch has left; by default the last committed one.
        storage_options: Of URLs' fsspec file systems, as pandas takes them.

    Raises:
        NotACheckpoint: one of them is none.
        OutOfRange: no batch is committed yet, or that one is not kept.
        MoveRefused: they are of queries that keep other state, or Spark has noted nothing of it.
        CorruptLog: what Spark wrote is damaged.
        SparkUnavailable: the session has no jar of ours or no driver of its own, or the job failed.

    Examples:
        >>> spark.compare(session, "checkpoints/old", "checkpoints/totals").is_same
        True
    """
    first_checkpoint, second_checkpoint = (
        Checkpoint(folder) for folder in folders_at((checkpoint, other), storage_options)
    )
    moving = moving_of(session)
    first = first_checkpoint.newest_batch() if batch is None else batch
    second = second_checkpoint.newest_batch() if other_batch is None else other_batch
    both = (
        json.dumps(reading(first_checkpoint, first)),
        json.dumps(reading(second_checkpoint, second)),
    )
    answer = asked(
        f"{first_checkpoint.path}, {second_checkpoint.path}",
        lambda: moving.compare(session._jsparkSession, *both),
    )
    operators = [store["operator"] for store in answer["stores"]]
    check_all_noted(first_checkpoint, operators)
    check_all_noted(second_checkpoint, operators)
    stores = tuple(StoreComparison(**store) for store in answer["stores"])
    return Comparison(first_checkpoint.path, first, second_checkpoint.path, second, stores)
