"""Spark keeps the state of streaming queries in logs of ours::

    from cec_store.connectors import spark

    session = spark.configure(SparkSession.builder, recovery_time_s=2).getOrCreate()

pyspark itself is not imported here: `conf` and `jar` need it on the disk only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.session import Builder, apply
from cec_store.connectors.spark.setup.settings import PUSHDOWN_KEY, session_settings, spark_settings

__all__ = ["conf", "configure", "jar", "register"]


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
    **unknown: NoReturn,
) -> Builder:
    """Make a `SparkSession.builder` keep streaming state in logs of ours.

    Sets what `conf` returns; jars that the builder, `PYSPARK_SUBMIT_ARGS` or `spark-defaults.conf`
    name stay. Sets `JAVA_HOME` in this process where Spark would else find no Java of 17 or newer,
    and `PYSPARK_PYTHON` to this interpreter where it is not set.

    Raises:
        ValueError: a value that is not allowed, or a name that does not exist.
        SparkUnavailable: no Spark 4, no Java, or a JVM without the provider runs already.
    """
    settings = conf(
        recovery_time_s=recovery_time_s,
        extent_factor=extent_factor,
        extent_max_records=extent_max_records,
        check_time_ms=check_time_ms,
        sync_mode=sync_mode,
        compression_level=compression_level,
        segment_bytes=segment_bytes,
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
            **unknown,
        }
    )
    return session_settings(str(jar()), chosen)


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

    Lets Spark hand filters to Python data sources, which it does not by default: those on time
    are looked up in the queue's index.
    """
    from cec_store.connectors.spark.queues.data_source import CecDataSource  # with all of pyspark

    session.dataSource.register(CecDataSource)
    session.conf.set(PUSHDOWN_KEY, "true")
