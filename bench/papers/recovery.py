"""The recovery paper's evaluation (Su and Zhou, 7 and C) on Spark, on a cluster of this machine.

Figure 12: available queries over time after eight of ten machines were lost, for a fleet that adds
queries with each machine that comes, one that waits for the last, one that gets all with the first,
and for Spark alone (Figure 11). Figures 13 to 15: relative latency after two, four and eight were
lost. Figure 10: one, two and three lost one after the other. Figure 16: plans against the optimum.
Figures 19 and 20: throughput and latency with global checkpoints more or less often. A full run
writes bench/papers/recovery.json, the plots, and the tables of docs/evaluation.md, part by part;
`--only figure_12 …` measures some of it, and keeps what there is of the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.fleet.fleet import points_of, task, told, usual_of
from bench.fleet.outcomes import first_back_s, lost_query_s
from bench.fleet.worker import BEST_CASE, BLOCKING, INCREMENTAL, SPARK, Case, Outcome, Task, run
from bench.harness.machine import describe
from bench.harness.rounds import ONE_TURN, Options, options, report
from bench.micro.recovery_plans import SETTINGS, SHARES, shares_of_optimum
from bench.papers.recovery_checkpoints import by_interval
from bench.papers.recovery_tables import TABLES, write_plots
from bench.papers.report import publish, results_file

STEP_S = 5.0
"""Seconds of a step of the lines of relative latency."""


def relative_latency(outcome: Outcome, asked: Task) -> list[tuple[float, float]]:
    """Seconds since the loss, and the mean over all queries of how late their rows are, as a
    multiple of what they are usually; of those that have done a batch in that step."""
    usual = usual_of(outcome, asked)
    steps = []
    for begin_s in np.arange(0.0, outcome.ended_s - outcome.lost_s, STEP_S):
        low, high = outcome.lost_s + begin_s, outcome.lost_s + begin_s + STEP_S
        late = [
            done_late / usual[name]
            for name in usual
            for done, done_late in outcome.batches.get(name, ())
            if low < done <= high
        ]
        if late:
            steps.append((float(begin_s + STEP_S), float(np.mean(late))))
    return steps


def summary(outcome: Outcome, asked: Task) -> dict[str, Any]:
    """Return what the tables and plots have of one case."""
    points, queries = points_of(outcome, asked), len(asked.shape.outputs)
    lines = relative_latency(outcome, asked)
    gone = [at for at, available in points if available < queries]
    return {
        "lost": outcome.lost,
        "available": points[:: max(1, len(points) // 150)],
        "relative_latency": lines,
        "lost_query_s": lost_query_s(points, queries),
        "strict_query_s": lost_query_s(points_of(outcome, asked, is_strict=True), queries),
        "first_back_s": first_back_s(points),
        "all_back_s": gone[-1] + 1.0 if gone else 0.0,
        "is_all_back": points[-1][1] == queries,
        "relative_latency_max": max((late for _, late in lines), default=1.0),
        "arrived_s": [moment_s - outcome.lost_s for moment_s in outcome.arrived_s],
    }


def losses(asked: Task) -> dict[str, dict[str, Any]]:
    """Return the summaries of the losses by policy."""
    summaries = {}
    for outcome in run(asked):
        told(outcome, asked)
        summaries[outcome.policy] = summary(outcome, asked)
    return summaries


def figure_10(chosen: Options) -> dict[str, dict[str, Any]]:
    """Return summaries by how many machines were lost in turn; for each of them another comes."""
    asked = task(chosen, [], lost=0)
    apart_s = 4 * asked.every_s
    cases = [Case(INCREMENTAL, count, [1.0] * count, apart_s) for count in (1, 2, 3)]
    asked = replace(asked, folder=chosen.folder / "in a row", cases=cases)
    return {str(outcome.lost): summary(outcome, asked) for outcome in run(asked)}


def figure_16(chosen: Options) -> dict[str, dict[str, list[float]]]:
    topologies = chosen.size(100, 2)
    return {name: shares_of_optimum(how, topologies) for name, how in SETTINGS.items()}


def eight_lost(chosen: Options) -> dict[str, dict[str, Any]]:
    policies = (
        [INCREMENTAL, BLOCKING] if chosen.quick else [INCREMENTAL, BLOCKING, SPARK, BEST_CASE]
    )
    return losses(task(chosen, policies, lost=3 if chosen.quick else 8))


def fewer_lost(chosen: Options, lost: int) -> dict[str, dict[str, Any]]:
    return losses(task(chosen, [INCREMENTAL, BLOCKING, SPARK], lost=lost))


PARTS: dict[str, Callable[[Options], Any]] = {
    "figure_16": lambda chosen: {"shares": SHARES, "settings": figure_16(chosen)},
    "figure_12": eight_lost,
    "figures_19_and_20": by_interval,
    "figure_10": figure_10,
    "four_lost": lambda chosen: fewer_lost(chosen, 2 if chosen.quick else 4),
    "two_lost": lambda chosen: fewer_lost(chosen, 1 if chosen.quick else 2),
}
FEWER_LOST = ("four_lost", "two_lost")
"""Parts that Figures 13 to 15 show together with Figure 12."""
NOT_QUICK = ("figure_10", *FEWER_LOST)
"""Parts that a quick run leaves out unless it is asked for them."""


def with_part(figures: dict[str, Any], part: str, value: Any) -> None:
    """Put what a part has found where the tables look for it."""
    figures[f"recovery_{part}"] = value
    losses = [figures.get(f"recovery_{name}") for name in ("figure_12", *FEWER_LOST)]
    by_lost = {str(loss[INCREMENTAL]["lost"]): loss for loss in losses if loss}
    if by_lost:
        figures["recovery_figures_13_to_15"] = by_lost


def main(chosen: Options) -> None:
    results = results_file("recovery", quick=chosen.quick)
    figures: dict[str, Any] = {}
    if results.exists():
        figures = json.loads(results.read_text(encoding="utf-8"))
    # It takes hours: a run of some parts keeps the others, and one that is cut short what it has.
    for part in chosen.parts:
        began, machine = time.perf_counter(), describe(chosen.folder)
        with_part(figures, part, PARTS[part](chosen))
        machine["command"] = "python bench/papers/recovery.py" + " --quick" * chosen.quick
        machine["took"] = f"{time.perf_counter() - began:.0f} s"
        figures.setdefault("recovery_runs", {})[part] = machine
        publish(figures, "recovery", TABLES, write_plots, quick=chosen.quick)
        print(f"{part}: took {machine['took']}", flush=True)
    worst = figures.get("recovery_figure_12")
    if worst is None:
        return
    lost_s = {policy: policy_figures["lost_query_s"] for policy, policy_figures in worst.items()}
    report({
        f"incremental_vs_{policy.replace(' ', '_')}": lost_s[INCREMENTAL] / lost
        for policy, lost in lost_s.items()
        if policy != INCREMENTAL
    })  # fmt: skip


if __name__ == "__main__":
    with options(
        __doc__, turns=ONE_TURN, takes="five minutes", parts=list(PARTS), long_parts=NOT_QUICK
    ) as chosen:
        main(chosen)
