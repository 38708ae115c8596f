"""Outage of a Spark query whose driver is killed: with a warm standby, and with a fresh start.

Both are the same application (`tests/support/drivers/standby_job.py`), a count by key with state in
our provider and a queue as output. Its driver, Python and JVM, is killed by SIGKILL; what is timed
is from there to the next batch in the checkpoint's log of commits. The fresh start begins at the
moment of the kill. They take turns.

`spark_passive_vs_restart`: the median with a standby over that of a fresh start;
`spark_passive_watermark_vs_restart`: the same of a count by window and key behind a watermark.

`spark_active_gap_vs_batch`: of a query that reads a queue and has an active standby, the longest
time between two batches in the output queue, over the median of these times; one driver of two is
killed meanwhile. `spark_active_detection_vs_batch` is what of it the detection alone may take.
"""

from __future__ import annotations

import signal
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.harness.rounds import options, report
from support.spark.standby_runs import Driver, await_batch, faults_of, fill_input, newest

TARGETS = {
    "spark_passive_vs_restart": "at most 0.35",
    "spark_passive_watermark_vs_restart": "report",
    "spark_passive_s": "report",
    "spark_restart_s": "report",
    "spark_active_gap_vs_batch": "at most 3.75",
    "spark_active_detection_vs_batch": "report",
    "spark_active_gap_s": "report",
    "spark_active_batch_s": "report",
}
BATCHES_BEFORE = 5
BATCHES_OF_ACTIVE = 20
EVERY_MS = 400
"""Trigger of the query with an active standby: longer than two drivers on two cores need."""
MISSES = 3


def kill_to_batch_s(folder: Path, primary: Driver, **asked: Any) -> tuple[Driver, float]:
    """Kill it, and start the application anew; the new driver, and seconds to its first batch."""
    last = newest(folder)
    began_s = time.monotonic()
    primary.send(signal.SIGKILL)
    fresh = Driver(folder, "primary", misses=MISSES, **asked)
    await_batch(folder, max(last, newest(folder)) + 1)
    return fresh, time.monotonic() - began_s


def kill_to_takeover_s(folder: Path, primary: Driver, **asked: Any) -> tuple[Driver, float]:
    """The same, with a standby that waits."""
    standby = Driver(folder, "standby", misses=MISSES, **asked)
    standby.wait_for("warm")
    began_s = time.monotonic()
    primary.send(signal.SIGKILL)
    await_batch(folder, newest(folder) + 1)
    return standby, time.monotonic() - began_s


def times_of_batches_s(queue: Path) -> list[float]:
    """Return when each commit of the output queue was made."""
    return sorted(commit.stat().st_mtime for commit in (queue / "log").rglob("*.commit"))


def active_gap(folder: Path) -> tuple[float, float]:
    """Longest time between two batches of output around a kill, and the median, in seconds."""
    folder.mkdir()
    path = fill_input(folder / "input", 400)
    asked: dict[str, Any] = {"input": path, "every_ms": EVERY_MS, "misses": MISSES}
    drivers = [Driver(folder, "primary", **asked)]
    try:
        drivers[0].wait_for("started")
        await_batch(folder, 3)
        drivers.append(Driver(folder, "shadow", checkpoint="own", primary="checkpoint", **asked))
        drivers[-1].wait_for("following")
        await_batch(folder, newest(folder) + BATCHES_OF_ACTIVE, "own")
        began_s = time.time()
        await_batch(folder, newest(folder) + BATCHES_OF_ACTIVE, "own")
        drivers[0].send(signal.SIGKILL)
        assert drivers[1].wait_for("took_over")
        await_batch(folder, newest(folder, "own") + BATCHES_OF_ACTIVE, "own")
    finally:
        for driver in drivers:
            driver.end()
    faults = faults_of(folder / "queue")
    assert faults == [], faults
    times_s = [time_s for time_s in times_of_batches_s(folder / "queue") if time_s >= began_s]
    gaps_s = [later - earlier for earlier, later in pairwise(times_s)]
    return max(gaps_s), statistics.median(gaps_s)


def passive_and_restart(folder: Path, rounds: int, is_timed: bool = False) -> tuple[float, float]:
    """Median seconds from a kill to the next batch, with a standby and by a fresh start."""
    folder.mkdir()
    drivers = [Driver(folder, "primary", misses=MISSES, is_timed=is_timed)]
    fresh_s: list[float] = []
    standby_s: list[float] = []
    try:
        drivers[0].wait_for("started")
        for _ in range(rounds):
            for times_s, replace in (
                (standby_s, kill_to_takeover_s),
                (fresh_s, kill_to_batch_s),
            ):
                await_batch(folder, newest(folder) + BATCHES_BEFORE)
                driver, passed_s = replace(folder, drivers[-1], is_timed=is_timed)
                drivers[-1].end()
                drivers.append(driver)
                times_s.append(passed_s)
    finally:
        for driver in drivers:
            driver.end()
    faults = faults_of(folder / "queue", is_timed=is_timed)
    assert faults == [], faults
    print(f"standby {standby_s}, fresh start {fresh_s}")
    return statistics.median(standby_s), statistics.median(fresh_s)


def main() -> None:
    with options(__doc__, turns=(7, 3), takes="about five minutes") as chosen:
        warm_s, cold_s = passive_and_restart(chosen.folder / "passive", chosen.rounds)
        timed = passive_and_restart(chosen.folder / "timed", chosen.rounds, is_timed=True)
        gap_s, batch_s = active_gap(chosen.folder / "active")
        report(
            {
                "spark_passive_vs_restart": warm_s / cold_s,
                "spark_passive_watermark_vs_restart": timed[0] / timed[1],
                "spark_passive_s": warm_s,
                "spark_restart_s": cold_s,
                "spark_active_gap_vs_batch": gap_s / batch_s,
                "spark_active_detection_vs_batch": 0.1 * MISSES / batch_s,
                "spark_active_gap_s": gap_s,
                "spark_active_batch_s": batch_s,
            }
        )


if __name__ == "__main__":
    main()
