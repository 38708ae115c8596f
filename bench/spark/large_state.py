"""State that the heap of an executor has no room for: ours and RocksDB with changelog, in 1 GB.

count and sum by key of a random stream: ten batches load 10,000,000 keys, then 15 batches of 10,000
updates; then the query is started again in a new JVM, to the end of a batch of 10,000. Each of it
without and with a watermark under which nothing expires. 2 partitions on 2 cores, update mode, noop
sink. Our rows and their index are in local files from an eighth of the heap on.
Ours once more with key directories beside the log (`key_directories`).

batch    median of the batches after the first five, from trigger to end
restart  seconds from the start of the query to the end of its first batch
heap     in use after a collection, with all keys live and the query waiting for data
local    keys, values and indexes in local files, after the batches
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from bench.harness.rounds import Options, options, report
from bench.spark.input import Phase
from bench.spark.worker import OURS, Outcome, Task, metric, run

TARGETS = {
    "batch_10m_vs_rocksdb": "report",
    "watermarked_batch_10m_vs_rocksdb": "at most 0.12",
    "restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "watermarked_restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "directories_batch_10m_vs_rocksdb": "report",
    "directories_watermarked_batch_10m_vs_rocksdb": "report",
    "directories_restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "directories_watermarked_restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "directories_state_bytes_vs_without": "report",
    "heap_10m_vs_rocksdb": "report",
    "local_10m_mb": "report",
}
HEAP = "1g"
DIRECTORIES = "directories"
"""Ours, with a key directory beside each log."""
LOADS = 10
"""Batches that bring the keys: a batch with all of them would not fit into the heap either."""
JIT_BATCHES = 5
"""Batches that may be slow, since the JVM still compiles."""


@dataclass(frozen=True)
class Lives:
    """Figures of a query that was started, stopped and started again."""

    first: Outcome
    second: Outcome

    @property
    def batch_ms(self) -> float:
        batches = self.first.batches["few"][JIT_BATCHES:]
        return statistics.median(float(one["durationMs"]["triggerExecution"]) for one in batches)

    @property
    def load_batch_s(self) -> float:
        batches = self.first.batches["load"]
        return sum(float(one["durationMs"]["triggerExecution"]) for one in batches) / 1e3

    @property
    def heap_mb(self) -> float:
        return self.first.heap_mb["few"]


def lives(asked: Options, name: str, phases: list[Phase], is_timed: bool) -> Lives:
    folder = asked.folder / (name + "-timed" * is_timed)
    provider = OURS if name == DIRECTORIES else name
    inputs = tuple(asked.folder / "input" / phase.name for phase in phases)
    task = Task(
        provider, folder / "checkpoint", folder / "stream", inputs[:2], HEAP, is_timed=is_timed,
        key_directories=name == DIRECTORIES,
    )  # fmt: skip
    measured = Lives(run(task), run(replace(task, phases=inputs[2:])))
    rows = metric(measured.second.batches["again"][-1], "numRowsTotal")
    if rows != phases[0].keys:
        raise SystemExit(f"{name}: {rows:,.0f} keys are there, of {phases[0].keys:,}")
    return measured


def main(asked: Options) -> None:
    keys, rows = asked.size(10_000_000, 500_000), 10_000
    phases = [
        Phase("load", 0, keys, LOADS),
        Phase("few", 1, keys, asked.size(15, 8), rows),
        Phase("again", 2, keys, 1, rows),
    ]
    for phase in phases:
        phase.write(asked.folder / "input")
    print(f"{keys:,} keys in {HEAP} of heap; batches of {rows:,}")
    measured = {}
    for is_timed in (False, True):
        for name in ("changelog", OURS, DIRECTORIES):
            one = measured[name, is_timed] = lives(asked, name, phases, is_timed)
            print(f"{name:<11}{' with a watermark' * is_timed:<17}"
                  f" load {one.load_batch_s:6.1f} s, batch {one.batch_ms:6.0f} ms,"
                  f" restart {one.second.first_batch_s:5.2f} s,"
                  f" heap {one.heap_mb:5.0f} MB")  # fmt: skip
    by_directory = measured[DIRECTORIES, False]
    by_directory_timed = measured[DIRECTORIES, True]
    ours, timed = measured[OURS, False], measured[OURS, True]
    other, other_timed = measured["changelog", False], measured["changelog", True]
    report(
        {
            "batch_10m_vs_rocksdb": ours.batch_ms / other.batch_ms,
            "watermarked_batch_10m_vs_rocksdb": timed.batch_ms / other_timed.batch_ms,
            "restart_to_first_batch_10m_vs_rocksdb": ours.second.first_batch_s
            / other.second.first_batch_s,
            "watermarked_restart_to_first_batch_10m_vs_rocksdb": timed.second.first_batch_s
            / other_timed.second.first_batch_s,
            "directories_batch_10m_vs_rocksdb": by_directory.batch_ms / other.batch_ms,
            "directories_watermarked_batch_10m_vs_rocksdb": by_directory_timed.batch_ms
            / other_timed.batch_ms,
            "directories_restart_to_first_batch_10m_vs_rocksdb": by_directory.second.first_batch_s
            / other.second.first_batch_s,
            "directories_watermarked_restart_to_first_batch_10m_vs_rocksdb": (
                by_directory_timed.second.first_batch_s / other_timed.second.first_batch_s
            ),
            "directories_state_bytes_vs_without": by_directory.first.state_bytes["few"]
            / ours.first.state_bytes["few"],
            "heap_10m_vs_rocksdb": ours.heap_mb / other.heap_mb,
            "local_10m_mb": metric(ours.first.batches["few"][-1], "cecLocalBytes") / 1e6,
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(1, 1), takes="under five minutes") as asked:
        main(asked)
