"""The plots of the availability part: the paper's Figures 6 and 7 in its layout."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from bench.papers.tables import Figures

matplotlib.use("svg")
import matplotlib.pyplot as plt

STYLES = {
    "passive standby": ("#c8552b", "s-"),
    "active standby": ("#7d4aa5", "^-"),
    "active standby, precise": ("#7d4aa5", "^--"),
    "upstream backup": ("#1f5fa8", "o-"),
    "upstream backup, precise": ("#1f5fa8", "o--"),
    "eventual, Q = 2 N": ("#4a9a5b", "D-"),
    "eventual, Q = N": ("#4a9a5b", "D--"),
}


def write_plots(figures: Figures, folder: Path) -> None:
    """Recovery time over bandwidth overhead, a line for each scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("availability_figure_6", "availability_figure_7"):
        _, ax = plt.subplots(figsize=(7, 3.4))
        for line, (colour, style) in STYLES.items():
            points = [point[line] for point in figures[name].values() if line in point]
            if points:
                ax.plot(
                    [point["overhead_percent"] for point in points],
                    [point["recovery_ms"] for point in points],
                    style, color=colour, label=line, markersize=4,
                )  # fmt: skip
        ax.set_xlabel("bandwidth overhead, %")
        ax.set_ylabel("recovery time, ms")
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=7, frameon=False)
        plt.tight_layout()
        plt.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close()
