"""Costs of eventual checkpoints while nothing fails: throughput with them over without.

The averaging aggregate of the paper's evaluation (IV.A, IV.B) on 100-byte bids from memory, its
output queue on disk. Each run ends when all output is durable. Three workloads, each with and
without checkpoints by turns:

fast windows   two items, windows of 1 row, OPEN records only
slow windows   two items, windows of 1,000 rows, OPEN records only
q2             100,000 items, windows of 10 rows, CHECK records that keep Q = 2 x open windows;
               on the clock once the windows are spread over all fill levels

Then the aggregate of the q2 workload by itself, in one thread and without a queue.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness.bids import BATCH_ROWS, BidSource, bids
from bench.harness.rounds import Options, Timing, WarmClock, options, race, report
from cec_store import Never, Targets, open_queue
from cec_store.checkpoints.policy import Policy
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.contract import Step
from cec_store.operators.inputs.merge import merge
from cec_store.operators.runner import Runner, record_schema

TARGETS = {
    "throughput_kept_open_only": "at least 0.95",
    "throughput_kept_q2": "at least 0.85",
    "records_per_s_core": "report",
    "rss_mb": "report",
}
BLOCK_ROWS = 16 * BATCH_ROWS
TUPLE_BYTES = 100


@dataclass(frozen=True)
class Workload:
    """Bids on so many items, in windows of so many rows; ``warm_rows`` come before the clock."""

    block: pa.Table
    window: int
    rows: int
    warm_rows: int = 0

    def operator(self) -> Aggregate:
        return Aggregate(
            group_by=["item"],
            aggregates={"average": ("avg", "price")},
            window=CountWindow(self.window),
            input_schema=self.block.schema,
        )

    def source(self) -> BidSource:
        return BidSource(self.block, self.warm_rows + self.rows)

    def steps(self) -> Iterator[Step]:
        source = self.source()
        return merge([source.read(0)], np.zeros(1, np.int64), [source.schema])


@dataclass
class Tally:
    """Records of each kind that the runs of a contestant left."""

    results: int = 0
    footprints: int = 0
    checks: int = 0


def run(work: Workload, folder: Path, policy: Policy | None, tally: Tally) -> float:
    """Seconds from the end of the warm-up to all output durable; no policy, no checkpoints."""
    path = folder / "queue"
    operator = work.operator()
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [work.source()], queue, policy, checkpoints=policy is not None)
        clock = WarmClock(work.warm_rows)
        runner.run(clock)
        seconds = clock.seconds()
        tally.results = runner.records_written - runner.checks_written
        tally.checks = runner.checks_written
    shutil.rmtree(path)
    return seconds


def apply(work: Workload) -> float:
    """Processor seconds of this thread in the operator alone; making the steps is off the clock."""
    operator = work.operator()
    seconds = 0.0
    rows = 0
    for step in work.steps():
        began = time.thread_time()
        operator.apply(step)
        rows += step.rows
        if rows > work.warm_rows:
            seconds += time.thread_time() - began
    return seconds


def memory_mb(work: Callable[[], object]) -> tuple[float, float]:
    """Resident memory before the work and its peak during the work."""

    def status(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024

    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before_mb = status("VmRSS")
    work()
    return before_mb, status("VmHWM")


def compare(name: str, work: Workload, policy: Policy, asked: Options) -> tuple[Timing, Timing]:
    """Timings with checkpoints and without."""
    kept, bare = Tally(), Tally()
    contestants: dict[str, Callable[[], float]] = {
        "with": partial(run, work, asked.folder, policy, kept),
        "without": partial(run, work, asked.folder, None, bare),
    }
    # Many runs of about a second: a longer one seldom gets by without a disturbance.
    timings = race(contestants, 3 * asked.rounds)
    for side, timing in timings.items():
        print(
            f"{name:<13} {side:<8} best {work.rows / timing.best:>12,.0f} rows/s"
            f"   median {work.rows / timing.median:>12,.0f} rows/s"
        )
    print(
        f"{name:<13} {bare.results:,} results, {kept.results - bare.results:,} OPEN,"
        f" {kept.checks:,} CHECK"
    )
    return timings["with"], timings["without"]


def workloads(asked: Options) -> tuple[Workload, Workload, Workload]:
    block_rows = asked.size(BLOCK_ROWS, BLOCK_ROWS)
    two = bids(block_rows, 2, tuple_bytes=TUPLE_BYTES)
    many = bids(4 * block_rows, asked.size(100_000, 100_000), tuple_bytes=TUPLE_BYTES)
    return (
        Workload(two, 1, rows=asked.size(5_000_000, 1_000_000)),
        Workload(two, 1000, rows=asked.size(12_000_000, 3_000_000)),
        Workload(
            many,
            10,
            rows=asked.size(10_000_000, 2_000_000),
            warm_rows=BATCH_ROWS * asked.size(96, 32),
        ),
    )


def main(asked: Options) -> None:
    fast, slow, q2 = workloads(asked)
    names = {"fast windows": fast, "slow windows": slow}
    pairs = [compare(name, work, Never(), asked) for name, work in names.items()]
    with_q2, without_q2 = compare("q2", q2, Targets(extent_factor=2.0), asked)
    alone = race({"apply": partial(apply, q2)}, asked.rounds)["apply"]
    print(f"aggregate alone, one thread: best {q2.rows / alone.best:,.0f} rows/s")
    before_mb, peak_mb = memory_mb(lambda: run(q2, asked.folder, Targets(), Tally()))
    print(f"memory: {before_mb:,.0f} MB before a run of q2, with the input, {peak_mb:,.0f} at most")
    report(
        {
            "throughput_kept_open_only": min(bare.best / kept.best for kept, bare in pairs),
            "throughput_kept_open_only_median": min(b.median / k.median for k, b in pairs),
            "throughput_kept_fast": pairs[0][1].best / pairs[0][0].best,
            "throughput_kept_slow": pairs[1][1].best / pairs[1][0].best,
            "throughput_kept_q2": without_q2.best / with_q2.best,
            "throughput_kept_q2_median": without_q2.median / with_q2.median,
            "records_per_s_core": q2.rows / alone.best,
            "records_per_s_end_to_end": q2.rows / with_q2.best,
            "rss_mb": peak_mb,
            "rss_before_mb": before_mb,
        }
    )


if __name__ == "__main__":
    with options(__doc__) as asked:
        main(asked)
