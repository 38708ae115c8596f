"""Run every benchmark at full size and write RESULTS.md: `make bench`.

With `--only` the results of the other scripts stay; each says when and at which commit it was run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from machine import describe
from rounds import WORK

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Target:
    """Target of a figure; without bounds it is for information."""

    script: str
    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, value: float) -> bool:
        is_low = self.at_least is not None and value < self.at_least
        is_high = self.at_most is not None and value > self.at_most
        return not is_low and not is_high

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "report" if self.at_most is None else f"at most {self.at_most:g}"


TARGETS = (
    Target("append.py", "append_vs_ipc", at_least=0.8),
    Target("append.py", "append_vs_sqlite", at_least=3),
    Target("rebuild.py", "rebuild_vs_reference", at_least=5),
    Target("rebuild.py", "rebuild_vs_read", at_most=3),
    Target("seek.py", "seek_vs_scan", at_least=20),
    Target("seek.py", "seek_vs_scan_100k", at_least=200),
    Target("columns.py", "two_of_ten_read_ratio", at_most=0.35),
    Target("columns.py", "bytes_vs_body", at_most=0.8),
    Target("columns.py", "write_ratio", at_most=1.1),
    Target("columns.py", "bytes_vs_parquet_zstd", at_most=1.1),
    Target("columns.py", "write_vs_parquet_zstd", at_least=1),
    Target("columns.py", "read_ratio", at_most=1.1),
    Target("columns.py", "read_vs_parquet_zstd", at_least=1),
    Target("columns.py", "read_two_vs_parquet_zstd", at_least=0.8),
    Target("scan.py", "scan_vs_parquet_polars"),
    Target("scan.py", "scan_vs_parquet_polars_two_of_ten"),
    Target("scan.py", "scan_vs_parquet_duckdb"),
    Target("scan.py", "scan_vs_parquet_duckdb_two_of_ten"),
    Target("scan.py", "partitions_vs_parquet_polars"),
    Target("scan.py", "partitions_vs_parquet_polars_two_of_ten"),
    Target("burst.py", "burst_windows", at_least=10_000_000),
    Target("burst.py", "burst_rss_gb", at_most=6),
    Target("burst.py", "burst_lost", at_most=0),
    Target("burst.py", "burst_pause_s"),
    Target("burst.py", "burst_open_again_s"),
    Target("opening.py", "open_reads_per_gb", at_most=1),
    Target("opening.py", "follow_vs_frames", at_most=1.1),
    Target("opening.py", "load_small_commits_ratio", at_most=3),
    Target("opening.py", "help_cpu_ms", at_most=300),
    Target("one_log.py", "group_commit_us_plain"),
    Target("one_log.py", "group_commit_us_one"),
    Target("one_log.py", "ack_us_plain"),
    Target("one_log.py", "ack_us_one"),
    Target("one_log.py", "reader_poll_us_plain"),
    Target("one_log.py", "reader_poll_us_one"),
    Target("one_log.py", "create_ms_plain"),
    Target("one_log.py", "create_ms_one"),
    Target("one_log.py", "reopen_ms_plain"),
    Target("one_log.py", "reopen_ms_one"),
    Target("one_log.py", "s3_puts_per_group_plain"),
    Target("one_log.py", "s3_puts_per_group_one"),
    Target("one_log.py", "commit_bytes_plain"),
    Target("one_log.py", "commit_bytes_one"),
    Target("one_log.py", "open_requests_1m_commits", at_most=8),
    Target("overhead.py", "throughput_kept_open_only", at_least=0.95),
    Target("overhead.py", "throughput_kept_q2", at_least=0.85),
    Target("overhead.py", "records_per_s_core"),
    Target("overhead.py", "rss_mb"),
    Target("paper_cec.py", "load_180k_vs_reference", at_least=5),
    Target("paper_cec.py", "overhead_q2", at_most=0.10),
    Target("paper_cec.py", "pause_max_vs_crb", at_most=0.05),
    Target("paper_cec.py", "extent_within_q", at_least=1.0),
    Target("paper_availability.py", "table6_max_deviation", at_most=0.15),
    Target("paper_availability.py", "table6_max_deviation_but_one_cell", at_most=0.15),
    Target("paper_availability.py", "table7_max_deviation", at_most=0.15),
    Target("paper_availability.py", "table8_max_deviation", at_most=0.15),
    Target("paper_availability.py", "figure7_upstream_5_deviation"),
    Target("paper_migration.py", "correlated_vs_even", at_least=2),
    Target("paper_migration.py", "correlated_vs_even_assisted"),
    Target("paper_migration.py", "correlated_vs_even_two_operators", at_least=2),
    Target("paper_migration.py", "usable_correlated"),
    Target("paper_migration.py", "usable_even"),
    Target("paper_migration.py", "latency_vs_direct"),
    Target("paper_migration.py", "algorithm_3_vs_optimum"),
    Target("recovery_plans.py", "plan_ms_1000_queries", at_most=1000),
    Target("recovery_plans.py", "bestdensity_vs_optimum", at_least=0.95),
    Target("recovery_plans.py", "greedy_vs_optimum"),
    Target("recovery_plans.py", "operator_centric_vs_optimum"),
    Target("standby.py", "passive_takeover_vs_cold", at_most=0.2),
    Target("standby.py", "passive_takeover_vs_cold_log_only"),
    Target("standby.py", "active_gap_ms_vs_detection", at_most=1.2),
    Target("standby.py", "passive_overhead", at_most=0.03),
    Target("standby.py", "smallframes_vs_one", at_most=2),
    Target("spark_providers.py", "batch_p50_vs_best", at_most=0.6),
    Target("spark_providers.py", "state_p50_vs_best", at_most=0.7),
    Target("spark_providers.py", "commit_p50_vs_changelog_10k", at_most=0.3),
    Target("spark_providers.py", "commit_p50_vs_changelog_100k", at_most=1),
    Target("spark_providers.py", "batch_max_vs_p50", at_most=1.3),
    Target("spark_providers.py", "load_vs_hdfs", at_most=0.35),
    Target("spark_providers.py", "load_vs_changelog", at_most=0.3),
    Target("spark_providers.py", "bytes_vs_delta_1pct", at_most=1.4),
    Target("spark_providers.py", "load_at_target", at_most=1),
    Target("spark_providers.py", "heap_vs_hdfs", at_most=0.75),
    Target("spark_providers.py", "heap_4m_gb", at_most=4),
    Target("spark_providers.py", "watermark_batch_p50_vs_best", at_most=0.6),
    Target("spark_providers.py", "watermark_batch_p50_vs_best_10k"),
    Target("spark_providers.py", "watermark_batch_p50_vs_none_10k"),
    Target("small_loads.py", "small_load_ms"),
    Target("watermarks.py", "windowed_append_6m_vs_rocksdb", at_most=0.25),
    Target("watermarks.py", "windowed_update_6m_vs_rocksdb", at_most=0.25),
    Target("watermarks.py", "dedup_6m_vs_rocksdb", at_most=0.25),
    Target("watermarks.py", "dedup_within_6m_vs_rocksdb", at_most=0.25),
    Target("watermarks.py", "session_1m_vs_rocksdb", at_most=0.5),
    Target("watermarks.py", "timeouts_1m_vs_rocksdb", at_most=0.5),
    Target("watermarks.py", "removals_6m_vs_rocksdb", at_most=0.02),
    Target("watermarks.py", "windowed_6m_vs_600k", at_most=1.1),
    Target("watermarks.py", "windowed_update_6m_vs_600k", at_most=1.1),
    Target("watermarks.py", "dedup_6m_vs_600k", at_most=1.1),
    Target("watermarks.py", "dedup_within_6m_vs_600k", at_most=1.1),
    Target("watermarks.py", "session_1m_vs_100k", at_most=1.1),
    Target("watermarks.py", "timeouts_1m_vs_100k", at_most=1.1),
    Target("watermarks.py", "join_1m_vs_rocksdb_format4", at_most=0.6),
    Target("watermarks.py", "join_1m_vs_rocksdb_format2"),
    Target("watermarks.py", "join_1m_vs_before"),
    Target("watermarks.py", "join_updates_vs_before", at_most=1.1),
    Target("watermarks.py", "join_removals_vs_rocksdb_format4"),
    Target("watermarks.py", "join_2m_vs_200k", at_most=1.3),
    Target("watermarks.py", "no_watermark_vs_before", at_most=1.02),
    Target("watermarks.py", "no_watermark_bytes_vs_before", at_most=1.01),
    Target("watermarks.py", "restart_vs_no_watermark"),
    Target("watermarks.py", "restart_first_batch_s"),
    Target("watermarks.py", "scanned_rows_per_expired", at_most=300),
    Target("watermarks.py", "scanned_rows_flat", at_most=1.1),
    Target("watermarks.py", "nexmark_q5_vs_rocksdb"),
    Target("watermarks.py", "nexmark_q7_vs_rocksdb"),
    Target("watermarks.py", "nexmark_q8_vs_rocksdb"),
    Target("watermarks.py", "nexmark_q5_vs_hdfs"),
    Target("watermarks.py", "nexmark_q7_vs_hdfs"),
    Target("watermarks.py", "nexmark_q8_vs_hdfs"),
    Target("spark_source.py", "source_vs_parquet", at_least=1.4),
    Target("spark_source.py", "source_two_columns_vs_parquet", at_least=1.2),
    Target("spark_source.py", "start_at_99pct", at_most=1.2),
    Target("spark_sink.py", "sink_vs_parquet", at_least=1.6),
    Target("spark_sink.py", "sink_bytes_vs_parquet", at_most=1.1),
    Target("partitions.py", "driver_bytes_per_row", at_most=0.1),
    Target("partitions.py", "driver_bytes_per_row_1000_partitions"),
    Target("partitions.py", "commit_ms_1000_partitions_local"),
    Target("partitions.py", "commit_ms_1000_partitions_s3"),
    Target("read_state.py", "read_state_vs_spark", at_least=8),
    Target("inspection.py", "extent_vs_read", at_most=3),
    Target("inspection.py", "verify_vs_read", at_most=2.5),
    Target("inspection.py", "verify_mb_s"),
    Target("inspection.py", "inspection_peak_mb", at_most=500),
    Target("spark_standby.py", "spark_passive_vs_restart", at_most=0.35),
    Target("spark_standby.py", "spark_passive_s"),
    Target("spark_standby.py", "spark_restart_s"),
    Target("spark_standby.py", "spark_active_gap_vs_batch", at_most=3.75),
    Target("spark_standby.py", "spark_active_detection_vs_batch"),
    Target("spark_standby.py", "spark_active_gap_s"),
    Target("spark_standby.py", "spark_active_batch_s"),
    Target("adopt.py", "adopt_vs_reading", at_most=2),
    Target("adopt.py", "adopt_hdfs_vs_reading", at_most=2),
    Target("adopt.py", "repartition_vs_reading", at_most=2),
    Target("transform_with_state.py", "tws_batch_p50_vs_rocksdb", at_most=0.7),
    Target("transform_with_state.py", "tws_restart_vs_rocksdb"),
    Target("transform_with_state.py", "tws_load_vs_rocksdb"),
    Target("transform_with_state.py", "list_append_exponent", at_most=1.1),
    Target("fleet.py", "queries_hours_lost_vs_blocking", at_most=0.6),
    Target("fleet.py", "queries_hours_lost_vs_spark", at_most=0.5),
    Target("fleet.py", "first_query_back_vs_blocking", at_most=0.4),
    Target("fleet.py", "query_s_lost"),
    Target("fleet_buffering.py", "buffering_on_failure_vs_always"),
    Target("fleet_buffering.py", "buffering_on_failure_batch_vs_always"),
    Target("replicas.py", "lost_executor_batch_vs_none", at_most=0.7),
    Target("replicas.py", "replica_load_vs_cold", at_most=0.1),
    Target("replicas.py", "load_vs_cold_in_mid_batch"),
    Target("replicas.py", "cpal_latency_vs_direct", at_most=0.1),
    Target("replicas.py", "cpal_load_vs_direct"),
    Target("replicas.py", "replica_batch_overhead", at_most=1.1),
    Target("replicas.py", "scale_out_batches", at_most=10),
    Target("replicas.py", "scale_out_built_in", at_most=0),
)
SCRIPTS = tuple(dict.fromkeys(target.script for target in TARGETS))


MEASURED = ("date", "commit", "load before", "system")
"""Facts of one run: another script's, or the next session's on such a machine, are others."""
_SECTION = re.compile(
    r"^## `(python bench/(\S+)[^`\n]*)`\n\n([^\n]+)\n\n```\n(.*?)^(\{[^\n]*\})\n```$", re.M | re.S
)


@dataclass(frozen=True)
class Run:
    """One script's command line, when it ran, what it printed, and the figures of its last line."""

    command: str
    measured: str
    text: str
    figures: dict[str, float]

    def __str__(self) -> str:
        text = self.text and f"{self.text}\n"
        return (
            f"## `{self.command}`\n\n{self.measured}\n\n"
            f"```\n{text}{json.dumps(self.figures)}\n```\n"
        )


