"""Figures 5 and 6 of the migration paper (7) on Spark: what moving a partition costs, by protocol.

A count and a sum by key in four partitions, on four executors of a standalone cluster of this
machine. A replica is left behind by some batches; then its partition is ordered to its executor,
directly to one without a replica, by CPA or by CPAL. Latency is what the first batch on the new
owner waits for; completion is from the order until the new owner has the state. A full run writes
bench/papers/migration_spark.json, the plot, and the tables of docs/evaluation.md.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness.apart import run_apart
from bench.harness.machine import describe
from bench.harness.rounds import Options, options, report
from bench.papers.migration_spark_tables import TABLES, write_plot
from bench.papers.report import publish
from bench.spark.replicas_application import Application, Task, task_of
from cec_store.errors import MigrationRefused
from support.spark.standalone import wait_for

BEHIND = (0, 1, 2, 4, 8)
"""Batches that a replica is left behind by."""
PROTOCOLS = ("direct", "cpa", "cpal")
WAIT_S = 300


@dataclass
class Mover:
    """Moves the partitions of an application in turn."""

    application: Application
    cluster: Any
    number: int = 0

    def move(self, protocol: str, behind: int) -> dict[str, float]:
        """One of them, to an executor whose replica lacks so many batches, or that has none."""
        snapshot = self.cluster.snapshot()
        partition = snapshot.partitions[self.number % len(snapshot.partitions)]
        self.number += 1
        of = (self.application.query, 0, partition.id.partition)
        first, second, *_ = [
            executor for executor in snapshot.usable if executor != partition.owner
        ]
        self.cluster.place(*of, on=[first])
        self._await_warm(partition, first)
        if protocol == "direct":
            target = second
            # Whatever it had of the partition is given up within so many seconds.
            time.sleep(11)
        else:
            target = first
            if behind:
                self.cluster.place(*of, on=[second])
        self.application.await_batches(max(1, behind))
        move = self.cluster.migrate(*of, to=target, protocol=protocol, wait_s=WAIT_S)
        if move.is_from_replica is (protocol == "direct"):
            raise RuntimeError(f"{protocol} with from_replica={move.is_from_replica}: {move}")
        self.cluster.release(*of)
        return {
            "latency_ms": move.load_ms,
            "completion_ms": move.done_ms - move.ordered_ms,
            "records": move.records_read,
        }

    def _await_warm(self, partition: Any, on: str) -> None:
        def lag() -> int | None:
            replica = self.cluster.snapshot().by_id[partition.id].replica_on(on)
            return None if replica is None else replica.lag_versions

        wait_for(lambda: lag() in (0, 1), lambda: f"executor {on} lacks {lag()} versions", WAIT_S)


def measure(task: Task) -> dict[str, Any]:
    from cec_store.connectors import spark

    application = Application(task)
    try:
        filled = -(-task.keys // task.rows)
        application.await_batches(filled + 5)
        mover = Mover(application, spark.cluster(application.spark))
        moves_by_kind: dict[str, list[dict[str, float]]] = {}
        for _ in range(task.moves):
            # In turn, so that whatever disturbs the machine disturbs all.
            for behind in BEHIND:
                for protocol in PROTOCOLS:
                    if protocol == "direct" and behind:
                        continue
                    # Where batches take long, what is not wanted is given up before so many.
                    with suppress(MigrationRefused):
                        moved = mover.move(protocol, behind)
                        moves_by_kind.setdefault(f"{protocol} {behind}", []).append(moved)
        steady = [batch["durationMs"]["triggerExecution"] for batch in application.batches()[-20:]]
    finally:
        application.stop()
    medians = {
        key: {name: statistics.median(move[name] for move in moves) for name in moves[0]}
        for key, moves in moves_by_kind.items()
    }
    return {"moves": medians, "batch_ms": statistics.median(steady)}


def by_rows(task: Task, outcome: dict[str, Any]) -> dict[str, Any]:
    """Return times by the rows that a replica lacks; the direct protocol depends on none."""
    moves = outcome["moves"]
    rows_each = task.rows // task.partitions
    return {
        str(behind * rows_each): {
            protocol: moves[f"{protocol} {0 if protocol == 'direct' else behind}"]
            for protocol in PROTOCOLS
        }
        for behind in BEHIND
        if f"cpa {behind}" in moves and f"cpal {behind}" in moves
    }


def headline(figures: dict[str, Any]) -> dict[str, float]:
    most = list(figures.values())[-1]
    return {
        "spark_cpa_latency_vs_direct": most["cpa"]["latency_ms"] / most["direct"]["latency_ms"],
        "spark_cpal_latency_vs_direct": most["cpal"]["latency_ms"] / most["direct"]["latency_ms"],
        "spark_cpal_completion_vs_cpa": (
            most["cpal"]["completion_ms"] / most["cpa"]["completion_ms"]
        ),
    }


def main(asked: Options) -> None:
    began = time.perf_counter()
    machine = describe(asked.folder)
    task = Task(
        folder=asked.folder / "protocols", provider="cec", replicas=1,
        keys=asked.size(1_000_000, 100_000), rows=asked.size(40_000, 8_000), executors=4,
        partitions=4, executor_mb=900, steady=0, after=0, kills=0, moves=asked.rounds, joins=0,
    )  # fmt: skip
    outcome = run_apart(__file__, task.folder, asdict(task))
    by_protocol = by_rows(task, outcome)
    machine["command"] = "python bench/papers/migration_spark.py" + " --quick" * asked.quick
    machine["keys, rows of a batch"] = f"{task.keys:,} in {task.partitions}, {task.rows:,}"
    machine["a batch"] = f"{outcome['batch_ms']:,.0f} ms"
    machine["took"] = f"{time.perf_counter() - began:.0f} s"
    figures = {
        "migration_spark_machine": machine,
        "migration_spark": by_protocol,
        "migration_spark_headline": headline(by_protocol),
    }
    publish(figures, "migration_spark", TABLES, write_plot, quick=asked.quick)
    for rows, protocols in by_protocol.items():
        print(rows, json.dumps(protocols))
    report(figures["migration_spark_headline"])


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].endswith(".json"):
        done = measure(task_of(sys.argv[1]))
        Path(sys.argv[1]).write_text(json.dumps(done))
    else:
        with options(__doc__, turns=(3, 1), takes="three minutes") as asked:
            main(asked)
