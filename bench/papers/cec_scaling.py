"""Growth of cost with windows, rate and the size of a window's state: sweeps and their exponents.

An exponent is the slope of a line through the logarithms: cost ~ size^exponent.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness.rounds import Options
from bench.micro.overhead import memory_mb
from bench.papers.cec_beyond import Case, run
from bench.papers.cec_input import Bids
from cec_store import Targets, open_queue
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.runner import Runner, record_schema

WINDOW = 10
Q2 = Targets(extent_factor=2.0)
Figures = dict[str, Any]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the costs over the sizes, both as logarithms, by least squares."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)


def by_windows(asked: Options) -> Figures:
    """Sweep from 10,000 to 10,000,000 open windows: a row's time, a recovery, bytes, memory."""
    sizes = (5_000, 20_000, 80_000) if asked.quick else (10_000, 100_000, 1_000_000, 10_000_000)
    measured: Figures = {}
    for size in sizes:
        items = size * 1142 // 1000  # of which so many have a window open at any time
        # Enough bids for CHECKs to be due: the extent has to outgrow 2 N first.
        warm_rows = max(9 * items, 1_000_000 // (1 + 4 * asked.quick))
        rows = warm_rows + max(12 * items // 10, 2_000_000 // (1 + 4 * asked.quick))
        work = Case(Bids(items, rows), CountWindow(WINDOW), warm_rows)
        figures: Figures = {}
        seconds: list[float] = []

        def one(
            work: Case = work, figures: Figures = figures, seconds: list[float] = seconds
        ) -> None:
            seconds.append(run(work, asked, Q2, figures))

        gc.collect()
        before_mb, peak_mb = memory_mb(one)
        figures.pop("samples")
        figures["s_per_row"] = seconds[0] / (work.source.rows - warm_rows)
        figures["memory_mb"] = peak_mb - before_mb
        measured[f"{figures['open_windows']}"] = figures
    windows = [float(name) for name in measured]
    exponents = {
        figure: exponent(windows, [size[figure] for size in measured.values()])
        for figure in ("s_per_row", "load_s", "replay_s", "extent_bytes", "pause_s")
    }
    return {"measured": measured, "exponents": exponents}


def by_rate(asked: Options) -> Figures:
    """Processor time of the operator's process, in seconds a second, over rows a second."""
    rates = (200_000, 800_000) if asked.quick else (125_000, 250_000, 500_000, 1_000_000, 2_000_000)
    items = asked.size(100_000, 20_000)
    warm_rows = 40 * items
    measured: Figures = {}
    for rate in rates:
        timed_rows = int(rate * (0.5 if asked.quick else 4))
        source = Bids(
            items,
            warm_rows + timed_rows,
            batch_rows=16_384,
            rows_per_s=rate,
            unpaced_rows=warm_rows,
        )
        measured[str(rate)] = _at_rate(Case(source, CountWindow(WINDOW), warm_rows), asked)
    # What was asked for and what came differ once the machine is full.
    came = [size["rows_per_s"] for size in measured.values()]
    figures = ("cpu_s_per_s", "checks_per_s", "bytes_per_s")
    return {
        "measured": measured,
        "exponents": {
            figure: exponent(came, [max(size[figure], 1e-9) for size in measured.values()])
            for figure in figures
        },
    }


def _at_rate(work: Case, asked: Options) -> Figures:
    path = asked.folder / "rate"
    operator = work.operator()
    marks = [0.0, 0.0, 0.0, 0.0]
    rows = 0

    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [work.source], queue, Q2)

        def progress(count: int) -> None:
            nonlocal rows
            rows += count
            if rows <= work.warm_rows + count:
                queue.sync()
                marks[:] = [
                    time.perf_counter(), time.process_time(), runner.checks_written,
                    sum(file.stat().st_size for file in path.iterdir()),
                ]  # fmt: skip
                marks.append(rows)

        runner.run(progress)
        seconds = time.perf_counter() - marks[0]
        cpu_s = time.process_time() - marks[1]
        checks = runner.checks_written - marks[2]
        size = sum(file.stat().st_size for file in path.iterdir()) - marks[3]
    shutil.rmtree(path)
    return {
        "rows_per_s": (rows - marks[-1]) / seconds,
        "cpu_s_per_s": cpu_s / seconds,
        "checks_per_s": checks / seconds,
        "bytes_per_s": size / seconds,
    }


def by_state(asked: Options) -> Figures:
    """Windows that keep one average, two, four … sixteen: 16 bytes of state each."""
    items = asked.size(100_000, 20_000)
    measured: Figures = {}
    for values in (1, 4) if asked.quick else (1, 2, 4, 8, 16):
        warm_rows, rows = 20 * items, 40 * items
        source = Bids(items, rows, values=values)
        work = Case(source, CountWindow(WINDOW), warm_rows)
        figures: Figures = {}
        best = min(run(work, asked, Q2, figures) for _ in range(1 if asked.quick else 3))
        figures.pop("samples")
        figures["s_per_row"] = best / (rows - warm_rows)
        measured[str(16 + 16 * values)] = figures
    sizes = [float(name) for name in measured]
    return {
        "measured": measured,
        "exponents": {
            figure: exponent(sizes, [size[figure] for size in measured.values()])
            for figure in ("s_per_row", "load_s", "extent_bytes")
        },
    }
