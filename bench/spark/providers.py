"""Spark's state stores under one aggregate: ours, HDFS-backed, RocksDB, RocksDB with changelog.

count and sum by key of a random stream: one batch loads 1,000,000 keys, then 20 batches of 100,000
updates and 20 of 10,000; 2 partitions on 2 cores, update mode, noop sink, maintenance every 5
seconds. Ours syncs each commit, the others do not. Each provider runs in a JVM of its own, in turn,
and is then started again in new ones, each time to the end of a batch of 10,000. From these
restarts the same provider's with 20,000 keys are taken off: what is left is loading.
Medians of the batches of a round, and of the rounds.

batch, state     a batch from trigger to end; what its tasks (their sum) spend on updates and commit
bytes_vs_delta   what a batch of 10,000 adds to the state directory, over its updates alone: the key
                 and value bytes as they are stored, each of the two together, columns one after
                 the other, in one piece of zstd 1 per partition and batch, without any header
load_at_target   how long a partition loads in a new JVM (the mean of both), over
                 ``recovery_time_s``, after as many updates as let the extent grow to what the
                 provider makes of that time; without key directories, by which a load does not read
                 the extent
heap             in use after a collection, with all keys live and the query waiting for data
watermark_batch  the same batches where the query has a watermark and nothing expires; over the best
                 of the others, and over ours without a watermark
4,000,000 keys   ours in a heap of 4 GB: loaded, updated and started again
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.harness.rounds import Options, options, report
from bench.spark.input import Phase, updates_alone_bytes
from bench.spark.worker import BUILT_IN, OURS, PARTITIONS, Outcome, Task, metric, run, warm

TARGETS = {
    "batch_p50_vs_best": "at most 0.6",
    "state_p50_vs_best": "at most 0.7",
    "commit_p50_vs_changelog_10k": "at most 0.3",
    "commit_p50_vs_changelog_100k": "at most 1",
    "batch_max_vs_p50": "at most 1.3",
    "load_vs_hdfs": "at most 0.35",
    "load_vs_changelog": "at most 0.3",
    "bytes_vs_delta_1pct": "at most 1.4",
    "load_at_target": "at most 1",
    "heap_vs_hdfs": "at most 0.75",
    "heap_4m_gb": "at most 4",
    "watermark_batch_p50_vs_best": "at most 0.6",
    "watermark_batch_p50_vs_best_10k": "report",
    "watermark_batch_p50_vs_none_10k": "report",
}
TARGETS_S = (1.0, 3.0)
UPDATES, COMMIT = "allUpdatesTimeMs", "commitTimeMs"


@dataclass(frozen=True)
class Workload:
    """The phases of a run, and those that the restarts after it run, one each."""

    name: str
    run: tuple[Phase, ...]
    restarts: tuple[Phase, ...]

    @cached_property
    def sums(self) -> tuple[int, int]:
        """Rows and amounts of all phases together."""
        every = (*self.run, *self.restarts)
        amounts = sum(int(amounts.sum()) for one in every for _, amounts in one.updates())
        return sum(one.total_rows for one in every), amounts

    def write(self, folder: Path) -> None:
        for phase in (*self.run, *self.restarts):
            phase.write(folder / self.name)


@dataclass
class Measured:
    """The outcomes of one provider: runs at full size, and seconds of restarts."""

    runs: list[Outcome] = field(default_factory=list)
    restarts_s: dict[str, list[float]] = field(default_factory=dict)
    timed_runs: list[Outcome] = field(default_factory=list)
    """Runs with a watermark."""

    def timed_batch(self, phase: str) -> float:
        return statistics.median(statistics.median(batch_ms(one, phase)) for one in self.timed_runs)

    def restart_s(self, workload: str) -> float:
        return statistics.median(self.restarts_s[workload])

    @property
    def load_s(self) -> float:
        """Return seconds that a restart with all keys takes beyond one with few right before it."""
        pairs = zip(self.restarts_s["big"], self.restarts_s["small"], strict=True)
        return statistics.median(big - small for big, small in pairs)

    def load_vs(self, other: Measured) -> float:
        """Infinite where a machine that did other things as well hides what loading took."""
        if min(self.load_s, other.load_s) <= 0:
            return math.inf
        return self.load_s / other.load_s

    def batch(self, phase: str) -> float:
        return statistics.median(statistics.median(batch_ms(one, phase)) for one in self.runs)

    def slowest(self, phase: str) -> float:
        return statistics.median(max(warm(batch_ms(one, phase))) for one in self.runs)

    def state(self, phase: str, *names: str) -> float:
        """Milliseconds of a batch that the figures of the state store add up to."""
        return statistics.median(
            statistics.median(sum(metric(b, n) for n in names) for b in one.batches[phase])
            for one in self.runs
        )

    def after(self, phase: str, what: str) -> float:
        return statistics.median(float(getattr(one, what)[phase]) for one in self.runs)


def batch_ms(outcome: Outcome, phase: str) -> list[float]:
    return [float(batch["durationMs"]["triggerExecution"]) for batch in outcome.batches[phase]]


def workloads(asked: Options) -> tuple[Workload, Workload]:
    keys, rows = asked.size(1_000_000, 200_000), asked.size(100_000, 20_000)
    batches, again = asked.size(20, 10), asked.size(2, 1)
    few = rows // 10
    run = (
        Phase("load", 0, keys),
        Phase("many", 1, keys, batches, rows),
        Phase("few", 2, keys, batches, few),
    )
    small = asked.size(20_000, 4_000)
    prepare = (Phase("load", 0, small), Phase("few", 1, small, 5, few))
    every = range(again * asked.rounds)
    return (
        Workload("big", run, tuple(Phase(f"again-{n}", 3 + n, keys, 1, few) for n in range(again))),
        Workload("small", prepare, tuple(Phase(f"again-{n}", 3 + n, small, 1, few) for n in every)),
    )


def turn(provider: str, number: int, asked: Options, pair: tuple[Workload, ...]) -> Measured:
    """One round of a provider; the small run is made in the first and goes on in all others."""
    big, small = pair
    measured = Measured(restarts_s={"big": [], "small": []})

    def task(
        workload: Workload, phases: Iterable[Phase], check: bool = False, is_timed: bool = False
    ) -> Task:
        folder = asked.folder / provider / (workload.name + "-timed" * is_timed)
        inputs = tuple(asked.folder / workload.name / phase.name for phase in phases)
        return Task(
            provider, folder / "checkpoint", folder / "stream", inputs,
            check=workload.sums if check else None, is_timed=is_timed,
        )  # fmt: skip

    measured.runs.append(run(task(big, big.run)))
    measured.timed_runs.append(run(task(big, big.run, is_timed=True)))
    shutil.rmtree(asked.folder / provider / f"{big.name}-timed")
    if number == 0:
        run(task(small, small.run))
    again = len(big.restarts)
    for at, phase in enumerate(big.restarts):
        mate = small.restarts[number * again + at]
        measured.restarts_s["small"].append(run(task(small, [mate])).first_batch_s)
        is_last = phase is big.restarts[-1]
        measured.restarts_s["big"].append(run(task(big, [phase], check=is_last)).first_batch_s)
    shutil.rmtree(asked.folder / provider / big.name)
    return measured


def race(asked: Options, pair: tuple[Workload, Workload]) -> dict[str, Measured]:
    """All providers, round by round; who goes first rotates. The quick one leaves RocksDB out."""
    names: tuple[str, ...] = (*BUILT_IN, OURS)
    if asked.quick:
        names = tuple(name for name in names if name != "rocksdb")
    measured = {name: Measured(restarts_s={"big": [], "small": []}) for name in names}
    for number in range(asked.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            measured_turn = turn(name, number, asked, pair)
            measured[name].runs += measured_turn.runs
            measured[name].timed_runs += measured_turn.timed_runs
            for workload, seconds in measured_turn.restarts_s.items():
                measured[name].restarts_s[workload] += seconds
    return measured


def bytes_per_batch(outcomes: Iterable[Outcome], phase: Phase, before: Phase) -> float:
    """Growth of the state directory; nothing in it is old enough to be deleted."""
    return statistics.median(
        (one.state_bytes[phase.name] - one.state_bytes[before.name]) / phase.batches
        for one in outcomes
    )


def load_over_target(asked: Options, target_s: float) -> float:
    """Grow the extent to what the provider makes of the target, and start it again, twice.

    The second load is that of an extent which the provider sized by its own first load.
    """
    keys, rows = asked.size(1_000_000, 200_000), asked.size(500_000, 500_000)
    load = Phase("load", 0, keys)
    steps = {life: [Phase(f"grow-{life}-{n}", 1 + 30 * life + n, keys, 3, rows) for n in range(20)]
             for life in range(2)}  # fmt: skip
    last = Phase("last", 100, keys, 1, rows)
    folder = asked.folder / f"target-{target_s:g}"
    for phase in (load, *steps[0], *steps[1], last):
        phase.write(folder)
    worst_s = 0.0
    for life, phases in enumerate(([load, *steps[0]], steps[1], [last])):
        inputs = tuple(folder / phase.name for phase in phases)
        task = Task(
            OURS, folder / "checkpoint", folder / "stream", inputs, "2g", target_s,
            key_directories=False,
        )  # fmt: skip
        outcome = run(replace(task, until_steady=life < 2))
        batches = [batch for phase in outcome.batches.values() for batch in phase]
        loaded = metric(batches[0], "cecLoadedRecords")
        seconds = load_s(batches[0])
        extents = [metric(phase[-1], "cecExtentRecords") for phase in outcome.batches.values()]
        print(f"target {target_s:g} s, run {life}: {loaded:,.0f} records loaded in {seconds:.2f} s;"
              f" then the extent grew to {extents[-1]:,.0f} in {len(batches)} batches")  # fmt: skip
        if life < 2 and len(outcome.batches) >= len(phases):
            raise SystemExit("the extent still grew at the end: more updates are needed")
        worst_s = max(worst_s, seconds)
    shutil.rmtree(folder)
    return worst_s / target_s


def load_s(batch: dict[str, Any]) -> float:
    """Return seconds that partitions take to load, the mean: they load equal shares at once."""
    return metric(batch, "cecLoadLatencyMs") / PARTITIONS / 1e3


def many_keys_heap_gb(asked: Options) -> float:
    """Heap in use with 4,000,000 keys in a JVM that has 4 GB, after a restart of it too."""
    keys = asked.size(4_000_000, 800_000)
    load = Phase("load", 0, keys)
    phases = [load, Phase("many", 1, keys, 5, keys // 10), Phase("again", 2, keys, 2, keys // 10)]
    folder = asked.folder / "heap"
    for phase in phases:
        phase.write(folder)
    inputs = tuple(folder / phase.name for phase in phases)
    task = Task(OURS, folder / "checkpoint", folder / "stream", inputs[:2], "4g")
    before, after = run(task), run(replace(task, phases=inputs[2:]))
    shutil.rmtree(folder)
    heaps = [*before.heap_mb.values(), *after.heap_mb.values()]
    rows = metric(after.batches["again"][-1], "numRowsTotal")
    if rows != keys:
        raise SystemExit(f"{rows:,.0f} keys are there, of {keys:,}")
    print(f"{rows:,.0f} keys in a heap of 4 GB: {max(heaps):,.0f} MB in use,"
          f" started again in {after.first_batch_s:.1f} s")  # fmt: skip
    return max(heaps) / 1e3


def show_table(measured: dict[str, Measured], delta_bytes: float, workload: Workload) -> None:
    load, many, few = workload.run
    print(f"{load.keys:,} keys; {many.batches} x {many.rows:,} and {few.batches} x {few.rows:,}"
          " updates; milliseconds")  # fmt: skip
    names = f"{'':<12}{'load':>6} |{'batch':>6}{'slowest':>8}{'updates':>8}{'commit':>7}{'cpu':>6}"
    print(f"{names} |{'batch':>6}{'updates':>8}{'commit':>7}{'kB':>6}")
    for name, one in measured.items():
        cpu = one.after("many", "cpu_s") / many.batches * 1e3
        print(f"{name:<12}{one.batch('load'):>6.0f} |{one.batch('many'):>6.0f}"
              f"{one.slowest('many'):>8.0f}{one.state('many', UPDATES):>8.0f}"
              f"{one.state('many', COMMIT):>7.0f}{cpu:>6.0f} |{one.batch('few'):>6.0f}"
              f"{one.state('few', UPDATES):>8.0f}{one.state('few', COMMIT):>7.0f}"
              f"{bytes_per_batch(one.runs, few, many) / 1e3:>6.0f}")  # fmt: skip
    print(f"the {few.rows:,} updates alone: {delta_bytes / 1e3:.0f} kB")
    print(
        f"{'':<12}{'restart s':>10}{'few keys':>9}{'load s':>8}{'heap MB':>8}{'files':>6}{'MB':>7}"
    )
    for name, one in measured.items():
        print(f"{name:<12}{one.restart_s('big'):>10.2f}{one.restart_s('small'):>9.2f}"
              f"{one.load_s:>8.2f}{one.after('many', 'heap_mb'):>8.0f}"
              f"{one.after('few', 'state_files'):>6.0f}"
              f"{one.after('few', 'state_bytes') / 1e6:>7.1f}")  # fmt: skip
    print("with a watermark, batches:")
    for name, one in measured.items():
        print(f"  {name:<12}many{one.timed_batch('many'):>7.0f}, few{one.timed_batch('few'):>7.0f}")


def figures(measured: dict[str, Measured], delta_bytes: float, big: Workload) -> dict[str, float]:
    _, many, few = big.run
    ours, hdfs, changelog = measured[OURS], measured["hdfs"], measured["changelog"]
    others = [one for name, one in measured.items() if name != OURS]
    return {
        "batch_p50_vs_best": ours.batch("many") / min(one.batch("many") for one in others),
        "state_p50_vs_best": ours.state("many", UPDATES, COMMIT)
        / min(one.state("many", UPDATES, COMMIT) for one in others),
        "commit_p50_vs_changelog_10k": ours.state("few", COMMIT) / changelog.state("few", COMMIT),
        "commit_p50_vs_changelog_100k": ours.state("many", COMMIT)
        / changelog.state("many", COMMIT),
        "batch_max_vs_p50": statistics.median(
            max(warm(batch_ms(one, "many"))) / statistics.median(batch_ms(one, "many"))
            for one in ours.runs
        ),
        "load_vs_hdfs": ours.load_vs(hdfs),
        "load_vs_changelog": ours.load_vs(changelog),
        "bytes_vs_delta_1pct": bytes_per_batch(ours.runs, few, many) / delta_bytes,
        "heap_vs_hdfs": ours.after("many", "heap_mb") / hdfs.after("many", "heap_mb"),
        "watermark_batch_p50_vs_best": ours.timed_batch("many")
        / min(one.timed_batch("many") for one in others),
        "watermark_batch_p50_vs_best_10k": ours.timed_batch("few")
        / min(one.timed_batch("few") for one in others),
        "watermark_batch_p50_vs_none_10k": ours.timed_batch("few") / ours.batch("few"),
    }


def main(asked: Options) -> None:
    pair = workloads(asked)
    for workload in pair:
        workload.write(asked.folder)
    measured = race(asked, pair)
    delta_bytes = updates_alone_bytes(pair[0].run, PARTITIONS)
    show_table(measured, delta_bytes, pair[0])
    measured_figures = figures(measured, delta_bytes, pair[0])
    targets_s = TARGETS_S[:1] if asked.quick else TARGETS_S
    measured_figures["load_at_target"] = max(
        load_over_target(asked, target_s) for target_s in targets_s
    )
    measured_figures["heap_4m_gb"] = many_keys_heap_gb(asked)
    report(measured_figures)


if __name__ == "__main__":
    with options(__doc__, turns=(2, 1), takes="under five minutes") as asked:
        main(asked)
