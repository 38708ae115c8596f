"""Queries with a watermark: a batch of 1,000 rows over 6,000,000 in state, of which 350 expire.

Ours, RocksDB with changelog and the HDFS-backed store, 2 partitions on 2 cores, noop sink. The
state comes in a few large batches, its times in no order; 10 batches follow for the JVM to compile,
and then the 15 that count: figures are medians of these. Each query runs in a JVM of its own.
Sessions and groups that time out have 1,000,000 rows.

A quick run shows that every part works, and its figures little more: there are so few rows that a
batch costs what Spark itself needs, and all queries of a store share a JVM. It leaves out the
HDFS-backed store and NEXMark. At full size a part takes from ten minutes to an hour (`--only`).

..._vs_rocksdb           a batch from trigger to end, ours over RocksDB's: windows in append and
                         update mode, duplicates by time and within the watermark, sessions,
                         groups with timeouts; `..._vs_hdfs` the same over the HDFS-backed store
removals_6m_vs_rocksdb   the tasks' time in which an operator looks for what has expired: of the
                         first four operators, the one that compares worst
..._6m_vs_600k           ours, a batch with ten times the rows in state
join_...                 two sides with 5,000 rows a batch each, of which as many expire; RocksDB
                         with state formats 2 and 4; `..._before` is ours without the extension
restart_vs_no_watermark  ours started again in a new JVM to the end of its first batch, over the
                         same of a count without a watermark
scanned_rows_per_expired ours, where rows come in no order of time: rows that are looked at for each
                         that expires; `scanned_rows_flat` is that of the last hundred of 1,000
                         batches over the first hundred
no_watermark_vs_before   a batch of a count without a watermark over 1,000,000 keys, of which the
                         store is told nothing: ours over ours without the extension, in turns, the
                         median of each over all of its turns, of 40 batches each;
                         `no_watermark_bytes_vs_before` the memory that its state takes
nexmark_...              NEXMark's queries 5, 7 and 8, 50,000 events a batch
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.harness.rounds import ONE_TURN, Options, options, report
from bench.spark import nexmark_input
from bench.spark.watermarks_input import Workload
from bench.spark.watermarks_worker import FORMAT_4, Case, Outcome, Task, run
from bench.spark.worker import OURS, metric
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import publish

TARGETS = {
    "windowed_append_6m_vs_rocksdb": "at most 0.25",
    "windowed_update_6m_vs_rocksdb": "at most 0.25",
    "dedup_6m_vs_rocksdb": "at most 0.25",
    "dedup_within_6m_vs_rocksdb": "at most 0.25",
    "session_1m_vs_rocksdb": "at most 0.5",
    "timeouts_1m_vs_rocksdb": "at most 0.5",
    "removals_6m_vs_rocksdb": "at most 0.02",
    "windowed_6m_vs_600k": "at most 1.1",
    "windowed_update_6m_vs_600k": "at most 1.1",
    "dedup_6m_vs_600k": "at most 1.1",
    "dedup_within_6m_vs_600k": "at most 1.1",
    "session_1m_vs_100k": "at most 1.1",
    "timeouts_1m_vs_100k": "at most 1.1",
    "join_1m_vs_rocksdb_format4": "at most 0.6",
    "join_1m_vs_rocksdb_format2": "report",
    "join_1m_vs_before": "report",
    "join_updates_vs_before": "at most 1.1",
    "join_removals_vs_rocksdb_format4": "report",
    "join_2m_vs_200k": "at most 1.3",
    "no_watermark_vs_before": "at most 1.02",
    "no_watermark_bytes_vs_before": "at most 1.01",
    "restart_vs_no_watermark": "report",
    "restart_first_batch_s": "report",
    "scanned_rows_per_expired": "at most 300",
    "scanned_rows_flat": "at most 1.1",
    "nexmark_q5_vs_rocksdb": "report",
    "nexmark_q7_vs_rocksdb": "report",
    "nexmark_q8_vs_rocksdb": "report",
    "nexmark_q5_vs_hdfs": "report",
    "nexmark_q7_vs_hdfs": "report",
    "nexmark_q8_vs_hdfs": "report",
}
ROCKSDB, HDFS = "changelog", "hdfs"
ROCKSDB_4 = "changelog, format 4"
UNTOLD = "cec, not told"
"""Ours as it was, without the extension: each batch reads all keys."""
SOURCES = Path(__file__).resolve().parent / "scala"
REMOVALS, UPDATES = "allRemovalsTimeMs", "allUpdatesTimeMs"
SCANNED = "cecScannedRows"
KINDS = {
    "windowed_append": "near", "windowed_update": "near", "dedup": "near", "dedup_within": "far",
    "session": "near", "timeouts": "far",
}  # fmt: skip
LARGE = ("windowed_append", "windowed_update", "dedup", "dedup_within")
NEXMARK = ("q5", "q7", "q8")
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives a minute: half of it would go into compiling for later."""
_REMOVALS = "_removals_6m_vs_rocksdb"
RESTART_BATCHES = 2
"""Small batches of a query before it is started again."""