def run(script: str, arguments: list[str]) -> Run:
    """Runs it in a process of its own."""
    facts = describe(WORK)
    command = [sys.executable, str(HERE / script), *arguments]
    print(f"{script} …", flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr}")
    *lines, last = done.stdout.rstrip().splitlines()
    print("\n".join(lines), flush=True)
    return Run(
        " ".join(["python", f"bench/{script}", *arguments]),
        ", ".join(f"{name} {facts[name]}" for name in MEASURED),
        "\n".join(lines),
        json.loads(last),
    )


def kept(results: str, facts: dict[str, str]) -> dict[str, Run]:
    """By script, the runs that a RESULTS.md holds; those on another machine are not kept."""
    if not all(f"| {name} | {fact} |" in results for name, fact in machine(facts).items()):
        return {}
    return {
        script: Run(command, measured, text.rstrip("\n"), json.loads(figures))
        for command, script, measured, text, figures in _SECTION.findall(results)
    }


def machine(facts: dict[str, str]) -> dict[str, str]:
    """Return the facts that all runs share, which are the machine's."""
    return {name: fact for name, fact in facts.items() if name not in MEASURED}


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def row(target: Target, value: float) -> str:
    miss = "" if target.met_by(value) else " (missed)"
    return f"| `{target.script}` | `{target.figure}` | {number(value)}{miss} | {target} |"


