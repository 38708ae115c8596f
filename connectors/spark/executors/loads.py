"""Load of state partitions: processor time of their tasks, in seconds, from task metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.executors.snapshot import PartitionId

TASK_LOADS = "org.apache.spark.sql.cecstore.replicas.TaskLoads"


def is_of_batch(progress: Any) -> bool:
    """Return True where Spark tells of a batch that has run, and not of a trigger without one."""
    return "addBatch" in progress.durationMs


@dataclass(frozen=True)
class Cost:
    """Sums over all tasks of a partition: processor time in seconds, rows, bytes of shuffles."""

    tasks: int = 0
    cpu_s: float = 0.0
    rows: int = 0
    """Number of rows that came to the partition's tasks in shuffles."""
    shuffled_bytes: int = 0
    """Bytes of shuffles that the tasks have read."""
    written_bytes: int = 0
    """Bytes of shuffles that they have written."""
    memory_bytes: int = 0
    """The most that a task has had for sorts and aggregates, beside the state; not a sum."""

    def since(self, before: Cost) -> Cost:
        return Cost(
            self.tasks - before.tasks,
            self.cpu_s - before.cpu_s,
            self.rows - before.rows,
            self.shuffled_bytes - before.shuffled_bytes,
            self.written_bytes - before.written_bytes,
            self.memory_bytes,
        )


class LoadMeter:
    """Meter of the costs of partitions from one reading to the next.

    The driver begins to count with the first meter of an application; each meter for itself begins
    at what has been counted by then.
    """

    def __init__(self, session: Any) -> None:
        task_loads = session._jvm.org.apache.spark.sql.cecstore.replicas.TaskLoads
        self._counted = task_loads.of(session.sparkContext._jsc.sc())
        self._last, self._at_s = self.totals(), time.monotonic()
        self._last_others = self.others()

    def read(self) -> tuple[dict[PartitionId, Cost], float]:
        """Return each partition's cost since the last reading, and the seconds since then."""
        now, at_s = self.totals(), time.monotonic()
        none = Cost()
        costs = {of: cost.since(self._last.get(of, none)) for of, cost in now.items()}
        passed_s = at_s - self._at_s
        self._last, self._at_s = now, at_s
        return costs, passed_s

    def read_others(self) -> dict[str, float]:
        """Return the processor seconds of each executor's other tasks since the last such reading.

        Call it with :meth:`read`, which tells how long that was.
        """
        now, before = self.others(), self._last_others
        self._last_others = now
        return {executor: spent - before.get(executor, 0.0) for executor, spent in now.items()}

    def totals(self) -> dict[PartitionId, Cost]:
        """Return what each has cost since the driver began to count."""
        return counted(json.loads(self._counted.text()))

    def others(self) -> dict[str, float]:
        """Return the processor seconds that each executor has spent on no partition of state.

        These are stages without state, jobs beside the queries, and tasks that failed.
        """
        spent: dict[str, int] = json.loads(self._counted.othersText())
        return {executor: nanoseconds / 1e9 for executor, nanoseconds in spent.items()}


def counted(documents: list[Mapping[str, Any]]) -> dict[PartitionId, Cost]:
    """Return the costs by partition in the parsed JSON of `TaskLoads.text`."""
    return {
        PartitionId.of(document): Cost(
            document["tasks"],
            document["cpu_ns"] / 1e9,
            document["rows"],
            document["bytes"],
            document["written_bytes"],
            document["memory_bytes"],
        )
        for document in documents
    }
