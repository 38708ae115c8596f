"""Costs of global checkpoints of a fleet in normal running: Figures 19 and 20 of Su and Zhou."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.fleet.worker import Latencies
from bench.harness.apart import run_apart
from bench.harness.rounds import Options
from cec_store import open_queue
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.rules import Rules
from support.spark import session as spark_session

INTERVALS_S = (1.0, 5.0, 10.0, 20.0)
SCHEMA = pa.schema([("tag", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def by_interval(chosen: Options) -> dict[str, dict[str, float]]:
    """Rows a second that a fleet of three queries takes, and how late they are at half of that."""
    folder = chosen.folder / "intervals"
    task = {
        "rows": chosen.size(20_000_000, 500_000),
        "rounds": chosen.rounds * (1 if chosen.quick else 3),
        "paced_s": 8 if chosen.quick else 60,
        "folder": str(folder),
    }
    figures: dict[str, dict[str, float]] = run_apart(__file__, folder, task)
    return figures


def _tags(rows: Any) -> Any:
    return rows.withWatermark("at", "1 minute").where("tag >= 0")


def _counts(tags: Any) -> Any:
    from pyspark.sql import functions as f

    late = tags.withWatermark("at", "1 minute")
    counted = late.groupBy(f.pmod("tag", f.lit(10_000)).alias("tag"))
    return counted.agg(f.max("at").alias("at")).select("tag", "at")


def _fleet(folder: Path, interval_s: float) -> Fleet:
    fleet = Fleet(folder / "fleet", rules=Rules(checkpoint_s=interval_s))
    queue = {name: str(folder / name) for name in ("input", "tags", "wide", "narrow")}
    fleet.query("tags", _tags, reads=[queue["input"]], writes=queue["tags"])
    for name in ("wide", "narrow"):
        fleet.query(name, _counts, reads=[queue["tags"]], writes=queue[name], output_mode="update")
    return fleet


def _rows(first: int, count: int) -> pa.Table:
    now_us = time.time_ns() // 1_000
    at = pa.array([now_us], pa.int64()).cast(SCHEMA.field("at").type)
    columns = [pa.array(range(first, first + count), pa.int64()), at.take(pa.array([0] * count))]
    return pa.table(columns, schema=SCHEMA)


def _drained_s(session: Any, folder: Path, rows: int, interval_s: float) -> float:
    """Return the seconds that a fleet takes for what waits in its input."""
    with open_queue(folder / "input", "x", schema=SCHEMA, partitions=2, timestamp_column="at") as q:
        for first in range(0, rows, 250_000):
            q.append(_rows(first, min(250_000, rows - first)))
    began = time.perf_counter()
    with _fleet(folder, interval_s).start(session, period_s=0.1):
        while not _is_drained(session, rows):
            time.sleep(0.02)
        return time.perf_counter() - began


def _is_drained(session: Any, rows: int) -> bool:
    taken = {
        query.name: sum(progress.numInputRows for progress in query.recentProgress)
        for query in session.streams.active
    }
    return min((taken.get(name, 0) for name in ("wide", "narrow")), default=0) >= rows


def _late_s(session: Any, folder: Path, rate: float, paced_s: float, interval_s: float) -> float:
    """Return how late rows are on average, in seconds, at so many rows a second."""
    with open_queue(folder / "input", "x", schema=SCHEMA, partitions=2, timestamp_column="at") as q:
        q.append(_rows(0, 1))
        latencies = Latencies(session)
        with _fleet(folder, interval_s).start(session, period_s=0.1):
            end_s, first, count = time.monotonic() + paced_s, 1, max(1, int(rate / 5))
            while time.monotonic() < end_s:
                next_s = time.monotonic() + 0.2
                q.append(_rows(first, count))
                first += count
                latencies.look()
                time.sleep(max(0.0, next_s - time.monotonic()))
    late = [late for name in ("wide", "narrow") for _, late in latencies.found.get(name, [])]
    return statistics.median(late[len(late) // 3 :])


def measure(task: dict[str, Any]) -> dict[str, dict[str, float]]:
    session = spark_session.start_session(
        "local[2]", **{"spark.sql.shuffle.partitions": "2",
                       "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    )  # fmt: skip
    rows, folder = int(task["rows"]), Path(task["folder"])
    _drained_s(session, folder / "warm", max(1, rows // 10), 1.0)
    drained: dict[float, list[float]] = {interval_s: [] for interval_s in INTERVALS_S}
    for number in range(int(task["rounds"])):
        for interval_s in INTERVALS_S:
            place = folder / f"{number}-{interval_s:g}"
            drained[interval_s].append(_drained_s(session, place, rows, interval_s))
    rates = {
        interval_s: rows / statistics.median(seconds) for interval_s, seconds in drained.items()
    }
    paced = min(rates.values()) / 2
    figures = {}
    for checkpoint_s in INTERVALS_S:
        late_s = _late_s(
            session, folder / f"paced-{checkpoint_s:g}", paced, task["paced_s"], checkpoint_s
        )
        figures[f"{checkpoint_s:g}"] = {"rows_per_s": rates[checkpoint_s], "late_s": late_s}
    spark_session.stop_session(session, 30)
    return figures


if __name__ == "__main__":
    told = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[1]).write_text(json.dumps(measure(told)))
