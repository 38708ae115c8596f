"""The availability part's tables in docs/evaluation.md; each is a function of its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.papers import availability_values as paper
from bench.papers.tables import Figures, beside_targets, percent, table

SCHEMES = (
    "amnesia", "passive standby", "upstream backup", "active standby", "eventual, Q = 2 N",
    "eventual, Q = N",
)  # fmt: skip
PRECISE = ("passive standby, precise", "upstream backup, precise", "active standby, precise")


def fixed(value: float) -> str:
    return f"{value:.2f}"


def availability_table_6(figures: Figures) -> str:
    rows = []
    for network, schemes in figures.items():
        for scheme in SCHEMES:
            point = schemes[scheme]
            printed = paper.TABLE_6[network].get(scheme)
            overhead, recovery = map(fixed, printed) if printed else (None, None)
            cells = [fixed(point["overhead_percent"]), overhead, fixed(point["recovery_ms"]),
                     recovery, fixed(point["error_ms"]), point["replayed"], point["repeated"],
                     point["lost"], fixed(point["held_ms"])]  # fmt: skip
            rows.append([f"{network}, {scheme}", *cells])
    heads = ["network, scheme", "overhead, %", "paper", "recovery, ms", "paper", "± ms",
             "input again", "output again", "lost", "output waits, ms"]  # fmt: skip
    return table(heads, rows)


def _sweep(figures: Figures, head: str, printed: Mapping[int, tuple[float, ...]]) -> str:
    rows = []
    for tuples, (their_overhead, their_passive, their_upstream) in printed.items():
        schemes = figures[str(tuples)]
        passive, upstream = schemes["passive standby"], schemes["upstream backup"]
        rows.append(
            [str(tuples), fixed(passive["overhead_percent"]), fixed(their_overhead),
             fixed(passive["recovery_ms"]), f"{their_passive:.1f}", fixed(upstream["recovery_ms"]),
             f"{their_upstream:.1f}", fixed(schemes["active standby"]["recovery_ms"])]
        )  # fmt: skip
        for name in ("eventual, Q = 2 N", "eventual, Q = N"):
            rows[-1] += [
                fixed(schemes[name]["overhead_percent"]),
                fixed(schemes[name]["recovery_ms"]),
            ]
    heads = [head, "passive, %", "paper", "passive, ms", "paper", "upstream, ms", "paper",
             "active, ms", "Q = 2 N, %", "ms", "Q = N, %", "ms"]  # fmt: skip
    return table(heads, rows)


def availability_table_7(figures: Figures) -> str:
    return _sweep(figures, "window, tuples", paper.TABLE_7)


def availability_table_8(figures: Figures) -> str:
    return _sweep(figures, "advance, tuples", paper.TABLE_8)


def _figure(figures: Figures, names: tuple[str, ...], head: str) -> str:
    rows = [
        [name, *(f"{schemes[name]['overhead_percent']:.1f} %, {schemes[name]['recovery_ms']:.1f} ms"
                 for schemes in figures.values())]
        for name in names
    ]  # fmt: skip
    return table([head, *figures], rows)


def availability_figure_6(figures: Figures) -> str:
    return _figure(figures, SCHEMES + PRECISE, "interval, ms")


def availability_figure_7(figures: Figures) -> str:
    return _figure(figures, SCHEMES, "operators")


def availability_readings(figures: Figures) -> str:
    rows = [
        [name, percent(reading["table_6"]), percent(reading["table_7"]),
         percent(reading["table_8"]), fixed(reading["active_filter_ms"]),
         fixed(reading["active_aggregate_ms"]), reading["upstream_5_ms"]]
        for name, reading in figures.items()
    ]  # fmt: skip
    rows.append(["the paper", "", "", "", "1.80", "0.07", paper.FIGURE_7_UPSTREAM_5_MS])
    heads = ["reading", "Table 6, but one cell", "Table 7", "Table 8", "active, filter, ms",
             "active, aggregate, ms", "upstream, 5 operators, ms"]  # fmt: skip
    return table(heads, rows)


def availability_headline(figures: Figures) -> str:
    return beside_targets(figures, "papers/availability.py", "simulated")


def availability_machine(figures: Figures) -> str:
    return table(["", ""], list(figures.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    availability_machine, availability_headline, availability_table_6, availability_table_7,
    availability_table_8, availability_figure_6, availability_figure_7, availability_readings,
)  # fmt: skip


def availability_processes(figures: Figures) -> str:
    rows = []
    for interval_ms, lines in figures.items():
        for name, point in lines.items():
            rows.append(
                [f"{interval_ms} ms, {name}", fixed(point["log_percent"]),
                 fixed(point["read_percent"]), fixed(point["simulated_overhead_percent"]),
                 f"{point['recovery_ms']:.1f}", f"{point['simulated_recovery_ms']:.1f}",
                 f"{point['input_again']:.0f}", f"{point['simulated_input_again']:.0f}",
                 f"{point['lost']:.0f}", f"{point['simulated_lost']:.0f}"]
            )  # fmt: skip
    heads = ["interval, scheme", "log, %", "read, %", "simulated, %", "recovery, ms",
             "simulated, ms", "input again", "simulated", "lost", "simulated"]  # fmt: skip
    return table(heads, rows)


def availability_processes_machine(figures: Figures) -> str:
    return availability_machine(figures)


def process_tables() -> tuple[Callable[[Figures], str], ...]:
    """Return the tables of bench/papers/availability_processes.py."""
    return availability_processes_machine, availability_processes
