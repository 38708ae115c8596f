"""`transformWithState` on our store and on RocksDB, in one run.

A processor in Scala keeps a value, a list, a map with up to four keys and timers for each of
1,000,000 keys: one batch brings each key once, then 20 batches bring 100,000 updates of random ones
each. Every key has a timer that is an hour away; each update of one key in 16 sets one that fires
in the next batch. Times are event times behind a watermark of no delay. 2 partitions on 2 cores,
noop sink; ours syncs each commit, RocksDB, with its changelog, does not. Each store runs in a JVM
of its own, in turn, each first in every other round, and is then started again in a new one, to the
end of a batch of 10,000.

tws_batch_p50_vs_rocksdb   a batch of updates from trigger to end; medians of batches and of rounds
tws_restart_vs_rocksdb     from the start of the query in a new JVM to the end of its first batch
list_append_exponent       e of n^e, the time that n appends to the list of one key take: batches of
                           so many rows of one key, of which each has twice those of the one before
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np

from bench.harness.rounds import Options, options, report
from bench.spark.input import Phase
from bench.spark.worker import OURS, Outcome, Task, metric, run
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import publish

TARGETS = {
    "tws_batch_p50_vs_rocksdb": "at most 0.7",
    "tws_restart_vs_rocksdb": "report",
    "tws_load_vs_rocksdb": "report",
    "list_append_exponent": "at most 1.1",
}
ROCKSDB = "changelog"
"""RocksDB with its changelog, as the other benchmarks have it."""
SOURCES = Path(__file__).resolve().parent / "scala"
UPDATES = "allUpdatesTimeMs"


def batch_ms(outcome: Outcome, phase: str) -> float:
    every = (float(one["durationMs"]["triggerExecution"]) for one in outcome.batches[phase])
    return statistics.median(every)


def phases(asked: Options) -> tuple[Phase, Phase, Phase]:
    keys, rows = asked.size(1_000_000, 20_000), asked.size(100_000, 4_000)
    batches = asked.size(20, 8)
    return (
        Phase("load", 0, keys),
        Phase("many", 1, keys, batches, rows),
        Phase("again", 2, keys, 1, rows // 10),
    )


def appends(asked: Options) -> list[Phase]:
    """All rows are of key 0; the first ones are for the JVM to compile."""
    first = asked.size(50_000, 10_000)
    return [Phase(f"appends-{n}", 10 + n, 1, 1, first << n) for n in range(5)]


def sums_of(every: tuple[Phase, ...]) -> tuple[int, int]:
    amounts = sum(int(amounts.sum()) for one in every for _, amounts in one.updates())
    return sum(one.total_rows for one in every), amounts


def turn(provider: str, jar: str, number: int, asked: Options) -> tuple[float, float, float]:
    """One round: a batch in ms, a restart in s, and the load of all keys in ms."""
    folder = asked.folder / f"{provider}-{number}"
    every = phases(asked)

    def task(some: tuple[Phase, ...], check: bool) -> Task:
        inputs = tuple(asked.folder / "input" / one.name for one in some)
        checked = sums_of(every) if check else None
        return Task(
            provider, folder / "checkpoint", folder / "stream", inputs, check=checked,
            transform_jar=jar, heap="4g",
        )  # fmt: skip

    done = run(task(every[:2], check=False))
    again = run(task(every[2:], check=True))
    return batch_ms(done, "many"), again.first_batch_s, batch_ms(done, "load")


def exponent(jar: str, asked: Options) -> float:
    every = appends(asked)
    folder = asked.folder / "appends"
    inputs = tuple(asked.folder / "input" / one.name for one in every)
    done = run(
        Task(OURS, folder / "checkpoint", folder / "stream", inputs, transform_jar=jar, heap="4g")
    )
    measured = every[1:]
    ms = [metric(done.batches[one.name][0], UPDATES) for one in measured]
    rows = [one.rows for one in measured]
    print(f"appends to one key: {dict(zip(rows, ms, strict=True))} ms")
    slope, _ = np.polyfit(np.log(np.cumsum(rows)), np.log(np.cumsum(ms)), 1)
    return float(slope)


def main() -> None:
    with options(__doc__, (3, 1), "some minutes") as asked:
        made = compiler.jar(sources=SOURCES, carried=SOURCES / "never")
        # Under a name of its own: `configure` takes it for an older provider otherwise.
        jar = str(publish(made.parent / "cec-store-bench-transform.jar", made.read_bytes()))
        for phase in (*phases(asked), *appends(asked)):
            phase.write(asked.folder / "input")
        turns_of: dict[str, list[tuple[float, float, float]]] = {OURS: [], ROCKSDB: []}
        for number in range(asked.rounds):
            for provider in (OURS, ROCKSDB) if number % 2 == 0 else (ROCKSDB, OURS):
                turns_of[provider].append(turn(provider, jar, number, asked))
                batch, restart, load = turns_of[provider][-1]
                print(
                    f"{provider}: load {load:.0f} ms, batch {batch:.0f} ms, restart {restart:.2f} s"
                )
        ours, theirs = (
            [statistics.median(column) for column in zip(*turns_of[name], strict=True)]
            for name in (OURS, ROCKSDB)
        )
        report(
            {
                "tws_batch_p50_vs_rocksdb": ours[0] / theirs[0],
                "tws_restart_vs_rocksdb": ours[1] / theirs[1],
                "tws_load_vs_rocksdb": ours[2] / theirs[2],
                "list_append_exponent": exponent(jar, asked),
            }
        )


if __name__ == "__main__":
    main()
