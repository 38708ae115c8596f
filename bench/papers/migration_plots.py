"""The plots of the migration part: the paper's Figures 5 to 9 in its layout."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from bench.papers.tables import Figures

matplotlib.use("svg")
import matplotlib.pyplot as plt

STYLES = {
    "baseline": ("#8a8a8a", "^-"),
    "even": ("#c8552b", "s-"),
    "correlated": ("#4a9a5b", "D-"),
    "lazy move": ("#1f5fa8", "o--"),
}
PROTOCOLS = {"direct": ("#c8552b", "s-"), "cpa": ("#7d4aa5", "^-"), "cpal": ("#4a9a5b", "D-")}


def write_plots(figures: Figures, folder: Path) -> None:
    """One file for each figure that was made."""
    folder.mkdir(parents=True, exist_ok=True)
    of_protocols(
        figures["migration_figures_5_and_6"],
        {"latency_s": "latency, s", "completion_s": "completion time, s"},
        "rows to replay",
        folder / "migration_figures_5_and_6.svg",
    )
    _lines(figures["migration_figure_7"], "assisted_share", 100, "assisted migrations, %",
           folder / "migration_figure_7.svg")  # fmt: skip
    _lines(figures["migration_figure_8"], "usable_share", 100, "usable copies, %",
           folder / "migration_figure_8.svg")  # fmt: skip
    _lines(figures["migration_figure_9"], "saved_s", 1, "latency saved, s",
           folder / "migration_figure_9.svg")  # fmt: skip


def of_protocols(figures: Figures, titles: dict[str, str], along: str, path: Path) -> None:
    """Two values of each protocol, side by side."""
    _, axes = plt.subplots(1, 2, figsize=(7, 3.0))
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        for protocol, (colour, style) in PROTOCOLS.items():
            values = [point[protocol][name] for point in figures.values()]
            ax.plot([int(rows) for rows in figures], values, style, color=colour, label=protocol,
                    markersize=4)  # fmt: skip
        ax.set_xlabel(along)
        ax.set_ylabel(title)
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=7, frameon=False)
    _save(path)


def _lines(figures: Figures, name: str, factor: float, title: str, path: Path) -> None:
    _, ax = plt.subplots(figsize=(7, 3.0))
    for line, (colour, style) in STYLES.items():
        points = [point[line] for point in figures.values()]
        values = [factor * _value(point, name) for point in points]
        ax.plot([int(groups) for groups in figures], values, style, color=colour, label=line,
                markersize=4)  # fmt: skip
    ax.set_xlabel("key groups of each operator")
    ax.set_ylabel(title)
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=7, frameon=False)
    _save(path)


def _value(point: dict[str, float], name: str) -> float:
    if name == "saved_s":
        return point["direct_latency_s"] - point["latency_s"]
    return point[name]


def _save(path: Path) -> None:
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()
