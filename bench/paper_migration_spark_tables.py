"""Tables and plot of the migration paper's Figures 5 and 6 on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
from paper_tables import Figures, table

matplotlib.use("svg")
import matplotlib.pyplot as plt

PROTOCOLS = {"direct": ("#c8552b", "s-"), "cpa": ("#7d4aa5", "^-"), "cpal": ("#4a9a5b", "D-")}


def migration_spark(found: Figures) -> str:
    rows = [
        [name, *(f"{each[name]['latency_ms']:,.0f}, {each[name]['completion_ms']:,.0f} "
                 f"({each[name]['records']:,.0f})" for each in found.values())]
        for name in PROTOCOLS
    ]  # fmt: skip
    heads = ["latency, completion in ms (records read); rows that the replica lacks",
             *(f"{int(rows):,}" for rows in found)]  # fmt: skip
    return table(heads, rows)


def migration_spark_headline(found: Figures) -> str:
    return table(["figure", "measured"], [[f"`{name}`", value] for name, value in found.items()])


def migration_spark_machine(found: Figures) -> str:
    return table(["", ""], list(found.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    migration_spark_machine, migration_spark_headline, migration_spark,
)  # fmt: skip


def write_plot(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = figures["migration_spark"]
    _, axes = plt.subplots(1, 2, figsize=(7, 3.0))
    for ax, name, title in zip(
        axes, ("latency_ms", "completion_ms"), ("latency, ms", "completion time, ms"), strict=True
    ):
        for protocol, (colour, style) in PROTOCOLS.items():
            values = [each[protocol][name] for each in found.values()]
            ax.plot([int(rows) for rows in found], values, style, color=colour, label=protocol,
                    markersize=4)  # fmt: skip
        ax.set_xlabel("rows that the replica lacks")
        ax.set_ylabel(title)
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=7, frameon=False)
    plt.tight_layout()
    plt.savefig(folder / "migration_spark.svg", metadata={"Date": None})
    plt.close()