@dataclass(frozen=True)
class Life:
    """A query on a store, over a workload, from its start on a new checkpoint to its end."""

    store: str
    query: str
    workload: Workload
    name: str = ""
    """Tells one from another where there are several of the same."""

    @property
    def provider(self) -> str:
        return {ROCKSDB_4: ROCKSDB, UNTOLD: OURS}.get(self.store, self.store)

    @property
    def is_told(self) -> bool:
        return self.store != UNTOLD


@dataclass
class Bench:
    """Runs queries, each store's in turn, and keeps what they have measured."""

    asked: Options
    jar: str
    found: dict[Life, Outcome] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def measured(self) -> int:
        return self.asked.size(15, 2)

    @property
    def batches(self) -> int:
        return self.measured + self.asked.size(10, 2)

    @property
    def stores(self) -> tuple[str, ...]:
        return (OURS, ROCKSDB) if self.asked.quick else (OURS, ROCKSDB, HDFS)

    def size(self, query: str) -> int:
        """Return the rows of its state."""
        if query == "join":
            return self.asked.size(1_000_000, 60_000)
        return self.asked.size(6_000_000 if query in LARGE else 1_000_000, 20_000)

    def life(self, query: str, store: str, rows: int = 0) -> Life:
        kind = KINDS.get(query, query)
        return Life(store, query, Workload(kind, rows or self.size(query), self.batches))

    def case(self, life: Life) -> Case:
        """Return what a process runs; its input is written when it is first asked for."""
        inputs = self.asked.folder / "input" / life.workload.name
        if not inputs.exists():
            if life.workload.kind == "nexmark":
                nexmark_input.write(inputs, life.workload.batches, life.workload.rows)
            else:
                life.workload.write(inputs.parent)
        name = f"{life.query}-{life.workload.name}{life.name}"
        checkpoint = self.asked.folder / "checkpoints" / life.store / name
        settings = tuple(FORMAT_4.items()) if life.store == ROCKSDB_4 else ()
        return Case(life.query, inputs, checkpoint, life.workload.span_s, settings)

    def run(self, measured: Mapping[Life, int]) -> None:
        """Run each life, and print a line on as many of its last batches as are measured."""
        for life, outcome in self.outcomes(measured):
            self.found[life] = outcome
            print(line(life, outcome, measured[life]), flush=True)

    def outcomes(self, lives: Iterable[Life]) -> Iterator[tuple[Life, Outcome]]:
        """Run each in a JVM of its own; in a quick run those of a provider in one."""
        shares: dict[object, list[Life]] = {}
        for life in lives:
            shares.setdefault(
                (life.provider, life.is_told) if self.asked.quick else life, []
            ).append(life)
        for share in shares.values():
            provider = share[0].provider
            heap = "2g" if self.asked.quick else "9g" if provider == HDFS else "5g"
            task = Task(
                provider, tuple(map(self.case, share)), self.jar, heap, share[0].is_told,
                _QUICK_JAVA if self.asked.quick else "",
            )  # fmt: skip
            folder = self.asked.folder / "tasks" / f"{next(self._numbers)}"
            yield from zip(share, run(task, folder), strict=True)

    def batch_ms(self, life: Life) -> float:
        return batch_ms(last(self.found[life], self.measured))

    def task_ms(self, query: str, store: str, what: str) -> float:
        batches = last(self.found[self.life(query, store)], self.measured)
        return max(1.0, statistics.median(metric(batch, what) for batch in batches))

    def ratio(self, query: str, store: str) -> float:
        ours = self.batch_ms(self.life(query, OURS))
        return ours / self.batch_ms(self.life(query, store))

    def growth(self, query: str, rows: int, fewer: int) -> float:
        more = self.batch_ms(self.life(query, OURS, rows))
        return more / self.batch_ms(self.life(query, OURS, fewer))


@dataclass(frozen=True)
class Part:
    """The lives that a part needs, and its figures once they are through."""

    lives: Callable[[Bench], Iterable[Life]]
    figures: Callable[[Bench], dict[str, float]]
    measured: Callable[[Bench], int] = lambda bench: bench.measured
    """Number of the last batches of each life that the figures are of."""

    def measurements(self, bench: Bench) -> Iterator[tuple[Life, int]]:
        """Yield each life, and the number of its last batches that are measured."""
        return ((life, self.measured(bench)) for life in self.lives(bench))


