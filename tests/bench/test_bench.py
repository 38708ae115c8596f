"""The benchmarks run, and end with the figures under their names. Nothing is timed here."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.harness import bids
from bench.harness.rounds import Options
from bench.harness.targets import Target
from bench.micro import burst
from bench.spark import input as spark_input
from bench.spark import nexmark_input, replicas, replicas_worker, watermarks_input
from support.paths import BENCH
from support.stores.needed import need

FIGURES = {
    "micro/append.py": {"append_vs_ipc", "append_vs_sqlite"},
    "micro/columns.py": {"two_of_ten_read_ratio", "bytes_vs_body", "write_ratio"},
    "micro/scan.py": {"scan_vs_parquet_polars", "scan_vs_parquet_duckdb_two_of_ten"},
    "micro/burst.py": {"burst_windows", "burst_rss_gb", "burst_lost", "burst_pause_s"},
    "micro/one_log.py": {
        "group_commit_us_plain",
        "ack_us_one",
        "reader_poll_us_plain",
        "create_ms_one",
        "reopen_ms_plain",
        "s3_puts_per_group_one",
        "commit_bytes_plain",
        "open_requests_1m_commits",
    },
    "micro/rebuild.py": {"rebuild_vs_reference", "rebuild_vs_read"},
    "micro/opening.py": {"open_reads_per_gb", "follow_vs_frames", "help_cpu_ms"},
    "papers/availability.py": {
        "table6_max_deviation",
        "table7_max_deviation",
        "table8_max_deviation",
    },
    "papers/migration.py": {"correlated_vs_even", "correlated_vs_even_two_operators"},
    "micro/recovery_plans.py": {"plan_ms_1000_queries", "bestdensity_vs_optimum"},
    "micro/standby.py": {
        "passive_takeover_vs_cold",
        "active_gap_ms_vs_detection",
        "passive_overhead",
        "smallframes_vs_one",
    },
    "micro/overhead.py": {"throughput_kept_open_only", "throughput_kept_q2", "records_per_s_core"},
}


@pytest.mark.parametrize("script", FIGURES)
def test_ends_with_its_figures(script: str, tmp_path: Path) -> None:
    if script.startswith("papers/"):
        pytest.importorskip("matplotlib")
    if script == "micro/scan.py":
        pytest.importorskip("duckdb")
        pytest.importorskip("polars")
    if script == "micro/one_log.py":
        need("s3fs", "moto.server")
    if script in ("papers/migration.py", "micro/recovery_plans.py"):
        pytest.importorskip("scipy")
    tiny = ["--quick", "--rounds", "1", "--scale", "0.02", "--dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(BENCH / script), *tiny],
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert lines, "nothing for people to read"
    figures = json.loads(last)
    assert figures.keys() >= FIGURES[script]
    assert figures.pop("burst_lost", 0) == 0
    figures.pop("passive_overhead", 0)  # a difference: of nothing either sign
    assert all(isinstance(value, (int, float)) and value > 0 for value in figures.values())
    assert list(tmp_path.iterdir()) == [], "it leaves files behind"


@pytest.mark.parametrize(("count", "first"), [(20, 5), (10, 5), (8, 4), (5, 2), (1, 0)])
def test_some_batches_are_left_where_there_are_few(count: int, first: int) -> None:
    pytest.importorskip("pyspark")
    from bench.spark.large_state import Lives
    from bench.spark.providers import Measured
    from bench.spark.worker import Outcome, warm

    assert list(warm(range(count))) == list(range(first, count))
    batches = [{"durationMs": {"triggerExecution": ms}} for ms in range(count)]
    outcome = Outcome(1.0, {"few": batches}, {}, {}, {}, {})
    assert Measured([outcome]).slowest("few") == count - 1
    assert Lives(outcome, outcome).batch_ms == np.median(range(first, count))


def test_another_checkouts_script_measures_the_same_disk_and_size(tmp_path: Path) -> None:
    need("s3fs", "moto.server")
    from bench.micro import one_log

    script = tmp_path / "bench" / "micro" / "one_log.py"
    script.parent.mkdir(parents=True)
    script.write_text("import json, sys; print(json.dumps({'arguments': sys.argv[1:]}))")
    asked = Options(True, 1, 0.5, tmp_path / "disk", before=tmp_path)
    assert one_log.measured_there(asked) == {
        "arguments": ["--scale", "0.5", "--dir", str(tmp_path / "disk"), "--quick"]
    }


@pytest.mark.parametrize(
    ("killed_s", "noticed_s", "within_ms"),
    [(8, 9, 0), (8, 11, 1_000), (11, 11.5, 500), (12, 15, 1_000), (14, 15, 0)],
)
def test_only_time_within_a_batch_is_taken_off_it(
    killed_s: float, noticed_s: float, within_ms: float
) -> None:
    progress = {"timestamp": "1970-01-01T00:00:10.000Z", "durationMs": {"triggerExecution": 3_000}}
    assert replicas_worker.overlap_ms(progress, killed_s, noticed_s) == within_ms


class Watched:
    """An application whose next batch runs from the third look on, in which Spark misses a kill."""

    def __init__(self) -> None:
        self.task = self.cluster = self
        self.after = 5
        self.looks = self.asked = 0
        self.killed: list[bool] = []
        """True of each kill that is in a batch."""
        self.is_missed = False

    def last(self) -> int:
        self.asked += 1
        return min(self.asked, 2)

    def is_in_batch(self) -> bool:
        self.looks += 1
        return self.looks >= 3

    def registered(self) -> int:
        if self.killed and not self.is_missed:
            self.is_missed = True
            return 3
        return 4

    def executors(self) -> list[str]:
        return ["0"]

    def kill_executor(self, victim: str) -> None:
        self.killed.append(self.looks >= 3)

    def await_batches(self, count: int) -> list[dict[str, Any]]:
        return self.batches()

    def batches(self) -> list[dict[str, Any]]:
        return [
            {"batchId": batch, "timestamp": "1970-01-01T00:00:10Z", "stateOperators": [],
             "durationMs": {"triggerExecution": 9_000 - 1_000 * batch}} for batch in range(6)
        ]  # fmt: skip


@pytest.mark.parametrize("moment", [replicas_worker.BEGIN, replicas_worker.MIDDLE])
def test_an_executor_is_killed_within_a_batch(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    application, outcome = Watched(), replicas_worker.Outcome(batch_ms=[1.0])
    replicas_worker.kill(application, outcome, moment, Random(1))
    assert application.killed == [True]
    assert outcome.after_kill_ms == [6_000]


def test_peak_memory_is_in_gb_of_a_thousand_million_bytes() -> None:
    # Linux gives KiB.
    assert burst.peak_gb(5_000_000) == 5.12


def test_spark_workload_is_as_asked_for() -> None:
    """The Spark benchmark itself takes minutes: only its input and its arithmetic are run here."""
    load = spark_input.Phase("load", 0, keys=1000)
    few = spark_input.Phase("few", 1, keys=1000, batches=3, rows=100)
    (loaded, _), *rest = load.updates()
    assert sorted(loaded) == list(range(1000))
    assert rest == []
    assert [len(keys) for keys, _ in few.updates()] == [100, 100, 100]
    assert [list(keys) for keys, _ in few.updates()] == [list(keys) for keys, _ in few.updates()]
    # A key below 1,000, a count and a sum: some 25 random bits in 42 bytes as they are stored.
    assert 100 * 3 < spark_input.updates_alone_bytes((load, few), 2) < 100 * 42 / 2


def test_spark_input_shows_whole_phases(tmp_path: Path) -> None:
    phase = spark_input.Phase("few", 1, keys=1000, batches=3, rows=100)
    phase.write(tmp_path / "phases")
    for _ in range(2):
        spark_input.show(tmp_path / "phases" / "few", tmp_path / "stream")
    files = sorted((tmp_path / "stream").glob("*/*.parquet"))
    assert len(files) == 3 * spark_input.FILES_PER_BATCH
    times = [file.stat().st_mtime for file in files]
    assert times == sorted(set(times)), "the source orders by time: it must differ"


@pytest.mark.parametrize(("kind", "delays"), [("near", 1), ("far", 2), ("mixed", 1), ("join", 1)])
def test_as_much_state_expires_in_each_batch(kind: str, delays: int, tmp_path: Path) -> None:
    """The benchmark of watermarks takes half an hour: here its input is run by hand."""
    rows = 60_000 if kind == "join" else 20_000
    workload = watermarks_input.Workload(kind, rows, batches=4)
    workload.write(tmp_path)
    side = tmp_path / workload.name / ("left" if kind == "join" else "")
    load, *batches = (
        pq.read_table(file).column("ts").cast(pa.int64()).to_numpy() / 1e6
        for file in sorted(side.glob("*.parquet"))
    )
    assert len(load) == (rows // 2 if kind == "join" else rows)
    assert len(batches) == 4
    # What a watermark that is a span behind the newest row has let go of after each batch.
    ends = [batch.max() - delays * workload.span_s for batch in batches]
    gone = np.diff([(load <= end).sum() for end in ends])
    due = {"join": 5_000, "mixed": 1_000}.get(kind, 350)
    assert all(0.8 * due < count < 1.2 * due for count in gone)
    assert (load > ends[-1]).sum() >= rows // 6
    if kind == "mixed":
        # Rows that come are as old as those that are there, but none is late.
        assert min(batch.min() for batch in batches) < batches[0].max() - 0.9 * workload.span_s
        assert all(batch.min() > end for batch, end in zip(batches[1:], ends[:-1], strict=True))


@pytest.mark.parametrize(
    ("part", "measured"), [("windowed_append", 15), ("restart", 2), ("no_watermark", 40)]
)
def test_a_line_shows_the_batches_that_a_figure_is_of(
    part: str, measured: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    from bench.spark import watermarks

    names = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs", "numRowsRemoved",
             "numRowsTotal")  # fmt: skip
    operators = [{**dict.fromkeys(names, 0), "customMetrics": {}}]

    def outcomes(self: object, lives: Iterable[watermarks.Life]) -> Iterator[tuple[Any, Any]]:
        for life in lives:
            load, small = [9_000] * 10, range(life.workload.batches)
            batches = [
                {"durationMs": {"triggerExecution": ms}, "stateOperators": operators}
                for ms in (*load, *small)
            ]
            yield life, watermarks.Outcome(life.query, 1.0, batches)

    monkeypatch.setattr(watermarks.Bench, "outcomes", outcomes)
    bench = watermarks.Bench(Options(False, 1, 1.0, Path()), "jar")
    shown = watermarks.PARTS[part]
    bench.run(dict(shown.measurements(bench)))
    lines = capsys.readouterr().out.splitlines()
    batches = next(iter(shown.lives(bench))).workload.batches
    median_ms = np.median(range(batches - measured, batches))
    assert all(f" batch{median_ms:>6.0f} ms;" in line for line in lines)
    assert all(f"; medians of {measured};" in line for line in lines)


def test_each_store_has_its_turn_first_as_often_as_the_other() -> None:
    pytest.importorskip("pyspark")
    from bench.spark import watermarks

    bench = watermarks.Bench(Options(False, 1, 1.0, Path()), "jar")
    stores = [life.store for life in watermarks.no_watermark_lives(bench)]
    firsts = stores[::2]
    assert firsts.count(watermarks.OURS) == firsts.count(watermarks.UNTOLD) == 2


def test_an_executor_that_never_gets_its_share_misses_the_target() -> None:
    target = Target("spark/replicas.py", "scale_out_batches", "at most 10")
    assert target.met_by(replicas.scale_out_batches([0, 0, 1], 1))
    assert replicas.scale_out_batches([0, 0, 1], 1) == 3
    assert not target.met_by(replicas.scale_out_batches([0] * 10, 1))
    assert not target.met_by(replicas.scale_out_batches([], 1))


def test_nexmark_events_are_of_their_kinds(tmp_path: Path) -> None:
    assert nexmark_input.write(tmp_path, batches=2, events_per_s=100) == 500
    tables = {kind: pq.read_table(tmp_path / kind) for kind in nexmark_input.SCHEMAS}
    assert {kind: len(table) for kind, table in tables.items()} == {
        "persons": 20, "auctions": 60, "bids": 920,
    }  # fmt: skip
    assert sorted(tables["auctions"]["id"].to_pylist()) == list(range(1, 61))
    assert set(tables["bids"]["auction"].to_pylist()) <= set(range(61))
    assert len(set(tables["persons"]["time"].to_pylist())) == 20


def test_bids_are_seeded_and_of_the_size_asked_for() -> None:
    table = bids.bids(1000, 10, seed=3, tuple_bytes=100)
    assert table.equals(bids.bids(1000, 10, seed=3, tuple_bytes=100))
    assert not table.equals(bids.bids(1000, 10, seed=4, tuple_bytes=100))
    numbers = sum(table.schema.field(name).type.bit_width // 8 for name in table.schema.names[:3])
    assert {numbers + len(url) for url in table["url"].to_pylist()} == {100}


def test_source_reads_the_same_from_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bids, "BATCH_ROWS", 100)
    source = bids.BidSource(bids.bids(250, 10), 1000)
    whole = [offset for batch in source.read(0) for offset in batch.offsets.tolist()]
    assert whole == list(range(1000))
    times = [time for batch in source.read(0) for time in batch.timestamps_us.tolist()]
    assert times == sorted(times)
    later = [time for batch in source.read(250, 650) for time in batch.timestamps_us.tolist()]
    assert later == times[250:650]


def test_jvms_of_a_benchmark_find_the_tests_modules_by_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    from support.spark import archive

    monkeypatch.delenv("PYTHONPATH", raising=False)
    alone = [sys.executable, "-c", "import support.spark.archive"]
    assert subprocess.run(alone, cwd=tmp_path, capture_output=True).returncode
    subprocess.run(alone, cwd=tmp_path, env=archive.variables(), check=True)
