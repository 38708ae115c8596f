"""The plugin's driver side, through py4j: one JSON document a call, and its refusals as errors."""

from __future__ import annotations

import json
from typing import Any

from cec_store.connectors.spark.executors.snapshot import (
    Move,
    PartitionId,
    Snapshot,
    move_of,
    parsed,
)
from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.errors import (
    MigrationRefused,
    MigrationRunning,
    NoSuchExecutor,
    NoSuchPartition,
    SparkUnavailable,
)

CLUSTER = "org.apache.spark.sql.cecstore.replicas.Cluster"
PROTOCOLS = ("direct", "cpa", "cpal")
_ERRORS: dict[str, type[Exception]] = {
    "not_running": SparkUnavailable,
    "no_such_partition": NoSuchPartition,
    "no_such_executor": NoSuchExecutor,
    "migration_running": MigrationRunning,
    "no_such_protocol": ValueError,
}

_STOPPED = "this session has been stopped, and its replicas with it"


class DriverSide:
    """Asks and orders. Safe for several threads: each call stands for itself.

    Raises:
        SparkUnavailable: the session has no driver of its own, or it runs without the plugin.
        ValueError: another provider keeps its state, so that there is nothing to replicate.
    """

    def __init__(self, session: Any) -> None:
        if not hasattr(session, "_jsparkSession"):
            raise SparkUnavailable(
                "a client of Spark Connect has no driver of its own: call this in the server's "
                "process"
            )
        if not session._jvm.org.apache.spark.util.Utils.classIsLoadable(CLUSTER):
            raise SparkUnavailable(
                f"this session's JVM does not know {CLUSTER}: start it by "
                "spark.configure(builder, replicas=1)"
            )
        self._cluster = session._jvm.org.apache.spark.sql.cecstore.replicas.Cluster
        if not self._cluster.isRunning():
            raise SparkUnavailable(
                "there are no replicas in this application: begin its session with "
                "spark.configure(builder, replicas=1)"
            )
        provider = session.conf.get(PROVIDER_KEY, None)
        if provider != PROVIDER:
            raise ValueError(
                f"{PROVIDER_KEY}={provider}: replicas are of state that {PROVIDER} keeps; begin "
                "the session with spark.configure(builder, replicas=1), and leave it at that"
            )

    def snapshot(self) -> Snapshot:
        """Read executors, partitions and moves from the driver, as they are now.

        Raises:
            SparkUnavailable: the session has been stopped.
        """
        return parsed(self.status())

    def status(self) -> dict[str, Any]:
        """The same as `parsed` takes it.

        Raises:
            SparkUnavailable: the session has been stopped.
        """
        status: dict[str, Any] = json.loads(self._cluster.status())
        if not status["is_running"]:
            raise SparkUnavailable(_STOPPED)
        return status

    def events(self) -> list[dict[str, Any]]:
        """Read what has happened, the oldest first, as `events_of` takes it.

        Raises:
            SparkUnavailable: the session has been stopped.
        """
        answer = json.loads(self._cluster.events())
        if isinstance(answer, dict):
            raise SparkUnavailable(_STOPPED)
        events: list[dict[str, Any]] = answer
        return events

    def move(self, of: PartitionId, to: str, protocol: str) -> Move:
        """Order it; it is done with the next batch that is planned, or, for ``cpal``, with the
        first after the replica has caught up.

        Raises:
            NoSuchPartition, NoSuchExecutor, MigrationRunning, MigrationRefused: nothing is ordered.
        """
        answer = self._cluster.move(of.query, of.operator, of.partition, to, protocol)
        return move_of(_accepted(answer))

    def cancel(self, number: int) -> Move:
        return move_of(_accepted(self._cluster.cancel(number)))

    def place(self, of: PartitionId, on: tuple[str, ...]) -> None:
        """Have replicas on these executors and no others."""
        _accepted(self._cluster.place(of.query, of.operator, of.partition, ",".join(on)))

    def release(self, of: PartitionId) -> None:
        """Let the driver choose where replicas are."""
        _accepted(self._cluster.release(of.query, of.operator, of.partition))


def _accepted(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text)
    if "refused" in answer:
        raise _ERRORS.get(answer["refused"], MigrationRefused)(answer["message"])
    return answer
