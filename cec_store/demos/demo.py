"""Choose the demo that `cec-store demo` runs, show its progress, and report its results."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
from rich.progress import Progress

from cec_store.demos.embedded import RUNS as EMBEDDED_RUNS
from cec_store.demos.embedded import EmbeddedReport, run_embedded_demo
from cec_store.demos.embedded_child import OPERATORS
from cec_store.demos.spark import RUNS as SPARK_RUNS
from cec_store.demos.spark import SparkReport, run_spark_demo
from cec_store.demos.spark_feed import CHECKPOINT, FLEETS
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.places.places import place_at
from cec_store.report.page import GENERATOR
from cec_store.terminal.report_writing import make_report, write_report
from cec_store.terminal.screens import Cell, Screen

_REPORT = "cec-demo-report"
_HEAD_CHARACTERS = 2000


def demonstrate(
    screen: Screen, folder: Path, seed: int, rows_max: int | None, *, embedded: bool, as_json: bool
) -> bool:
    """Run one of the demos, and show what it found; whether the outputs were equal."""
    if not as_json:
        what = "operators" if embedded else "Spark queries"
        screen.line(f"a year of flights through two {what}; --seed {seed}")
    runs = EMBEDDED_RUNS if embedded else SPARK_RUNS
    report: EmbeddedReport | SparkReport
    with screen.bar() as bar:
        watcher = DemoWatcher(screen, bar, runs, quiet=as_json)
        run = run_embedded_demo if embedded else run_spark_demo
        report = run(folder, seed, watcher, rows_max)
    if as_json:
        screen.document(report.as_json())
    elif isinstance(report, EmbeddedReport):
        _show_embedded(screen, report)
    else:
        _show_spark(screen, report)
    return report.equal


class DemoWatcher:
    """Shows the demo's progress."""

    def __init__(self, screen: Screen, bar: Progress, runs: Mapping[str, str], quiet: bool) -> None:
        self._screen = screen
        self._bar = bar
        self._quiet = quiet
        self._tasks = {run: bar.add_task(title, total=None) for run, title in runs.items()}

    def advance(self, run: str, done: int, total: int) -> None:
        self._bar.update(self._tasks[run], completed=done, total=total)

    def tell(self, text: str) -> None:
        if self._quiet:
            return
        if self._screen.is_terminal and not self._bar.disable:
            self._bar.console.print(text, markup=False)  # above the bars, which stay below
        else:
            self._screen.line(text)


def _show_verdict(
    screen: Screen, report: EmbeddedReport | SparkReport, kills: str, reference: str
) -> None:
    for output in report.outputs:
        if output.first_difference is not None:
            screen.line(
                f"{output.operator}: {output.rows:,} rows against {output.reference_rows:,}, "
                f"different from row {output.first_difference:,} on",
                style="bold red",
            )
    if report.equal:
        counts = " + ".join(f"{output.rows:,} {output.operator}" for output in report.outputs)
        screen.line(
            f"{report.output_rows:,} output rows ({counts}) after {kills}: "
            f"row for row those of {reference}",
            style="bold green",
        )
    else:
        screen.line("the outputs differ: this is a defect", style="bold red")


def _show_embedded(screen: Screen, report: EmbeddedReport) -> None:
    names = ["operator", "kill", "at row", "windows", "extent", "target", "KiB",
             "load ms", "replayed", "replay target", "replay ms"]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            r.operator, r.kill, r.log_at_row, r.open_windows, r.extent_records, r.extent_target,
            r.extent_bytes >> 10, round(r.load_s * 1e3), r.replayed_rows, r.replay_target,
            round(r.replay_s * 1e3),
        ]
        for r in report.recoveries
    ]  # fmt: skip
    screen.table("recoveries by backward scan", names, rows)
    kills = f"{len(report.kills_at)} kills"
    _show_verdict(screen, report, kills, "the run that was never killed")


def _show_spark(screen: Screen, report: SparkReport) -> None:
    names = ["query", "from batch", "load ms", "records read"]
    rows: list[list[Cell]] = [
        [back.query, back.batch, back.load_ms, back.loaded_records] for back in report.resumed
    ]
    screen.table("state read back by the second driver", names, rows)
    names = ["query", "operator", "stores", "keys", "extent", "KiB", "at version", "keys then",
             "recomputed"]  # fmt: skip
    rows = [
        [
            state.query, state.operator, state.stores, state.keys, state.extent_records,
            state.extent_bytes >> 10, state.earlier_version, state.earlier_keys,
            state.recomputed_keys,
        ]
        for state in report.states
    ]  # fmt: skip
    screen.table("state in the checkpoint, read by Python", names, rows)
    for state in report.states:
        if state.earlier_keys != state.recomputed_keys:
            screen.line(
                f"{state.query}, {state.operator}: {state.earlier_keys:,} keys at version "
                f"{state.earlier_version}, not {state.recomputed_keys:,}",
                style="bold red",
            )
    _show_verdict(screen, report, "a SIGKILL of the driver", "a recompute over the same files")


# -- the report -----------------------------------------------------------------------------------


def report_on_demo(
    screen: Screen, folder: Path, embedded: bool, target: Path, rates: LoadRates
) -> None:
    """Write the report on what the demo left into the folder ``target``, and say where it is."""
    left = folder / "killed" / OPERATORS[0] if embedded else folder / CHECKPOINT / FLEETS
    page = _page_in(target)
    document = make_report(screen, place_at(left), rates=rates, cores=pa.cpu_count())
    write_report(document, page, overwrite=True)
    what = "queue" if embedded else "checkpoint"
    screen.line(
        f"the report on the {what} {left.name} is in {page.resolve()}: open it in a browser"
    )


def _page_in(target: Path) -> Path:
    """The first name that is free, or that an earlier report has."""
    for number in count(1):
        page = target / f"{_REPORT}{'' if number == 1 else f'-{number}'}.html"
        if not page.exists():
            return page
        with page.open(encoding="utf-8", errors="replace") as text:
            if GENERATOR in text.read(_HEAD_CHARACTERS):
                return page
    raise AssertionError
