"""Tables and plot of the migration paper's Figures 5 and 6 on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.papers.migration_plots import PROTOCOLS, of_protocols
from bench.papers.tables import Figures, table


def migration_spark(figures: Figures) -> str:
    rows = [
        [name, *(f"{protocols[name]['latency_ms']:,.0f}, {protocols[name]['completion_ms']:,.0f} "
                 f"({protocols[name]['records']:,.0f})" for protocols in figures.values())]
        for name in PROTOCOLS
    ]  # fmt: skip
    heads = ["latency, completion in ms (records read); rows that the replica lacks",
             *(f"{int(rows):,}" for rows in figures)]  # fmt: skip
    return table(heads, rows)


def migration_spark_headline(figures: Figures) -> str:
    return table(["figure", "measured"], [[f"`{name}`", value] for name, value in figures.items()])


def migration_spark_machine(figures: Figures) -> str:
    return table(["", ""], list(figures.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    migration_spark_machine, migration_spark_headline, migration_spark,
)  # fmt: skip


def write_plot(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    of_protocols(
        figures["migration_spark"],
        {"latency_ms": "latency, ms", "completion_ms": "completion time, ms"},
        "rows that the replica lacks",
        folder / "migration_spark.svg",
    )