def last(outcome: Outcome, number: int) -> list[dict[str, Any]]:
    """The batches that count: those at the end, behind the large ones and those that warm up."""
    return outcome.batches[-number:]


def batch_ms(batches: Iterable[dict[str, Any]]) -> float:
    return float(statistics.median(batch["durationMs"]["triggerExecution"] for batch in batches))


def line(life: Life, outcome: Outcome, number: int) -> str:
    batches = last(outcome, number)
    names = ("allUpdatesTimeMs", REMOVALS, "commitTimeMs", "numRowsRemoved", "numRowsTotal")
    of = {name: statistics.median(of_all(batch, name) for batch in batches) for name in names}
    scanned = [scanned_rows(batch) for batch in batches if is_told(batch)]
    return (
        f"{life.query:<16}{life.store:<20}{life.workload.rows:>10,}"
        f" batch{batch_ms(batches):>6.0f} ms; tasks:"
        f" updates{of['allUpdatesTimeMs']:>6.0f}, removals{of[REMOVALS]:>6.0f},"
        f" commit{of['commitTimeMs']:>5.0f}; removed{of['numRowsRemoved']:>7,.0f}"
        f" of{of['numRowsTotal']:>11,.0f}"
        + (f", scanned{statistics.median(scanned):>9,.0f}" if scanned else "")
        + f"; medians of {len(batches)}; load {os.getloadavg()[0]:.1f}"
    )


def of_all(batch: dict[str, Any], name: str) -> float:
    """Return the sum over all operators of the query."""
    return float(sum(one[name] for one in batch["stateOperators"]))


def is_told(batch: dict[str, Any]) -> bool:
    return SCANNED in batch["stateOperators"][0]["customMetrics"]


def scanned_rows(batch: dict[str, Any]) -> float:
    return float(sum(one["customMetrics"].get(SCANNED, 0) for one in batch["stateOperators"]))


