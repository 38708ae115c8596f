"""The plots of docs/evaluation.md: the paper's figures in its layout, and what goes beyond them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from bench.papers import cec_values as paper

matplotlib.use("svg")
import matplotlib.pyplot as plt

Figures = dict[str, Any]
OURS, THEIRS, THIRD, FOURTH = "#1f5fa8", "#c8c8c8", "#d9822b", "#4a9a5b"
plt.rcParams |= {
    "svg.hashsalt": "cec", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "svg.fonttype": "none",
}  # fmt: skip


def write_plots(figures: Figures, folder: Path) -> None:
    """All plots whose figures are there, an SVG each."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = {
        "figure_5": figure_5,
        "figure_6": figure_6,
        "figure_7": figure_7,
        "figures_8_and_9": figures_8_and_9,
        "frontier": frontier,
        "pauses": pauses,
        "by_windows": growth,
    }
    for name, plot in plots.items():
        if name in figures:
            plot(figures[name])
            plt.tight_layout()
            plt.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close()


def figure_5(figures: Figures) -> None:
    """Bars for each configuration; as in the paper, on a logarithmic axis for both workloads."""
    _, axes = plt.subplots(1, 2, figsize=(7, 2.8))
    for ax, (workload, variants) in zip(axes, figures.items(), strict=True):
        names = [*variants, "Real"]
        heights = [variant["results_per_s"] for variant in variants.values()]
        heights.append(variants["Gopen/Disk"]["records_per_s"])
        colours = [*[OURS] * len(variants), THIRD]
        ax.bar(names, heights, color=colours)
        ax.set_title(f"{workload} windows")
        ax.set_ylabel("tuples/s at the sink")
        ax.tick_params(axis="x", labelsize=7)


def _four(
    keys: list[str], labels: list[str], xlabel: str, panels: list[tuple[str, list[float], Any]]
) -> None:
    """The paper's two by two panels: ours as bars, its values as marks beside them."""
    _, axes = plt.subplots(2, 2, figsize=(7, 5))
    places = range(len(keys))
    for ax, (title, ours, theirs) in zip(axes.flat, panels, strict=True):
        ax.bar(places, ours, width=0.5, color=OURS, label="measured")
        marks = [(place, theirs[key]) for place, key in enumerate(keys) if key in theirs]
        if marks:
            ax.plot(*zip(*marks, strict=True), "D", color=THIRD, label="paper")
        if marks and max(value for _, value in marks) > 5 * max(ours):
            ax.set_yscale("log")
        ax.set_title(title)
        ax.set_xticks(list(places), labels)
        ax.set_xlabel(xlabel)
    axes[0, 1].legend()


def _text_keys(values: Mapping[int, float]) -> dict[str, float]:
    return {str(key): value for key, value in values.items()}


def figure_6(figures: Figures) -> None:
    panels = [
        ("CHECKs emitted", [crash["checks"] for crash in figures.values()], {}),
        ("extent (tuples)", [crash["extent"] for crash in figures.values()],
         _text_keys(paper.FIGURE_6_EXTENT)),
        ("EC-load time (s)", [crash["load_s"] for crash in figures.values()],
         _text_keys(paper.FIGURE_6_LOAD_S)),
        ("replayed (MB)", [crash["replayed_bytes"] / 1e6 for crash in figures.values()],
         _text_keys(paper.FIGURE_6_REPLAY_MB)),
    ]  # fmt: skip
    _four(list(figures), [f"{key}×" for key in figures], "Q, in open windows", panels)


def figure_7(figures: Figures) -> None:
    panels = [
        ("CHECKs emitted", [crash["checks"] for crash in figures.values()], {}),
        ("extent (tuples)", [crash["extent"] for crash in figures.values()],
         _text_keys(paper.FIGURE_7_EXTENT)),
        ("EC-load time (s)", [crash["load_s"] for crash in figures.values()],
         _text_keys(paper.FIGURE_7_LOAD_S)),
        ("replayed (MB)", [crash["replayed_bytes"] / 1e6 for crash in figures.values()],
         _text_keys(paper.FIGURE_7_REPLAY_MB)),
    ]  # fmt: skip
    _four(list(figures), [f"{int(key) // 1000}k" for key in figures], "U, input tuples", panels)


def figures_8_and_9(figures: Figures) -> None:
    _, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8))
    for name, line in figures.items():
        label = "no CEC" if name == "none" else f"CP = {name} ms"
        seconds, means = zip(*line["by_second"], strict=True)
        left.plot(seconds[:-1], [1e3 * mean for mean in means[:-1]], label=label)
    left.set_title("response time, averages by second")
    left.set_xlabel("time (s)")
    left.set_ylabel("ms")
    left.legend(fontsize=7)
    periods = [name for name in reversed(figures) if "extents" in figures[name]]
    right.bar(periods, [figures[name]["extents"]["mean"] for name in periods], color=OURS)
    right.set_title("extent")
    right.set_xlabel("CP (ms)")
    right.set_ylabel("tuples")


def frontier(figures: Figures) -> None:
    """Throughput lost against recovery time, a line for each kind of policy."""
    _, ax = plt.subplots(figsize=(7, 3.4))
    kinds = {
        "Q": [name for name in figures if name.startswith("Q =")],
        "U": [name for name in figures if name.startswith("U =")],
        "cost and benefit": [name for name in figures if name.startswith("a failure")],
        "recovery time": [name for name in figures if name.startswith("back in")],
        "OPEN alone": [name for name in figures if name == "OPEN alone"],
    }
    colours = (OURS, THIRD, FOURTH, "#7b4fa3", "#444444")
    for (kind, names), colour in zip(kinds.items(), colours, strict=True):
        points = sorted((1e3 * figures[name]["recovery_s"], 100 * figures[name]["lost"], name)
                        for name in names)  # fmt: skip
        if points:
            times, lost, labels = zip(*points, strict=True)
            ax.plot(times, lost, "o-", color=colour, label=kind, markersize=4)
            for time, share, label in points:
                ax.annotate(label, (time, share), fontsize=6, xytext=(3, 3),
                            textcoords="offset points")  # fmt: skip
            del labels
    ax.set_xlabel("recovery: load and replay (ms)")
    ax.set_ylabel("throughput lost (%)")
    ax.legend(fontsize=7)


def pauses(figures: Figures) -> None:
    _, ax = plt.subplots(figsize=(5, 2.4))
    names = {"eventual": "eventual\n(longest)", "increments": "increments", "whole": "whole (CRB)"}
    ax.barh(list(names.values()), [1e3 * figures[name]["pause_s"] for name in names], color=OURS)
    ax.set_xscale("log")
    ax.set_xlabel("the operator stands still (ms)")


def growth(figures: Figures) -> None:
    """Costs by the number of windows, each relative to its smallest."""
    _, ax = plt.subplots(figsize=(5, 3.2))
    windows = [int(name) for name in figures["measured"]]
    titles = {"s_per_row": "time of a row", "load_s": "load", "pause_s": "longest pause"}
    for figure, title in titles.items():
        costs = [size[figure] for size in figures["measured"].values()]
        label = f"{title}: exponent {figures['exponents'][figure]:.2f}"
        ax.loglog(windows, [cost / costs[0] for cost in costs], "o-", label=label)
    ax.set_xlabel("open windows")
    ax.set_ylabel("cost, the smallest as 1")
    ax.legend(fontsize=8)
