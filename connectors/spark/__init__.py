"""Spark keeps the state of streaming queries in logs of ours::

    from cec_store.connectors import spark

    session = spark.configure(SparkSession.builder, recovery_time_s=2).getOrCreate()

pyspark itself is not imported here: `conf` and `jar` need it on the disk only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import VARIABLES
from cec_store.connectors.spark.setup.session import (
    Builder,
    apply,
    has_python_sources,
    has_source_of_jar,
)
from cec_store.connectors.spark.setup.settings import PUSHDOWN_KEY, session_settings, spark_settings

if TYPE_CHECKING:
    from cec_store.connectors.spark.executors.cluster import cluster
    from cec_store.connectors.spark.moving.comparing import compare
    from cec_store.connectors.spark.moving.moving import adopt, release, repartition
    from cec_store.connectors.spark.takeover.active import Follower
    from cec_store.connectors.spark.takeover.passive import Takeover
    from cec_store.standby.leases import Lease
    from cec_store.storage.paths import AnyPath
    from cec_store.storage.stores.folders import StorageOptions

__all__ = [
    "adopt",
    "cluster",
    "compare",
    "conf",
    "configure",
    "follow",
    "jar",
    "keep_alive",
    "register",
    "release",
    "repartition",
    "standby",
]

_Started = TypeVar("_Started")
_HOMES = {
    "adopt": "moving.moving",
    "cluster": "executors.cluster",
    "compare": "moving.comparing",
    "release": "moving.moving",
    "repartition": "moving.moving",
}


def __getattr__(name: str) -> object:
    """What looks at executors and moves state, at its first use: few who import this do."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def configure(
    builder: Builder,
    *,
    recovery_time_s: float | None = None,
    extent_factor: float | None = None,
    extent_max_records: int | None = None,
    check_time_ms: int | None = None,
    sync_mode: str | None = None,
    compression_level: int | None = None,
    segment_bytes: int | str | None = None,
    replicas: int | None = None,
    replica_memory_bytes: int | str | None = None,
    **unknown: NoReturn,
) -> Builder:
    """Make a `SparkSession.builder` keep streaming state in logs of ours.

    Sets what `conf` returns; jars that the builder, `PYSPARK_SUBMIT_ARGS` or `spark-defaults.conf`
    name stay. Sets `JAVA_HOME` in this process where Spark would else find no Java of 17 or newer,
    and `PYSPARK_PYTHON` to this interpreter where it is not set.

    Raises:
        ValueError: a value that is not allowed, or a name that does not exist.
        SparkUnavailable: no Spark 4, no Java, or a JVM without the provider runs already; with
            replicas, any session that began without them.
    """
    settings = conf(
        recovery_time_s=recovery_time_s,
        extent_factor=extent_factor,
        extent_max_records=extent_max_records,
        check_time_ms=check_time_ms,
        sync_mode=sync_mode,
        compression_level=compression_level,
        segment_bytes=segment_bytes,
        replicas=replicas,
        replica_memory_bytes=replica_memory_bytes,
        **unknown,
    )
    return apply(builder, settings)


def conf(
    *,
    recovery_time_s: float | None = None,
    extent_factor: float | None = None,
    extent_max_records: int | None = None,
    check_time_ms: int | None = None,
    sync_mode: str | None = None,
    compression_level: int | None = None,
    segment_bytes: int | str | None = None,
    replicas: int | None = None,
    replica_memory_bytes: int | str | None = None,
    **unknown: NoReturn,
) -> dict[str, str]:
    """Spark's settings for the provider: its class, its jar, and what is given here.

    Of `recovery_time_s`, `extent_factor` and `extent_max_records` one at most. What is not given is
    left to the provider; docs/spark.md has the defaults.

    Raises:
        ValueError: a value that is not allowed, or a name that does not exist.
        SparkUnavailable: no Spark 4, or no Java to compile with.
    """
    chosen = spark_settings(
        {
            "recovery_time_s": recovery_time_s,
            "extent_factor": extent_factor,
            "extent_max_records": extent_max_records,
            "check_time_ms": check_time_ms,
            "sync_mode": sync_mode,
            "compression_level": compression_level,
            "segment_bytes": segment_bytes,
            "replicas": replicas,
            "replica_memory_bytes": replica_memory_bytes,
            **unknown,
        }
    )
    found = jar()
    return session_settings(str(found), chosen, compiler.has_extension(found))


def jar() -> Path:
    """The provider's jar for the installed Spark.

    From the wheel, from the cache, or compiled now with the Scala compiler inside pyspark.

    Raises:
        SparkUnavailable: no Spark 4, or no Java to compile with.
        CompilationFailed: with the compiler's own message.
    """
    return compiler.jar()


def register(session: Any) -> None:
    """Make ``format("cec")`` known to a `SparkSession`: queues to read and to write.

    It is the source and sink of the jar; where a JVM runs without that it is added. Where it cannot
    be, as on a server of Spark Connect without it, ``cec`` are those in Python, which Spark calls
    ``cec_python`` everywhere else. Lets Spark hand filters to Python data sources, which it does
    not by default: those on time narrow what is read. Before Spark 4.2 only the jar has one, and a
    session without it raises SparkUnavailable.
    """
    is_known = has_source_of_jar(session)
    if not has_python_sources(is_needed=not is_known):
        return
    # These come with all of pyspark.
    from cec_store.connectors.spark.queues.data_source import CecDataSource, CecPythonDataSource

    if not is_known:
        # Only then: Spark refuses a name that a jar and Python have both.
        session.dataSource.register(CecDataSource)
    session.dataSource.register(CecPythonDataSource)
    session.conf.set(PUSHDOWN_KEY, "true")


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
    """
    from cec_store.connectors.spark.takeover import passive
    from cec_store.standby.leases import KeepAlive

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
    """
    from cec_store.connectors.spark.takeover import passive
    from cec_store.standby.leases import KeepAlive

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
    """
    from cec_store.connectors.spark.takeover import active
    from cec_store.standby.leases import KeepAlive

    rule = KeepAlive(period_s, misses)
    return active.follow(session, primary, checkpoint, storage_options=storage_options, rule=rule)
