"""Figures in what Spark reports of a batch: gauges by name, and the stretch of one batch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from cec_store.connectors.spark.progress.history import Stretch


class Gauge(NamedTuple):
    """Meaning of a gauge, and its labels beside ``query``."""

    meaning: str
    labels: tuple[str, ...] = ()


GAUGES = {
    "cec_state": Gauge("cec's metrics of a stateful operator", ("operator", "metric")),
    "cec_query_batch": Gauge("number of the newest batch"),
    "cec_query_batch_seconds": Gauge("how long it took"),
    "cec_query_commit_seconds": Gauge("what the mean state store took to commit it"),
    "cec_query_input_rows": Gauge("rows that its tasks read, twice if two actions read them"),
    "cec_query_input_rows_per_second": Gauge("the same a second, as Spark says it"),
    "cec_query_watermark_seconds": Gauge("its watermark, in seconds since 1970"),
    "cec_query_state_rows": Gauge("rows of state after it"),
    "cec_query_state_bytes": Gauge("memory of the state after it"),
}


class Value(NamedTuple):
    """A number under a name of :data:`GAUGES`, with the values of its labels beside the query."""

    gauge: str
    value: float
    labels: tuple[str, ...] = ()


def stretch_of(progress: Any) -> Stretch:
    """Return the stretch of one batch, of a ``StreamingQueryProgress``."""
    from_us = _moment_us(progress.timestamp)
    batch_us = int(progress.durationMs.get("triggerExecution", 0)) * 1000
    operators = progress.stateOperators
    metrics = [operator.customMetrics for operator in operators]
    replica_bytes = sum(int(metric.get("cecReplicaMemoryBytes", 0)) for metric in metrics)
    lag = sum(int(metric.get("cecReplicaLagVersions", 0)) for metric in metrics)
    return Stretch(
        from_us=from_us,
        until_us=from_us + batch_us,
        batch=int(progress.batchId),
        batches=1,
        batch_us=batch_us,
        batch_max_us=batch_us,
        rows=int(progress.numInputRows),
        commit_us=_commit_us(operators),
        watermark_us=_watermark_us(progress),
        memory_bytes=sum(int(o.memoryUsedBytes) for o in operators) if operators else None,
        replica_lag_versions=lag if replica_bytes or lag else None,
    )


def gauges_of(progress: Any) -> Iterator[Value]:
    """Yield the gauges of a ``StreamingQueryProgress``."""
    stretch = stretch_of(progress)
    yield Value("cec_query_batch", stretch.batch)
    yield Value("cec_query_batch_seconds", stretch.batch_us / 1e6)
    yield Value("cec_query_input_rows", stretch.rows)
    yield Value("cec_query_input_rows_per_second", float(progress.inputRowsPerSecond or 0))
    if stretch.commit_us is not None:
        yield Value("cec_query_commit_seconds", stretch.commit_us / 1e6)
    if stretch.watermark_us is not None:
        yield Value("cec_query_watermark_seconds", stretch.watermark_us / 1e6)
    if stretch.memory_bytes is not None:
        yield Value("cec_query_state_bytes", stretch.memory_bytes)
        yield Value("cec_query_state_rows", sum(o.numRowsTotal for o in progress.stateOperators))
    for number, operator in enumerate(progress.stateOperators):
        for name, value in operator.customMetrics.items():
            if name.startswith("cec"):
                yield Value("cec_state", value, (str(number), name))


def _commit_us(operators: Any) -> int | None:
    stores = sum(int(operator.numStateStoreInstances) for operator in operators)
    committed_ms = sum(int(operator.commitTimeMs) for operator in operators)
    return committed_ms * 1000 // stores if stores else None


def _watermark_us(progress: Any) -> int | None:
    text = dict(progress.eventTime or {}).get("watermark")
    return (_moment_us(text) or None) if text else None  # 1970 is none yet


def _moment_us(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1000) * 1000
