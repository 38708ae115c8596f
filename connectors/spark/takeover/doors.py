"""A driver that keeps its query alive, and those that stand by for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cec_store.connectors.spark.setup.environment import VARIABLES
from cec_store.connectors.spark.takeover import active, passive
from cec_store.connectors.spark.takeover.active import Follower
from cec_store.connectors.spark.takeover.passive import Takeover
from cec_store.standby.leases import KeepAlive, Lease
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions

_Started = TypeVar("_Started")


def keep_alive(
    session: Any,
    checkpoint: AnyPath,
    *,
    storage_options: StorageOptions | None = None,
    period_s: float = 0.1,
    misses: int = 3,
) -> Lease:
    """Be the one driver of this query, for as long as this process lives: call it before ``start``.

    Keeps a lease in the checkpoint's own store, a sign of life every ``period_s`` seconds while the
    session answers, so that a standby learns when this driver has failed. Whatever has taken over,
    this driver writes nothing to the checkpoint any more: its next commit fails with
    ``FencedDriver``.

    Below ``cec-store standby CHECKPOINT`` it first waits until the driver that is at work falls
    silent, with the session warm.

    Args:
        session: A `SparkSession` with our jar.
        checkpoint: What the query has as checkpointLocation; it need not be there yet.
        storage_options: Of a URL's fsspec file system, as pandas takes them.
        period_s: Seconds between two signs of life.
        misses: How many of them may be missing.

    Returns:
        The lease. Release it, or use it as a context manager, where the query ends as planned.

    Raises:
        LeaseHeld: another driver is alive; nothing was changed.
        SparkUnavailable: the session has no jar of ours, or no driver of its own.
        ValueError: times that are not allowed, or a setting of the session that prevents it.

    Examples:
        >>> with spark.keep_alive(session, "checkpoints/totals"):
        ...     start_query().awaitTermination()
    """
    rule = KeepAlive(period_s, misses)
    return passive.keep_alive(
        session, checkpoint, storage_options=storage_options, rule=rule, variables=VARIABLES
    )


def standby(
    session: Any,
    checkpoint: AnyPath,
    start: Callable[[], _Started],
    *,
    storage_options: StorageOptions | None = None,
    period_s: float = 0.1,
    misses: int = 3,
    on_warm: Callable[[], object] = lambda: None,
) -> Takeover[_Started]:
    """Wait, warm, until the query's driver falls silent or ends; then call ``start`` and return.

    Before ``start`` is called the old driver is fenced: wherever it was stopped, it writes nothing
    to the checkpoint any more. ``start`` starts the query with the same checkpoint; Spark goes on
    with the batch that was begun last.

    Args:
        session: A `SparkSession` with our jar, its executors up.
        checkpoint: The checkpointLocation of a query whose driver calls :func:`keep_alive`.
        start: Starts the query; what it returns is in the result.
        storage_options: Of a URL's fsspec file system, as pandas takes them.
        period_s: Seconds between two signs of life of this driver, once it has taken over.
        misses: How many of them may be missing.
        on_warm: Called once it is warm and has begun to wait.

    Raises:
        NotACheckpoint: there is none.
        ValueError: nobody keeps a lease of it, or its state is in a store of another provider.
        SparkUnavailable: the session has no jar of ours, or no driver of its own.

    Examples:
        >>> found = spark.standby(session, "checkpoints/totals", start_query)
        >>> found.started.awaitTermination()
        >>> found.lease.release()
    """
    rule = KeepAlive(period_s, misses)
    return passive.standby(
        session, checkpoint, start, storage_options=storage_options, rule=rule, on_warm=on_warm
    )


def follow(
    session: Any,
    primary: AnyPath,
    checkpoint: AnyPath,
    *,
    storage_options: StorageOptions | None = None,
    period_s: float = 0.1,
    misses: int = 3,
) -> Follower:
    """Be the active standby of a query: call it before the same query starts here, with
    ``checkpointLocation`` ``checkpoint`` and the source's option ``followCheckpoint`` ``primary``.

    Makes ``checkpoint`` as a copy of the primary's after its last committed batch, under the same
    query id, where there is none yet. From then on the query takes the primary's batches and writes
    the same output, of which the queue takes each batch once. When the primary falls silent or
    ends, a thread fences it, and the query goes on with batches of its own.

    Args:
        session: A `SparkSession` with our jar.
        primary: The checkpointLocation of the query whose driver calls :func:`keep_alive`.
        checkpoint: Of this query; a place where nothing is yet, or what it had before a restart.
        storage_options: Of a URL's fsspec file system, as pandas takes them.
        period_s: Seconds between two signs of life of this driver.
        misses: How many of them may be missing.

    Raises:
        NotACheckpoint: there is no primary.
        ValueError: it keeps no lease, has no batch yet, or another query's state store; or
            ``checkpoint`` is another query's.
        LeaseHeld: another driver runs with ``checkpoint``.
        SparkUnavailable: the session has no jar of ours, or no driver of its own.

    Examples:
        >>> follower = spark.follow(session, "checkpoints/totals", "checkpoints/totals-b")
        >>> follower.wait(60)
        True
        >>> follower.release()
    """
    rule = KeepAlive(period_s, misses)
    return active.follow(session, primary, checkpoint, storage_options=storage_options, rule=rule)
