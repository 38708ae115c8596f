"""Spark keeps the state of streaming queries in logs of ours::

    from cec_store.connectors import spark

    session = spark.configure(SparkSession.builder, recovery_time_s=2).getOrCreate()

pyspark itself is not imported here: `conf` and `jar` need it on the disk only.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.session import (
    Builder,
    allow_pushdown,
    apply,
    has_python_sources,
    has_source_of_jar,
)
from cec_store.connectors.spark.setup.settings import session_settings, spark_settings

if TYPE_CHECKING:
    from cec_store.connectors.spark.executors.cluster import cluster
    from cec_store.connectors.spark.moving.comparing import compare
    from cec_store.connectors.spark.moving.moving import adopt, release, repartition
    from cec_store.connectors.spark.progress.listening import prometheus
    from cec_store.connectors.spark.takeover.doors import follow, keep_alive, standby

__all__ = [
    "adopt",
    "cluster",
    "compare",
    "conf",
    "configure",
    "follow",
    "jar",
    "keep_alive",
    "prometheus",
    "register",
    "release",
    "repartition",
    "standby",
]

_HOMES = {
    "adopt": "moving.moving",
    "cluster": "executors.cluster",
    "compare": "moving.comparing",
    "follow": "takeover.doors",
    "keep_alive": "takeover.doors",
    "prometheus": "progress.listening",
    "release": "moving.moving",
    "repartition": "moving.moving",
    "standby": "takeover.doors",
}


def __getattr__(name: str) -> object:
    """Import a name of another room at its first use, because few need it.

    Raises:
        AttributeError: this module has no such name.
    """
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


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
    memory_bytes: int | str | None = None,
    key_directories: bool | None = None,
    check_directories: bool | None = None,
    replicas: int | None = None,
    replica_memory_bytes: int | str | None = None,
    replica_warm_lag_versions: int | None = None,
    replica_warm_ups: int | None = None,
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

    Examples:
        >>> session = spark.configure(SparkSession.builder, recovery_time_s=2).getOrCreate()
        >>> session.conf.get("spark.sql.streaming.stateStore.cec.recoveryTimeMs")
        '2000'
    """
    settings = conf(
        recovery_time_s=recovery_time_s,
        extent_factor=extent_factor,
        extent_max_records=extent_max_records,
        check_time_ms=check_time_ms,
        sync_mode=sync_mode,
        compression_level=compression_level,
        segment_bytes=segment_bytes,
        memory_bytes=memory_bytes,
        key_directories=key_directories,
        check_directories=check_directories,
        replicas=replicas,
        replica_memory_bytes=replica_memory_bytes,
        replica_warm_lag_versions=replica_warm_lag_versions,
        replica_warm_ups=replica_warm_ups,
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
    memory_bytes: int | str | None = None,
    key_directories: bool | None = None,
    check_directories: bool | None = None,
    replicas: int | None = None,
    replica_memory_bytes: int | str | None = None,
    replica_warm_lag_versions: int | None = None,
    replica_warm_ups: int | None = None,
    **unknown: NoReturn,
) -> dict[str, str]:
    """Spark's settings for the provider: its class, its jar, and what is given here.

    Of `recovery_time_s`, `extent_factor` and `extent_max_records` one at most. What is not given is
    left to the provider; docs/spark.md has the defaults.

    Raises:
        ValueError: a value that is not allowed, or a name that does not exist.
        SparkUnavailable: no Spark 4, or no Java to compile with.

    Examples:
        >>> settings = spark.conf(recovery_time_s=2)
        >>> settings["spark.sql.streaming.stateStore.providerClass"]
        'org.apache.spark.sql.cecstore.CecStateStoreProvider'
        >>> settings["spark.sql.streaming.stateStore.cec.recoveryTimeMs"]
        '2000'
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
            "memory_bytes": memory_bytes,
            "key_directories": key_directories,
            "check_directories": check_directories,
            "replicas": replicas,
            "replica_memory_bytes": replica_memory_bytes,
            "replica_warm_lag_versions": replica_warm_lag_versions,
            "replica_warm_ups": replica_warm_ups,
            **unknown,
        }
    )
    jar_file = jar()
    return session_settings(str(jar_file), chosen, compiler.has_extension(jar_file))


def jar() -> Path:
    """The provider's jar for the installed Spark.

    From the wheel, from the cache, or compiled now with the Scala compiler inside pyspark.

    Raises:
        SparkUnavailable: no Spark 4, or no Java to compile with.
        CompilationFailed: with the compiler's own message.

    Examples:
        >>> spark.jar().name.startswith("cec-store-spark-4.")
        True
    """
    return compiler.jar()


def register(session: Any) -> None:
    """Make ``format("cec")`` known to a `SparkSession`: queues to read and to write.

    It is the source and sink of the jar; where a JVM runs without that it is added. Where it cannot
    be, as on a server of Spark Connect without it, ``cec`` are those in Python, which Spark calls
    ``cec_python`` everywhere else. Lets Spark hand filters to Python data sources, which it does
    not by default: those on time narrow what is read. Before Spark 4.2 only the jar has one, and a
    session without it raises SparkUnavailable.

    Examples:
        >>> spark.register(session)
        >>> session.read.format("cec").load("queues/trades").count()
        3
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
    allow_pushdown(session)
