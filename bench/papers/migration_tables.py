"""The migration part's tables in docs/evaluation.md; each is a function of its figures."""

from __future__ import annotations

from collections.abc import Callable

from bench.papers.tables import Figures, beside_targets, percent, table

ALLOCATIONS = ("baseline", "even", "correlated", "lazy move")


def _by_groups(found: Figures, cell: Callable[[Figures], str], head: str) -> str:
    rows = [[name, *(cell(each[name]) for each in found.values())] for name in ALLOCATIONS]
    return table([head, *found], rows)


def migration_figure_7(found: Figures) -> str:
    return _by_groups(
        found,
        lambda each: f"{percent(each['assisted_share'])} of {each['moves']:.0f}",
        "assisted, of migrations; key groups",
    )


def migration_figure_8(found: Figures) -> str:
    return _by_groups(
        found,
        lambda each: f"{percent(each['usable_share'])} ± {100 * each['usable_error']:.1f}",
        "usable copies; key groups",
    )


def migration_figure_9(found: Figures) -> str:
    return _by_groups(
        found,
        lambda each: f"{each['latency_s']:.2f} of {each['direct_latency_s']:.2f}",
        "latency, s, of that of direct; key groups",
    )


def migration_two_operators(found: Figures) -> str:
    theirs = {"even": "50 %", "correlated": "100 %"}
    rows = [
        [name, percent(each["usable_share"]), theirs.get(name), percent(each["assisted_share"]),
         each["moves"]]
        for name, each in found.items()
    ]  # fmt: skip
    return table(["allocation", "usable copies", "paper", "assisted", "migrations"], rows)


def migration_figures_5_and_6(found: Figures) -> str:
    rows = [
        [name, *(f"{1e3 * each[name]['latency_s']:,.0f}, {1e3 * each[name]['completion_s']:,.0f}"
                 for each in found.values())]
        for name in ("direct", "cpa", "cpal")
    ]  # fmt: skip
    heads = ["latency and completion, ms; rows to replay", *(f"{int(rows):,}" for rows in found)]
    return table(heads, rows)


def migration_readings(found: Figures) -> str:
    rows = []
    for name, each in found.items():
        even, ours = each["even"], each["correlated"]
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


def migration_optimum(found: Figures) -> str:
    rows = [
        [name, each["cases"], f"{each['mean']:.4f}", f"{each['least']:.4f}", each["ours_ms"],
         each["exact_ms"]]
        for name, each in found.items()
    ]  # fmt: skip
    heads = ["case", "solved", "Algorithm 3 / optimum", "the worst", "Algorithm 3, ms",
             "optimum, ms"]  # fmt: skip
    return table(heads, rows)


def migration_headline(found: Figures) -> str:
    return beside_targets(found, "papers/migration.py", "simulated")


def migration_machine(found: Figures) -> str:
    return table(["", ""], list(found.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    migration_machine, migration_headline, migration_two_operators, migration_figures_5_and_6,
    migration_figure_7, migration_figure_8, migration_figure_9, migration_readings,
    migration_optimum,
)  # fmt: skip
