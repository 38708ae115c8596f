"""A million keys of state moved, beside Spark's reading of the same state.

count and sum by key, as spark/providers.py has them: one batch loads the keys, then 10 batches
update 100,000 each; 2 partitions on 2 cores, all in one session that runs all the time. Reading is
`spark.read.format("statestore")` into a noop sink. Moving reads the same, writes all of it anew,
and syncs it. They take turns; best turns are compared. In the end the sums of what was moved have
to agree with the input.

adopt_vs_reading         from RocksDB with changelog to ours, over reading RocksDB's
adopt_hdfs_vs_reading    the same of the HDFS-backed provider
repartition_vs_reading   from 2 to 3 partitions of ours, over reading ours
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from bench.harness.rounds import Options, Timing, options, race, report, stopwatch
from bench.spark.input import Phase
from bench.spark.worker import BUILT_IN, OURS, Task, make_state, session
from cec_store import read_state
from cec_store.connectors import spark as cec_spark

TARGETS = {
    "adopt_vs_reading": "at most 2",
    "adopt_hdfs_vs_reading": "at most 2",
    "repartition_vs_reading": "at most 2",
}
STORES = ("changelog", "hdfs")


def reading(spark: SparkSession, checkpoint: Path) -> Callable[[], float]:
    def turn() -> float:
        with stopwatch() as taken:
            frame = spark.read.format("statestore").load(str(checkpoint))
            frame.write.format("noop").mode("overwrite").save()
        return taken[0]

    return turn


def moving(new: Path, move: Callable[[Path], Any]) -> Callable[[], float]:
    """A turn; what the one before has made is removed first."""

    def turn() -> float:
        shutil.rmtree(new, ignore_errors=True)
        with stopwatch() as taken:
            move(new)
        return taken[0]

    return turn


def check(checkpoint: Path, due: tuple[int, int, int]) -> None:
    table = read_state(checkpoint)
    count, total = (pc.sum(pc.struct_field(table["value"], at)).as_py() for at in (0, 1))
    if (table.num_rows, count, total) != due:
        raise SystemExit(f"moved {(table.num_rows, count, total)}, where {due} is due")


def show_timing(what: str, timings: dict[str, Timing]) -> float:
    for name, timing in timings.items():
        print(f"{what:<12}{name:<12}{timing.best:>8.2f}{timing.median:>8.2f}")
    return timings["moving"].best / timings["reading"].best


def main(asked: Options) -> None:
    keys, rows = asked.size(1_000_000, 200_000), asked.size(100_000, 20_000)
    phases = (Phase("load", 0, keys), Phase("many", 1, keys, 10, rows))
    for phase in phases:
        phase.write(asked.folder)
    amounts = sum(int(amounts.sum()) for phase in phases for _, amounts in phase.updates())
    due = (keys, sum(phase.total_rows for phase in phases), amounts)
    tasks = {
        provider: Task(
            provider, asked.folder / provider, asked.folder / f"stream-{provider}",
            tuple(asked.folder / phase.name for phase in phases), heap="4g",
        )
        for provider in STORES
    }  # fmt: skip
    first = tasks[STORES[0]]
    spark = session(replace(first, provider=OURS))
    print(f"{keys:,} keys; seconds, best and median of {asked.rounds}")
    ratios, new = {}, asked.folder / "new"
    for provider, task in tasks.items():
        for name, value in BUILT_IN[provider].items():
            spark.conf.set(name, value)
        make_state(spark, task)
        contestants = {
            "reading": reading(spark, task.checkpoint),
            "moving": moving(new, partial(cec_spark.adopt, spark, task.checkpoint)),
        }
        ratios[provider] = show_timing(provider, race(contestants, asked.rounds))
        check(new, due)
    three = asked.folder / "three"
    contestants = {
        "reading": reading(spark, new),
        "moving": moving(three, partial(cec_spark.repartition, spark, new, partitions=3)),
    }
    ratios[OURS] = show_timing("partitions", race(contestants, asked.rounds))
    check(three, due)
    spark.stop()
    report(
        {
            "adopt_vs_reading": ratios["changelog"],
            "adopt_hdfs_vs_reading": ratios["hdfs"],
            "repartition_vs_reading": ratios[OURS],
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(7, 3), takes="two minutes") as asked:
        main(asked)
