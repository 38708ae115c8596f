"""Tables and plots of the recovery paper's part of docs/evaluation.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

from bench.papers.tables import Figures, percent, table

matplotlib.use("svg")
import matplotlib.pyplot as plt

STYLES = {
    "incremental": ("#4a9a5b", "-"),
    "blocking": ("#c8552b", "-"),
    "best case": ("#1f5fa8", "--"),
    "spark": ("#8a8a8a", "-"),
}


def recovery_runs(figures: Figures) -> str:
    """Each part has its own: they may be of different days. Versions stand in the JSON file."""
    told = ("date", "commit", "processor", "load before", "took")
    rows = [
        [part.replace("_", " "), *(run[figure] for figure in told)] for part, run in figures.items()
    ]
    return table(["", *told], rows)


def _back(summary: dict[str, Any]) -> str:
    return f"{summary['all_back_s']:.0f}" if summary["is_all_back"] else "not by the end"


def recovery_figure_12(figures: Figures) -> str:
    rows = [
        [
            policy,
            summary["lost_query_s"],
            summary["strict_query_s"],
            summary["first_back_s"],
            _back(summary),
        ]
        for policy, summary in figures.items()
    ]
    heads = ["", "queries lost, s", "with no trigger allowed, s", "one is back after, s",
             "all are back after, s"]  # fmt: skip
    return table(heads, rows)


def recovery_figures_13_to_15(figures: Figures) -> str:
    rows = [
        [
            f"{lost} lost, {policy}",
            summary["relative_latency_max"],
            _back(summary),
            summary["lost_query_s"],
        ]
        for lost, policies in sorted(figures.items(), key=lambda pair: int(pair[0]))
        for policy, summary in policies.items()
    ]
    heads = ["", "highest relative latency", "all are back after, s", "queries lost, s"]
    return table(heads, rows)


def recovery_figure_10(figures: Figures) -> str:
    rows = [
        [lost, summary["relative_latency_max"], _back(summary)] for lost, summary in figures.items()
    ]
    heads = ["lost one after the other", "highest relative latency", "all are back after, s"]
    return table(heads, rows)


def recovery_figure_16(figures: Figures) -> str:
    heads = ["share of the optimum's priorities; room for",
             *(percent(share) for share in figures["shares"])]  # fmt: skip
    rows = [
        [f"{setting}, {planner}", *values]
        for setting, planners in figures["settings"].items()
        for planner, values in planners.items()
    ]
    return table(heads, rows)


def recovery_figures_19_and_20(figures: Figures) -> str:
    rows = [
        [f"{key} s", interval["rows_per_s"], 1e3 * interval["late_s"]]
        for key, interval in figures.items()
    ]
    return table(["global checkpoints every", "rows a second", "rows are late, ms"], rows)


TABLES: tuple[Callable[[Figures], str], ...] = (
    recovery_runs, recovery_figure_12, recovery_figures_13_to_15, recovery_figure_10,
    recovery_figure_16, recovery_figures_19_and_20,
)  # fmt: skip


def write_plots(figures: Figures, folder: Path) -> None:
    """Write the plots of what has been measured."""
    folder.mkdir(parents=True, exist_ok=True)
    if "recovery_figure_12" in figures:
        worst = figures["recovery_figure_12"]
        _lines(worst, "available", "available queries", folder / "recovery_figure_12.svg")
    if "recovery_figures_13_to_15" in figures:
        _figures_13_to_15(figures["recovery_figures_13_to_15"], folder)


def _figures_13_to_15(by_lost: Figures, folder: Path) -> None:
    _, axes = plt.subplots(1, len(by_lost), figsize=(7, 3.0), sharey=True, squeeze=False)
    for ax, (lost, policies) in zip(axes[0], sorted(by_lost.items()), strict=True):
        _draw(ax, policies, "relative_latency")
        ax.set_yscale("log")
        ax.set_title(f"{lost} machines lost", fontsize=9)
        ax.set_xlabel("s after the loss")
    axes[0][0].set_ylabel("relative latency")
    axes[0][0].legend(fontsize=7, frameon=False)
    _save(folder / "recovery_figures_13_to_15.svg")


def _lines(figures: Figures, name: str, title: str, path: Path) -> None:
    _, ax = plt.subplots(figsize=(7, 3.0))
    _draw(ax, figures, name)
    for at in next(iter(figures.values()))["arrived_s"]:
        ax.axvline(at, color="#dddddd", linewidth=0.8, zorder=0)
    ax.set_xlabel("s after the loss; grey: a machine comes")
    ax.set_ylabel(title)
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=7, frameon=False)
    _save(path)


def _draw(ax: Any, policies: Figures, name: str) -> None:
    for policy, summary in policies.items():
        colour, style = STYLES[policy]
        if summary[name]:
            at, values = zip(*summary[name], strict=True)
            ax.plot(at, values, style, color=colour, label=policy, linewidth=1.4)


def _save(path: Path) -> None:
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()
