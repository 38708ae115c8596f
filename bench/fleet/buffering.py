"""Savings if a queue between two queries of a fleet were durable during a recovery only.

Su and Zhou's adaptive buffering writes nothing down while all is well, and sources are the truth.
On Spark the queue is also the way that rows go from one query to the next, so they are written and
read in any case: what could be left out is to wait for the disk. The bound is a queue in memory
(`/dev/shm`), where that costs nothing, against one on disk; a query reads a queue on disk and
writes one, in batches of a fixed size.

buffering_on_failure_vs_always        processor time of Spark's JVM per row, in memory over on disk
buffering_on_failure_batch_vs_always  a median batch, in memory over on disk

In an object store every request stays: what a task puts is what the next query gets.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness.rounds import options, report
from cec_store import open_queue
from support.spark import session as spark_session

TARGETS = {
    "buffering_on_failure_vs_always": "report",
    "buffering_on_failure_batch_vs_always": "report",
}
MEMORY = Path("/dev/shm")
SCHEMA = pa.schema([("item", pa.int64()), ("price", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
APPENDED = 100_000
STOP_S = 30.0


def write_input(path: Path, rows: int) -> None:
    dice = np.random.default_rng(1)
    with open_queue(path, "x", schema=SCHEMA, partitions=2, timestamp_column="at") as queue:
        for first in range(0, rows, APPENDED):
            numbers = np.arange(first, min(rows, first + APPENDED))
            columns = [
                pa.array(dice.integers(0, 10_000, numbers.size)),
                pa.array(dice.integers(1, 1_000_000, numbers.size)),
                pa.array(numbers).cast(SCHEMA.field("at").type),
            ]
            queue.append(pa.table(columns, schema=SCHEMA))


class Contest:
    """One query, run over the same input again and again."""

    def __init__(self, session: Any, folder: Path, batch_rows: int) -> None:
        self._session = session
        self._folder = folder
        self._batch_rows = batch_rows
        self._runs = 0
        self._pid = int(session._jvm.java.lang.ProcessHandle.current().pid())

    def run(self, below: Path) -> tuple[float, float]:
        """Processor time of all its batches, and what the median one took, in seconds."""
        self._runs += 1
        place = Path(tempfile.mkdtemp(dir=below, prefix="cec-bench-"))
        reader = self._session.readStream.format("cec").option("startingOffsets", "earliest")
        rows = reader.option("maxOffsetsPerTrigger", self._batch_rows).load(
            str(self._folder / "in")
        )
        writer = rows.select("item", "price", "at").where("price > 0").writeStream.format("cec")
        # Spark's own log is on disk for both: what is compared is the queue.
        checkpoint = str(self._folder / f"checkpoint-{self._runs}")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        before = self._cpu_s()
        try:
            query = writer.start(str(place / "out"))
            query.awaitTermination()
            spent_s = self._cpu_s() - before
            taken = [
                progress.durationMs["triggerExecution"] / 1e3 for progress in query.recentProgress
            ]
        finally:
            shutil.rmtree(place)
        return spent_s, statistics.median(taken)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with options(__doc__, turns=(9, 3)) as chosen:
        rows = chosen.size(4_000_000, 200_000)
        write_input(chosen.folder / "in", rows)
        session = spark_session.start_session("local[2]")
        contest = Contest(session, chosen.folder, rows // 20)
        places = {"disk": chosen.folder, "memory": MEMORY}
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in places}
        contest.run(chosen.folder)
        for number in range(chosen.rounds):
            for name in sorted(places, reverse=bool(number % 2)):
                runs[name].append(contest.run(places[name]))
        spark_session.stop_session(session, STOP_S)
        cpu = {name: statistics.median(e[0] for e in times) for name, times in runs.items()}
        batch = {name: statistics.median(e[1] for e in times) for name, times in runs.items()}
        for name in places:
            row_ns, batch_ms = cpu[name] / rows * 1e9, batch[name] * 1e3
            print(f"{name}: {row_ns:,.0f} ns a row, {batch_ms:.1f} ms a batch")
        report({
            "buffering_on_failure_vs_always": cpu["memory"] / cpu["disk"],
            "buffering_on_failure_batch_vs_always": batch["memory"] / batch["disk"],
        })  # fmt: skip


if __name__ == "__main__":
    main()
