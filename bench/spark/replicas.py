"""Warm replicas of state partitions on a real standalone cluster: master, workers, executors.

A count and a sum by key of random rows, 8,000,000 keys in 8 partitions on 4 executors of one core
each, all on this machine. Five applications, one after the other: with `replicas=1`, without, the
same two by window and key behind a watermark, and with Spark's HDFS-backed provider.

lost_executor_batch_vs_none  the slowest batch after an executor was killed by SIGKILL, less what of
                             it Spark took to notice, with replicas over without
replica_load_vs_cold         what the stores that moved took to load after a kill as a batch begins,
                             with over without
load_vs_cold_in_mid_batch    the same after kills within a batch: Spark may have fixed already where
                             its tasks run, and tries those of the lost executor anywhere
..._watermark_...            the same of the count by window; each batch looks for what is due, and
                             finds nothing
cpal_latency_vs_direct       how much longer the batch at a migration is than the median of those
                             that follow, by CPAL over direct, to executors without a replica
cpal_load_vs_direct          what the new owner read before that batch, by CPAL over direct, in time
replica_batch_overhead       a median batch with replicas over one without
scale_out_batches            batches until an executor that joins owns its fair share, while the
                             adaptation manager runs
scale_out_built_in           partitions that it owns with the HDFS-backed provider, after the same
                             number of batches at least: Spark never moves one
"""

from __future__ import annotations

import math
import statistics

from bench.harness.rounds import Options, options, report
from bench.spark.replicas_application import Task
from bench.spark.replicas_worker import BEGIN, MIDDLE, Outcome, run

TARGETS = {
    "lost_executor_batch_vs_none": "at most 0.7",
    "replica_load_vs_cold": "at most 0.1",
    "load_vs_cold_in_mid_batch": "report",
    "lost_executor_batch_watermark_vs_none": "report",
    "replica_load_watermark_vs_cold": "report",
    "replica_batch_watermark_overhead": "report",
    "cpal_latency_vs_direct": "at most 0.1",
    "cpal_load_vs_direct": "report",
    "replica_batch_overhead": "at most 1.1",
    "scale_out_batches": "at most 10",
    "scale_out_built_in": "at most 0",
}


def task(chosen: Options, name: str, **more: object) -> Task:
    asked: dict[str, object] = {
        "folder": chosen.folder / name,
        "provider": "cec",
        "replicas": 0,
        "keys": chosen.size(8_000_000, 200_000),
        "rows": chosen.size(200_000, 20_000),
        "executors": 4,
        "partitions": 8,
        "executor_mb": 640 if chosen.quick else 2_048,
        "steady": 5 if chosen.quick else 20,
        "after": 5 if chosen.quick else 6,
        "kills": chosen.rounds,
        "moves": 0,
        "joins": 0,
        # So that replicas have the processors to themselves between two batches, as where cores are
        # to spare: all executors share two here.
        "every_s": 1.0 if chosen.quick else 2.5,
        **more,
    }
    return Task(**asked)  # type: ignore[arg-type]


def told(name: str, chosen: Options, **more: object) -> Outcome:
    """One application, whose figures are printed as soon as they are there."""
    outcome = run(task(chosen, name, **more))
    print(name, outcome, flush=True)
    return outcome


def median(values: list[float]) -> float:
    return statistics.median(values)


def extra_ms(outcome: Outcome, protocol: str) -> float:
    """Return at least a tenth of a millisecond, since a batch may be faster than its neighbours."""
    return max(0.1, median(outcome.moves_ms[protocol]))


def load_vs_cold(warm: Outcome, cold: Outcome, moment: str) -> float:
    return median(warm.load_ms[moment]) / max(1.0, median(cold.load_ms[moment]))


def scale_out_batches(owned: list[int], fair_share: int) -> float:
    """Return after how many batches the new executor owned its share; infinite if it never did."""
    return len(owned) if owned and owned[-1] >= fair_share else math.inf


def main() -> None:
    with options(__doc__, turns=(3, 1), takes="about five minutes") as chosen:
        joins = 10 if chosen.quick else 30
        # Batches in which nothing happens differ by a sixth: what a move adds shows in many only.
        moves = 2 if chosen.quick else 4 * chosen.rounds
        warm = told("warm", chosen, replicas=1, moves=moves, joins=joins)
        cold = told("cold", chosen)
        timed_warm = told("timed, warm", chosen, replicas=1, is_timed=True)
        timed_cold = told("timed, cold", chosen, is_timed=True)
        # It never moves a partition, however few keys there are.
        built_in = told(
            "hdfs", chosen, keys=200_000, provider="hdfs", kills=0, joins=joins, every_s=0.0
        )
        report(
            {
                "lost_executor_batch_vs_none": median(warm.after_kill_ms)
                / median(cold.after_kill_ms),
                "replica_load_vs_cold": load_vs_cold(warm, cold, BEGIN),
                "load_vs_cold_in_mid_batch": load_vs_cold(warm, cold, MIDDLE),
                "lost_executor_batch_watermark_vs_none": median(timed_warm.after_kill_ms)
                / median(timed_cold.after_kill_ms),
                "replica_load_watermark_vs_cold": load_vs_cold(timed_warm, timed_cold, BEGIN),
                "replica_batch_watermark_overhead": median(timed_warm.batch_ms)
                / median(timed_cold.batch_ms),
                "cpal_latency_vs_direct": extra_ms(warm, "cpal") / extra_ms(warm, "direct"),
                "cpal_load_vs_direct": median(warm.move_load_ms["cpal"])
                / max(1.0, median(warm.move_load_ms["direct"])),
                "replica_batch_overhead": median(warm.batch_ms) / median(cold.batch_ms),
                "scale_out_batches": scale_out_batches(
                    warm.owned_after, task(chosen, "warm").fair_share
                ),
                "scale_out_built_in": built_in.owned_after[-1],
            }
        )


if __name__ == "__main__":
    main()
