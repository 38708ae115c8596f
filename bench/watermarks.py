"""Queries with a watermark: a batch of 1,000 rows over 6,000,000 in state, of which 350 expire.

Ours, RocksDB with changelog and the HDFS-backed store, 2 partitions on 2 cores, noop sink. The
state comes in a few large batches, its times in no order; 10 batches follow for the JVM to compile,
and then the 15 that count: figures are medians of these. Each query runs in a JVM of its own. In
the quick run, which leaves the HDFS-backed store and NEXMark out, all queries of a store share one.
Sessions and groups that time out have 1,000,000 rows.

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
                         store is told nothing: ours over ours without the extension, turn by turn,
                         the best median of each; `no_watermark_bytes_vs_before` the memory that
                         its state takes
nexmark_...              NEXMark's queries 5, 7 and 8, 50,000 events a batch
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import nexmark_input
from rounds import Options, options, report
from spark_worker import OURS, metric
from watermarks_input import Workload
from watermarks_worker import FORMAT_4, Case, Outcome, Task, run

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import publish

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
PARTS = (*KINDS, "join", "restart", "scanned", "no_watermark", "nexmark")


@dataclass
class Bench:
    """Runs cases, each store's in turn, and keeps what they have measured."""

    asked: Options
    jar: str
    found: dict[tuple[str, str, int], Outcome] = field(default_factory=dict)
    """By query, store and rows of state."""
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def measured(self) -> int:
        return self.asked.size(15, 5)

    @property
    def batches(self) -> int:
        return self.measured + self.asked.size(10, 2)

    def size(self, query: str) -> int:
        if query == "join":
            return self.asked.size(1_000_000, 100_000)
        return self.asked.size(6_000_000 if query in LARGE else 1_000_000, 100_000)

    def stores(self) -> tuple[str, ...]:
        return (OURS, ROCKSDB) if self.asked.quick else (OURS, ROCKSDB, HDFS)

    def workload(self, kind: str, rows: int, batches: int = 0) -> Workload:
        """Its files are written when it is first asked for."""
        workload = Workload(kind, rows, batches or self.batches)
        if not (self.asked.folder / "input" / workload.name).exists():
            workload.write(self.asked.folder / "input")
        return workload

    def case(self, query: str, store: str, workload: Workload) -> Case:
        inputs = self.asked.folder / "input" / workload.name
        checkpoint = self.asked.folder / "checkpoints" / store / f"{query}-{workload.rows}"
        return Case(query, inputs, checkpoint, workload.span_s)

    def run(self, store: str, cases: Sequence[tuple[Case, int]]) -> None:
        """Cases with the rows of their state, in one JVM where it is to be quick."""
        settings = tuple(FORMAT_4.items()) if store == ROCKSDB_4 else ()
        provider = {ROCKSDB_4: ROCKSDB, UNTOLD: OURS}.get(store, store)
        heap = "2g" if self.asked.quick else "9g" if store == HDFS else "5g"
        for share in [list(cases)] if self.asked.quick else [[one] for one in cases]:
            cases_of_share = tuple(case for case, _ in share)
            task = Task(provider, cases_of_share, self.jar, heap, settings, store != UNTOLD)
            folder = self.asked.folder / "tasks" / f"{next(self._numbers)}"
            for (case, rows), outcome in zip(share, run(task, folder), strict=True):
                self.found[case.query, store, rows] = outcome
                print(line(store, rows, outcome, self.measured), flush=True)

    def batch_ms(self, query: str, store: str, rows: int) -> float:
        return batch_ms(last(self.found[query, store, rows], self.measured))

    def task_ms(self, query: str, store: str, what: str) -> float:
        batches = last(self.found[query, store, self.size(query)], self.measured)
        return statistics.median(metric(batch, what) for batch in batches)

    def ratio(self, query: str, store: str, rows: int = 0) -> float:
        rows = rows or self.size(query)
        return self.batch_ms(query, OURS, rows) / self.batch_ms(query, store, rows)

    def growth(self, query: str, rows: int) -> float:
        return self.batch_ms(query, OURS, rows) / self.batch_ms(query, OURS, rows // 10)


def last(outcome: Outcome, number: int) -> list[dict[str, Any]]:
    """The batches that count: those at the end, behind the large ones and those that warm up."""
    return outcome.batches[-number:]


def batch_ms(batches: Iterable[dict[str, Any]]) -> float:
    return statistics.median(batch["durationMs"]["triggerExecution"] for batch in batches)


def line(store: str, rows: int, outcome: Outcome, number: int) -> str:
    batches = last(outcome, number)
    names = ("allUpdatesTimeMs", REMOVALS, "commitTimeMs", "numRowsRemoved", "numRowsTotal")
    of = {name: statistics.median(of_all(batch, name) for batch in batches) for name in names}
    scanned = [scanned_rows(batch) for batch in batches if is_told(batch)]
    return (
        f"{outcome.query:<16}{store:<20}{rows:>10,} batch{batch_ms(batches):>6.0f} ms; tasks:"
        f" updates{of['allUpdatesTimeMs']:>6.0f}, removals{of[REMOVALS]:>6.0f},"
        f" commit{of['commitTimeMs']:>5.0f}; removed{of['numRowsRemoved']:>7,.0f}"
        f" of{of['numRowsTotal']:>11,.0f}"
        + (f", scanned{statistics.median(scanned):>9,.0f}" if scanned else "")
    )


def of_all(batch: dict[str, Any], name: str) -> float:
    """Return the sum over all operators of the query."""
    return float(sum(one[name] for one in batch["stateOperators"]))


def is_told(batch: dict[str, Any]) -> bool:
    return SCANNED in batch["stateOperators"][0]["customMetrics"]


def scanned_rows(batch: dict[str, Any]) -> float:
    return float(sum(one["customMetrics"].get(SCANNED, 0) for one in batch["stateOperators"]))


def operators(bench: Bench, names: Sequence[str]) -> dict[str, float]:
    for store in bench.stores():
        cases = []
        for query in names:
            rows = bench.size(query)
            for size in (rows // 10, rows) if store == OURS else (rows,):
                workload = bench.workload(KINDS[query], size)
                cases.append((bench.case(query, store, workload), size))
        bench.run(store, cases)
    figures = {}
    for query in names:
        size = "6m" if query in LARGE else "1m"
        figures[f"{query}_{size}_vs_rocksdb"] = bench.ratio(query, ROCKSDB)
        if not bench.asked.quick:
            figures[f"{query}_{size}_vs_hdfs"] = bench.ratio(query, HDFS)
        growth = "windowed_6m_vs_600k" if query == "windowed_append" else (
            f"{query}_{size}_vs_{'600k' if query in LARGE else '100k'}"
        )  # fmt: skip
        figures[growth] = bench.growth(query, bench.size(query))
    large = [query for query in names if query in LARGE]
    if large:
        figures["removals_6m_vs_rocksdb"] = max(
            bench.task_ms(query, OURS, REMOVALS) / max(1.0, bench.task_ms(query, ROCKSDB, REMOVALS))
            for query in large
        )
    return figures


def join(bench: Bench) -> dict[str, float]:
    rows = bench.size("join")
    for store in (*bench.stores(), ROCKSDB_4, UNTOLD):
        sizes = (rows // 5, 2 * rows, rows) if store == OURS else (rows,)
        bench.run(
            store,
            [(bench.case("join", store, bench.workload("join", size)), size) for size in sizes],
        )
    ours = {size: bench.batch_ms("join", OURS, size) for size in (rows // 5, 2 * rows)}
    return {
        "join_1m_vs_rocksdb_format4": bench.ratio("join", ROCKSDB_4, rows),
        "join_1m_vs_rocksdb_format2": bench.ratio("join", ROCKSDB, rows),
        "join_1m_vs_before": bench.ratio("join", UNTOLD, rows),
        "join_updates_vs_before": bench.task_ms("join", OURS, UPDATES)
        / bench.task_ms("join", UNTOLD, UPDATES),
        "join_removals_vs_rocksdb_format4": bench.task_ms("join", OURS, REMOVALS)
        / bench.task_ms("join", ROCKSDB_4, REMOVALS),
        "join_2m_vs_200k": ours[2 * rows] / ours[rows // 5],
    }


def restart(bench: Bench) -> dict[str, float]:
    """Load the state, start the query again in a new JVM, and let it go on with one batch more."""
    rows = bench.size("windowed_append")
    workload = bench.workload("near", rows, batches=2)
    folder = bench.asked.folder / "restarted"
    heap = "2g" if bench.asked.quick else "5g"
    inputs = bench.asked.folder / "input" / workload.name
    cases = [
        Case(query, inputs, folder / query, workload.span_s)
        for query in ("windowed_append", "counted")
    ]

    def lives(some: Sequence[Case], name: str) -> list[Outcome]:
        return run(Task(OURS, tuple(some), bench.jar, heap), folder / f"{some[0].query}-{name}")

    for share in [cases] if bench.asked.quick else [[case] for case in cases]:
        lives(share, "first")
    workload.write_again(bench.asked.folder / "input")
    seconds = {case.query: lives([case], "again")[0].first_batch_s for case in cases}
    print(f"started again, with {rows:,} rows: {seconds} s to the end of the first batch")
    return {
        "restart_vs_no_watermark": seconds["windowed_append"] / seconds["counted"],
        "restart_first_batch_s": seconds["windowed_append"],
    }


def no_watermark(bench: Bench) -> dict[str, float]:
    """Take turns, each in a JVM of its own: what is compared is a few milliseconds of a batch."""
    rows, measured = bench.size("counted"), bench.asked.size(40, 10)
    workload = bench.workload("near", rows, batches=measured + bench.asked.size(20, 5))
    inputs = bench.asked.folder / "input" / workload.name
    batches_ms: dict[str, list[float]] = {OURS: [], UNTOLD: []}
    state_bytes: dict[str, list[float]] = {OURS: [], UNTOLD: []}
    for turn in range(bench.asked.size(3, 1)):
        for store in (OURS, UNTOLD) if turn % 2 == 0 else (UNTOLD, OURS):
            folder = bench.asked.folder / "no_watermark" / f"{store}-{turn}"
            case = Case("counted", inputs, folder / "checkpoint")
            task = Task(OURS, (case,), bench.jar, "2g", is_told=store == OURS)
            [outcome] = run(task, folder)
            print(line(store, rows, outcome, measured), flush=True)
            batches = last(outcome, measured)
            batches_ms[store].append(batch_ms(batches))
            state_bytes[store].append(of_all(batches[-1], "memoryUsedBytes"))
    return {
        "no_watermark_vs_before": min(batches_ms[OURS]) / min(batches_ms[UNTOLD]),
        "no_watermark_bytes_vs_before": min(state_bytes[OURS]) / min(state_bytes[UNTOLD]),
    }


def scanned(bench: Bench) -> dict[str, float]:
    batches, hundred = bench.asked.size(1000, 60), bench.asked.size(100, 20)
    workload = bench.workload("mixed", bench.asked.size(600_000, 60_000), batches)
    bench.run(OURS, [(bench.case("dedup", OURS, workload), workload.rows)])
    told = bench.found["dedup", OURS, workload.rows].batches[-batches:]
    if not is_told(told[0]):
        return {}  # the provider is older than the metric

    def per_expired(some: Sequence[dict[str, Any]]) -> float:
        return sum(map(scanned_rows, some)) / sum(of_all(one, "numRowsRemoved") for one in some)

    # The first batch after the state has come finds it as it was loaded.
    return {
        "scanned_rows_per_expired": per_expired(told[1:]),
        "scanned_rows_flat": per_expired(told[-hundred:]) / per_expired(told[1 : hundred + 1]),
    }


def nexmark(bench: Bench) -> dict[str, float]:
    folder = bench.asked.folder / "input" / "nexmark"
    events_per_s = bench.asked.size(nexmark_input.EVENTS_PER_S, 1_000)
    events = nexmark_input.write(folder, bench.batches, events_per_s)
    for store in bench.stores():
        place = bench.asked.folder / "checkpoints" / store
        bench.run(store, [(Case(name, folder, place / name), events) for name in NEXMARK])
    return {
        f"nexmark_{name}_vs_{named}": bench.ratio(name, store, events)
        for name in NEXMARK
        for store, named in zip(bench.stores()[1:], ("rocksdb", "hdfs"), strict=False)
    }


def main(asked: Options) -> None:
    made = compiler.jar(sources=SOURCES, carried=SOURCES / "never")
    # Under a name of its own: `configure` takes it for an older provider otherwise.
    jar = str(publish(made.parent / "cec-store-bench-watermarks.jar", made.read_bytes()))
    bench = Bench(asked, jar)
    figures: dict[str, float] = {}
    if names := [part for part in asked.parts if part in KINDS]:
        figures |= operators(bench, names)
    for part, measure in (
        ("join", join), ("restart", restart), ("scanned", scanned),
        ("no_watermark", no_watermark), ("nexmark", nexmark),
    ):  # fmt: skip
        if part in asked.parts:
            figures |= measure(bench)
    report(figures)


if __name__ == "__main__":
    with options(__doc__, (1, 1), "under five minutes", PARTS, long_parts=("nexmark",)) as asked:
        main(asked)
