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
    """Sums over all tasks of a partition: processor time in seconds, rows, and shuffled bytes."""

    tasks: int = 0
    cpu_s: float = 0.0
    rows: int = 0
    """Number of rows that came to the partition's tasks in shuffles."""
    shuffled_bytes: int = 0

    def since(self, before: Cost) -> Cost:
        return Cost(
            self.tasks - before.tasks,
            self.cpu_s - before.cpu_s,
            self.rows - before.rows,
            self.shuffled_bytes - before.shuffled_bytes,
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

    def read(self) -> tuple[dict[PartitionId, Cost], float]:
        """Return each partition's cost since the last reading, and the seconds since then."""
        now, at_s = self.totals(), time.monotonic()
        none = Cost()
        costs = {of: cost.since(self._last.get(of, none)) for of, cost in now.items()}
        passed_s = at_s - self._at_s
        self._last, self._at_s = now, at_s
        return costs, passed_s

    def totals(self) -> dict[PartitionId, Cost]:
        """Return what each has cost since the driver began to count."""
        return counted(json.loads(self._counted.text()))


def counted(documents: list[Mapping[str, Any]]) -> dict[PartitionId, Cost]:
    """Return the costs by partition in the parsed JSON of `TaskLoads.text`."""
    return {
        PartitionId.of(document): Cost(
            document["tasks"], document["cpu_ns"] / 1e9, document["rows"], document["bytes"]
        )
        for document in documents
    }
