"""The migration part's tables in docs/evaluation.md; each is a function of its figures."""

from __future__ import annotations

from collections.abc import Callable

from bench.papers.tables import Figures, beside_targets, percent, table

ALLOCATIONS = ("baseline", "even", "correlated", "lazy move")


def _by_groups(figures: Figures, cell: Callable[[Figures], str], head: str) -> str:
    rows = [[name, *(cell(points[name]) for points in figures.values())] for name in ALLOCATIONS]
    return table([head, *figures], rows)


def migration_figure_7(figures: Figures) -> str:
    return _by_groups(
        figures,
        lambda point: f"{percent(point['assisted_share'])} of {point['moves']:.0f}",
        "assisted, of migrations; key groups",
    )


def migration_figure_8(figures: Figures) -> str:
    return _by_groups(
        figures,
        lambda point: f"{percent(point['usable_share'])} ± {100 * point['usable_error']:.1f}",
        "usable copies; key groups",
    )


def migration_figure_9(figures: Figures) -> str:
    return _by_groups(
        figures,
        lambda point: f"{point['latency_s']:.2f} of {point['direct_latency_s']:.2f}",
        "latency, s, of that of direct; key groups",
    )


def migration_two_operators(figures: Figures) -> str:
    theirs = {"even": "50 %", "correlated": "100 %"}
    rows = [
        [name, percent(point["usable_share"]), theirs.get(name), percent(point["assisted_share"]),
         point["moves"]]
        for name, point in figures.items()
    ]  # fmt: skip
    return table(["allocation", "usable copies", "paper", "assisted", "migrations"], rows)


def migration_figures_5_and_6(figures: Figures) -> str:
    rows = [
        [name, *(f"{1e3 * point[name]['latency_s']:,.0f}, {1e3 * point[name]['completion_s']:,.0f}"
                 for point in figures.values())]
        for name in ("direct", "cpa", "cpal")
    ]  # fmt: skip
    heads = ["latency and completion, ms; rows to replay", *(f"{int(rows):,}" for rows in figures)]
    return table(heads, rows)


def migration_readings(figures: Figures) -> str:
    rows = []
    for name, point in figures.items():
        even, ours = point["even"], point["correlated"]
        rows.append(
            [name, percent(even["usable_share"]), percent(ours["usable_share"]),
             f"{ours['usable_share'] / max(1e-9, even['usable_share']):.2f}",
             percent(even["assisted_share"]), percent(ours["assisted_share"]),
             f"{ours['moves']:.0f}", f"{ours['copies_moved']:.0f}",
             f"{even['overloaded_s']:.0f}", f"{ours['overloaded_s']:.0f}"]
        )  # fmt: skip
    heads = ["reading", "usable, even", "correlated", "ratio", "assisted, even", "correlated",
             "migrations", "copies moved", "overloaded, node-s, even", "correlated"]  # fmt: skip
    return table(heads, rows)


def migration_optimum(figures: Figures) -> str:
    rows = [
        [name, point["cases"], f"{point['mean']:.4f}", f"{point['least']:.4f}", point["ours_ms"],
         point["exact_ms"]]
        for name, point in figures.items()
    ]  # fmt: skip
    heads = ["case", "solved", "Algorithm 3 / optimum", "the worst", "Algorithm 3, ms",
             "optimum, ms"]  # fmt: skip
    return table(heads, rows)


def migration_headline(figures: Figures) -> str:
    return beside_targets(figures, "papers/migration.py", "simulated")


def migration_machine(figures: Figures) -> str:
    return table(["", ""], list(figures.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    migration_machine, migration_headline, migration_two_operators, migration_figures_5_and_6,
    migration_figure_7, migration_figure_8, migration_figure_9, migration_readings,
    migration_optimum,
)  # fmt: skip
