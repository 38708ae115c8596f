"""State that the heap of an executor has no room for: ours and RocksDB with changelog, in 1 GB.

count and sum by key of a random stream: ten batches load 10,000,000 keys, then 15 batches of 10,000
updates; then the query is started again in a new JVM, to the end of a batch of 10,000. Each of it
without and with a watermark under which nothing expires. 2 partitions on 2 cores, update mode, noop
sink. Our rows and their index are in local files from an eighth of the heap on.
Ours once more without key directories: a restart walks back over all rows of the log.

batch    median of the batches after the first five (of few: half of them), from trigger to end
restart  seconds from the start of the query to the end of its first batch
heap     in use after a collection, with all keys live and the query waiting for data
local    keys, values and indexes in local files, after the batches
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from bench.harness.rounds import ONE_TURN, Options, options, report
from bench.spark.input import Phase
from bench.spark.worker import OURS, Outcome, Task, metric, run, warm

TARGETS = {
    "batch_10m_vs_rocksdb": "report",
    "watermarked_batch_10m_vs_rocksdb": "at most 0.12",
    "restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "watermarked_restart_to_first_batch_10m_vs_rocksdb": "at most 0.3",
    "restart_to_first_batch_10m_vs_walk": "report",
    "watermarked_restart_to_first_batch_10m_vs_walk": "report",
    "directories_state_bytes_vs_without": "report",
    "checkpoint_folder_vs_rocksdb": "at most 0.5",
    "heap_10m_vs_rocksdb": "report",
    "local_10m_mb": "report",
}
HEAP = "1g"
WALK = "walk"
"""Ours, without key directories."""
LOADS = 10
"""Batches that bring the keys: a batch with all of them would not fit into the heap either."""


@dataclass(frozen=True)
class Lives:
    """Figures of a query that was started, stopped and started again."""

    first: Outcome
    second: Outcome

    @property
    def batch_ms(self) -> float:
        batches = warm(self.first.batches["few"])
        return statistics.median(float(one["durationMs"]["triggerExecution"]) for one in batches)

    @property
    def load_batch_s(self) -> float:
        batches = self.first.batches["load"]
        return sum(float(one["durationMs"]["triggerExecution"]) for one in batches) / 1e3

    @property
    def restart_s(self) -> float:
        return self.second.first_batch_s

    @property
    def state_bytes(self) -> int:
        return self.first.state_bytes["few"]

    @property
    def heap_mb(self) -> float:
        return self.first.heap_mb["few"]


def lives(asked: Options, name: str, phases: list[Phase], is_timed: bool) -> Lives:
    folder = asked.folder / (name + "-timed" * is_timed)
    provider = OURS if name == WALK else name
    inputs = tuple(asked.folder / "input" / phase.name for phase in phases)
    task = Task(
        provider, folder / "checkpoint", folder / "stream", inputs[:2], HEAP, is_timed=is_timed,
        key_directories=name != WALK,
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
        for name in ("changelog", WALK, OURS):
            one = measured[name, is_timed] = lives(asked, name, phases, is_timed)
            print(f"{name:<11}{' with a watermark' * is_timed:<17}"
                  f" load {one.load_batch_s:6.1f} s, batch {one.batch_ms:6.0f} ms,"
                  f" restart {one.restart_s:5.2f} s,"
                  f" heap {one.heap_mb:5.0f} MB,"
                  f" folder {one.state_bytes / 1e6:6.1f} MB")  # fmt: skip
    (ours, timed), (walk, walk_timed), (other, other_timed) = (
        (measured[name, False], measured[name, True]) for name in (OURS, WALK, "changelog")
    )
    report(
        {
            "batch_10m_vs_rocksdb": ours.batch_ms / other.batch_ms,
            "watermarked_batch_10m_vs_rocksdb": timed.batch_ms / other_timed.batch_ms,
            "restart_to_first_batch_10m_vs_rocksdb": ours.restart_s / other.restart_s,
            "watermarked_restart_to_first_batch_10m_vs_rocksdb": timed.restart_s
            / other_timed.restart_s,
            "restart_to_first_batch_10m_vs_walk": ours.restart_s / walk.restart_s,
            "watermarked_restart_to_first_batch_10m_vs_walk": timed.restart_s
            / walk_timed.restart_s,
            "directories_state_bytes_vs_without": ours.state_bytes / walk.state_bytes,
            "checkpoint_folder_vs_rocksdb": ours.state_bytes / other.state_bytes,
            "heap_10m_vs_rocksdb": ours.heap_mb / other.heap_mb,
            "local_10m_mb": metric(ours.first.batches["few"][-1], "cecLocalBytes") / 1e6,
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=ONE_TURN, takes="under five minutes") as asked:
        main(asked)