def operator(query: str) -> Part:
    """Measure one operator on all stores, and on ours with a tenth of the rows as well."""
    is_large = query in LARGE
    size, tenth = ("6m", "600k") if is_large else ("1m", "100k")
    growth = "windowed_6m_vs_600k" if query == "windowed_append" else f"{query}_{size}_vs_{tenth}"

    def lives(bench: Bench) -> Iterator[Life]:
        yield bench.life(query, OURS, bench.size(query) // 10)
        yield from (bench.life(query, store) for store in bench.stores)

    def figures(bench: Bench) -> dict[str, float]:
        rows = bench.size(query)
        figures = {f"{query}_{size}_vs_rocksdb": bench.ratio(query, ROCKSDB)}
        if HDFS in bench.stores:
            figures[f"{query}_{size}_vs_hdfs"] = bench.ratio(query, HDFS)
        figures[growth] = bench.growth(query, rows, rows // 10)
        if is_large:
            ours, theirs = (bench.task_ms(query, store, REMOVALS) for store in (OURS, ROCKSDB))
            figures[f"{query}{_REMOVALS}"] = ours / theirs
        return figures

    return Part(lives, figures)


def join_lives(bench: Bench) -> Iterator[Life]:
    rows = bench.size("join")
    yield from (bench.life("join", OURS, size) for size in (rows // 5, 2 * rows))
    yield from (bench.life("join", store) for store in (*bench.stores, ROCKSDB_4, UNTOLD))


def join(bench: Bench) -> dict[str, float]:
    rows = bench.size("join")
    updates, before, removals, format_4 = (
        bench.task_ms("join", store, what)
        for what, store in (
            (UPDATES, OURS), (UPDATES, UNTOLD), (REMOVALS, OURS), (REMOVALS, ROCKSDB_4),
        )
    )  # fmt: skip
    return {
        "join_1m_vs_rocksdb_format4": bench.ratio("join", ROCKSDB_4),
        "join_1m_vs_rocksdb_format2": bench.ratio("join", ROCKSDB),
        "join_1m_vs_before": bench.ratio("join", UNTOLD),
        "join_updates_vs_before": updates / before,
        "join_removals_vs_rocksdb_format4": removals / format_4,
        "join_2m_vs_200k": bench.growth("join", 2 * rows, rows // 5),
    }


def restarted(bench: Bench) -> list[Life]:
    """Queries of which each is started again in a new JVM, and goes on with one batch more."""
    workload = Workload("near", bench.size("windowed_append"), RESTART_BATCHES)
    return [Life(OURS, query, workload) for query in ("windowed_append", "counted")]


def restart(bench: Bench) -> dict[str, float]:
    lives = restarted(bench)
    lives[0].workload.write_again(bench.asked.folder / "input")
    seconds = {life.query: outcome.first_batch_s for life, outcome in bench.outcomes(lives)}
    print(f"started again, with {lives[0].workload.rows:,} rows: {seconds} s to its first batch")
    return {
        "restart_vs_no_watermark": seconds["windowed_append"] / seconds["counted"],
        "restart_first_batch_s": seconds["windowed_append"],
    }


def no_watermark_lives(bench: Bench) -> Iterator[Life]:
    """Take turns, each first as often as the other: milliseconds of a batch are compared."""
    batches = bench.asked.size(60, 8)
    workload = Workload("near", bench.size("counted"), batches)
    for turn in range(bench.asked.size(4, 1)):
        for store in (OURS, UNTOLD) if turn % 2 == 0 else (UNTOLD, OURS):
            yield Life(store, "counted", workload, f"-{turn}")


def no_watermark_measured(bench: Bench) -> int:
    return bench.asked.size(40, 5)


def no_watermark(bench: Bench) -> dict[str, float]:
    lives, measured = list(no_watermark_lives(bench)), no_watermark_measured(bench)

    def batches(store: str) -> list[dict[str, Any]]:
        turns = [last(bench.found[life], measured) for life in lives if life.store == store]
        return [batch for turn in turns for batch in turn]

    def state_bytes(store: str) -> float:
        return float(statistics.median(of_all(one, "memoryUsedBytes") for one in batches(store)))

    return {
        "no_watermark_vs_before": batch_ms(batches(OURS)) / batch_ms(batches(UNTOLD)),
        "no_watermark_bytes_vs_before": state_bytes(OURS) / state_bytes(UNTOLD),
    }


def mixed(bench: Bench) -> Life:
    rows, batches = bench.asked.size(600_000, 20_000), bench.asked.size(1000, 12)
    return Life(OURS, "dedup", Workload("mixed", rows, batches))


def scanned(bench: Bench) -> dict[str, float]:
    life, hundred = mixed(bench), bench.asked.size(100, 5)
    told = last(bench.found[life], life.workload.batches)

    def per_expired(some: Sequence[dict[str, Any]]) -> float:
        return sum(map(scanned_rows, some)) / sum(of_all(one, "numRowsRemoved") for one in some)

    # The first batch after the state has come finds it as it was loaded.
    return {
        "scanned_rows_per_expired": per_expired(told[1:]),
        "scanned_rows_flat": per_expired(told[-hundred:]) / per_expired(told[1 : hundred + 1]),
    }


def nexmark_life(bench: Bench, query: str, store: str) -> Life:
    events_per_s = bench.asked.size(nexmark_input.EVENTS_PER_S, 1_000)
    return Life(store, query, Workload("nexmark", events_per_s, bench.batches))


def nexmark_lives(bench: Bench) -> Iterator[Life]:
    for store in bench.stores:
        yield from (nexmark_life(bench, query, store) for query in NEXMARK)


def nexmark(bench: Bench) -> dict[str, float]:
    figures = {}
    for query in NEXMARK:
        ours, *others = (bench.batch_ms(nexmark_life(bench, query, one)) for one in bench.stores)
        for name, other in zip(("rocksdb", "hdfs"), others, strict=False):
            figures[f"nexmark_{query}_vs_{name}"] = ours / other
    return figures


PARTS = {
    **{query: operator(query) for query in KINDS},
    "join": Part(join_lives, join),
    "restart": Part(restarted, restart, lambda bench: RESTART_BATCHES),
    "scanned": Part(
        lambda bench: [mixed(bench)], scanned, lambda bench: mixed(bench).workload.batches
    ),
    "no_watermark": Part(no_watermark_lives, no_watermark, no_watermark_measured),
    "nexmark": Part(nexmark_lives, nexmark),
}


def main(asked: Options) -> None:
    made = compiler.jar(sources=SOURCES, carried=SOURCES / "never")
    # Under a name of its own: `configure` takes it for an older provider otherwise.
    jar = str(publish(made.parent / "cec-store-bench-watermarks.jar", made.read_bytes()))
    bench = Bench(asked, jar)
    parts = [PARTS[name] for name in asked.parts]
    figures: dict[str, float] = {}
    for some in [parts] if asked.quick else [[part] for part in parts]:
        bench.run({life: number for part in some for life, number in part.measurements(bench)})
        for part in some:
            figures |= part.figures(bench)
    if removals := [figures[name] for name in figures if name.endswith(_REMOVALS)]:
        figures["removals_6m_vs_rocksdb"] = max(removals)
    left_out = [] if HDFS in bench.stores else [HDFS]
    if left_out := [*left_out, *(name for name in PARTS if name not in asked.parts)]:
        print(f"left out: {', '.join(left_out)}")
    report(figures)


if __name__ == "__main__":
    with options(
        __doc__, ONE_TURN, "under five minutes", tuple(PARTS), long_parts=("nexmark",)
    ) as asked:
        main(asked)
