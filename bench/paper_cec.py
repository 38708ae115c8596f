"""The evaluation of the CEC paper (IV), measured again, and what goes beyond it.

Figures 5 to 9 with source, operator and sink as processes of their own; policies, stopping
checkpoints on the same queue, skewed keys, sliding windows, and how cost grows. A full run takes
about a quarter of an hour, writes bench/paper_cec.json and docs/images/evaluation, and fills in the
tables of docs/evaluation.md; a quick one leaves all that in build/bench/evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import overhead
import paper_beyond
import paper_figures
import paper_report
import paper_scaling
import paper_values
import rebuild
from machine import describe
from rounds import WORK, Options, options, race, report

from cec_store import Targets, open_queue

Figures = dict[str, Any]


def loading(asked: Options) -> Figures:
    """90,000 windows from 180,000 records: bench/rebuild.py's loop over the same, and ours."""
    path = asked.folder / "loading"
    rebuild.write_queue(path, max(1, int(rebuild.ITEMS * min(1.0, asked.scale))))
    with open_queue(path) as queue:
        rebuild.require_equal(queue.rebuild(), rebuild.reference(path))
        extent = queue.extent()
    ours, loop = race(
        {
            "rebuild": lambda: rebuild.rebuild_time(path),
            "reference": lambda: rebuild.reference_time(path),
        },
        asked.rounds,
    ).values()
    return {
        "extent": extent.records,
        "open_windows": extent.open_windows,
        "load_s": ours.best,
        "reference_s": loop.best,
        "paper_s": paper_values.LOAD_180K_S,
        "ratio": loop.best / ours.best,
    }


def overhead_q2(asked: Options) -> Figures:
    """Throughput lost with Q = 2 × open windows: bench/overhead.py's measurement."""
    _, _, q2 = overhead.workloads(asked)
    asked = replace(asked, rounds=1 if asked.quick else 4)  # each stands for three turns
    kept, bare = overhead.compare("q2", q2, Targets(extent_factor=2.0), asked)
    return {"lost": 1 - bare.best / kept.best, "lost_median": 1 - bare.median / kept.median}


PARTS: dict[str, Callable[[Options], Figures]] = {
    "loading": loading,
    "overhead_q2": overhead_q2,
    "figure_5": paper_figures.figure_5,
    "figure_6": paper_figures.figure_6,
    "figure_7": paper_figures.figure_7,
    "figures_8_and_9": paper_figures.figures_8_and_9,
    "frontier": paper_beyond.frontier,
    "pauses": paper_beyond.pauses,
    "skewed": paper_beyond.skewed,
    "sliding": paper_beyond.sliding,
    "by_windows": paper_scaling.by_windows,
    "by_rate": paper_scaling.by_rate,
    "by_state": paper_scaling.by_state,
}


def headline(found: Figures) -> dict[str, float]:
    """The figures that have targets, and those beside them."""
    # Of the paper's own targets those that can be met: Q = 1 x open windows leaves no room.
    shares = [each["within_q"] for factor, each in found["figure_6"].items() if int(factor) >= 2]
    fixed = [name for name in found["frontier"] if name.startswith("Q =")]
    shares += [found["frontier"][name]["within_q"] for name in fixed if float(name.split()[2]) >= 2]
    pauses = found["pauses"]
    return {
        "load_180k_vs_reference": found["loading"]["ratio"],
        "overhead_q2": found["overhead_q2"]["lost"],
        "overhead_q2_median": found["overhead_q2"]["lost_median"],
        "pause_max_vs_crb": pauses["eventual"]["pause_s"] / pauses["whole"]["pause_s"],
        "pause_max_ms": 1e3 * pauses["eventual"]["pause_s"],
        "pause_crb_ms": 1e3 * pauses["whole"]["pause_s"],
        "extent_within_q": min(shares),
        "load_180k_ms": 1e3 * found["loading"]["load_s"],
    }


def main(asked: Options) -> None:

    found: Figures = {"machine": describe(asked.folder)}
    began = time.perf_counter()
    for name, part in PARTS.items():
        found[name] = part(asked)
        print(f"{name:<16} done after {time.perf_counter() - began:>5.0f} s", flush=True)
    found["machine"]["command"] = "python bench/paper_cec.py" + " --quick" * asked.quick
    found["machine"]["took"] = f"{time.perf_counter() - began:.0f} s"
    found["headline"] = headline(found)
    if asked.quick:
        folder = WORK / "evaluation"
        paper_report.write(found, folder / "paper_cec.json", folder / "evaluation.md", folder)
        print(f"tables and plots of this quick run: {folder}")
    else:
        places = paper_report.RESULTS, paper_report.DOCUMENT, paper_report.IMAGES
        paper_report.write(found, *places)
    report(found["headline"])


if __name__ == "__main__":
    with options(__doc__, takes="under a minute, for their shape only") as asked:
        main(asked)
