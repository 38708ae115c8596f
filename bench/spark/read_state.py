"""A million keys of a query's state as an Arrow table: `read_state` and Spark's own reader.

count and sum by key, as spark/providers.py has them: one batch loads the keys, then 10 batches
update 100,000 each; 2 partitions on 2 cores. Spark reads with `spark.read.format("statestore")`
and `toArrow()`, in a session that runs all the time; `read_state` runs in the same process, in
turn with it, and does not use that session. The best turns are compared; what each returned is
summed up and has to agree with the input.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from bench.harness.rounds import Options, options, race, report, stopwatch
from bench.spark.input import Phase
from bench.spark.worker import OURS, Task, make_state, session
from cec_store import read_state

TARGETS = {
    "read_state_vs_spark": "at least 8",
}


def timed(read: Callable[[], pa.Table], due: tuple[int, int, int]) -> Callable[[], float]:
    """A turn: what is read has so many keys, rows and amounts."""

    def turn() -> float:
        with stopwatch() as taken:
            table = read()
        count, total = (pc.sum(pc.struct_field(table["value"], at)).as_py() for at in (0, 1))
        if (table.num_rows, count, total) != due:
            raise SystemExit(f"read {(table.num_rows, count, total)}, where {due} is due")
        return taken[0]

    return turn


def main(asked: Options) -> None:
    keys, rows = asked.size(1_000_000, 200_000), asked.size(100_000, 20_000)
    phases = (Phase("load", 0, keys), Phase("many", 1, keys, 10, rows))
    for phase in phases:
        phase.write(asked.folder)
    task = Task(
        OURS, asked.folder / "checkpoint", asked.folder / "stream",
        tuple(asked.folder / phase.name for phase in phases), heap="1g",
    )  # fmt: skip
    amounts = sum(int(amounts.sum()) for phase in phases for _, amounts in phase.updates())
    due = (keys, sum(phase.total_rows for phase in phases), amounts)
    spark = session(task)
    make_state(spark, task)
    source = spark.read.format("statestore")
    contestants = {
        "spark": timed(lambda: source.load(str(task.checkpoint)).toArrow(), due),
        "read_state": timed(lambda: read_state(task.checkpoint), due),
    }
    timings = race(contestants, asked.rounds)
    spark.stop()
    print(f"{keys:,} keys to Arrow; seconds, best and median of {asked.rounds}")
    for name, timing in timings.items():
        print(f"{name:<12}{timing.best:>8.2f}{timing.median:>8.2f}")
    report({"read_state_vs_spark": timings["spark"].best / timings["read_state"].best})


if __name__ == "__main__":
    with options(__doc__, turns=(7, 3), takes="a minute") as asked:
        main(asked)