def rendered(facts: dict[str, str], runs: dict[str, Run]) -> str:
    lines = [
        "# Results",
        "",
        "Written by `make bench`. Ratios compare rounds of one run, in which the contestants took",
        "turns: the best ones, or the medians where the script says so. What is compared stands at",
        "the top of each script. Each run says when it was made, and of which commit.",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {name} | {fact} |" for name, fact in machine(facts).items()]
    lines += ["", "| script | figure | measured | target |", "|---|---|---|---|"]
    lines += [
        row(target, runs[target.script].figures[target.figure])
        for target in TARGETS
        if target.script in runs and target.figure in runs[target.script].figures
    ]
    sections = [str(runs[script]) for script in SCRIPTS if script in runs]
    return "\n".join([*lines, "", *sections])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--results", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=SCRIPTS)
    asked = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    facts = describe(WORK)
    results = asked.results.read_text(encoding="utf-8") if asked.results.exists() else ""
    runs = kept(results, facts)
    for script in asked.only:
        runs[script] = run(script, ["--quick"] if asked.quick else [])
        asked.results.write_text(rendered(facts, runs), encoding="utf-8")
    missed = [
        f"{target.figure} is {number(runs[target.script].figures[target.figure])}, not {target}"
        for target in TARGETS
        if target.script in asked.only
        and target.figure in runs[target.script].figures  # a quick run has not all
        and not target.met_by(runs[target.script].figures[target.figure])
    ]
    print("\n".join(missed) or "every target is met")
    return len(missed) > 0


if __name__ == "__main__":
    sys.exit(main())
