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


def availability_table_6(found: Figures) -> str:
    rows = []
    for network, each in found.items():
        for scheme in SCHEMES:
            point = each[scheme]
            printed = paper.TABLE_6[network].get(scheme)
            overhead, recovery = map(fixed, printed) if printed else (None, None)
            cells = [fixed(point["overhead_percent"]), overhead, fixed(point["recovery_ms"]),
                     recovery, fixed(point["error_ms"]), point["replayed"], point["repeated"],
                     point["lost"], fixed(point["held_ms"])]  # fmt: skip
            rows.append([f"{network}, {scheme}", *cells])
    heads = ["network, scheme", "overhead, %", "paper", "recovery, ms", "paper", "± ms",
             "input again", "output again", "lost", "output waits, ms"]  # fmt: skip
    return table(heads, rows)


def _sweep(found: Figures, head: str, printed: Mapping[int, tuple[float, ...]]) -> str:
    rows = []
    for tuples, (their_overhead, their_passive, their_upstream) in printed.items():
        each = found[str(tuples)]
        passive, upstream = each["passive standby"], each["upstream backup"]
        rows.append(
            [str(tuples), fixed(passive["overhead_percent"]), fixed(their_overhead),
             fixed(passive["recovery_ms"]), f"{their_passive:.1f}", fixed(upstream["recovery_ms"]),
             f"{their_upstream:.1f}", fixed(each["active standby"]["recovery_ms"])]
        )  # fmt: skip
        for name in ("eventual, Q = 2 N", "eventual, Q = N"):
            rows[-1] += [fixed(each[name]["overhead_percent"]), fixed(each[name]["recovery_ms"])]
    heads = [head, "passive, %", "paper", "passive, ms", "paper", "upstream, ms", "paper",
             "active, ms", "Q = 2 N, %", "ms", "Q = N, %", "ms"]  # fmt: skip
    return table(heads, rows)


def availability_table_7(found: Figures) -> str:
    return _sweep(found, "window, tuples", paper.TABLE_7)


def availability_table_8(found: Figures) -> str:
    return _sweep(found, "advance, tuples", paper.TABLE_8)


def _figure(found: Figures, names: tuple[str, ...], head: str) -> str:
    rows = [
        [name, *(f"{each[name]['overhead_percent']:.1f} %, {each[name]['recovery_ms']:.1f} ms"
                 for each in found.values())]
        for name in names
    ]  # fmt: skip
    return table([head, *found], rows)


def availability_figure_6(found: Figures) -> str:
    return _figure(found, SCHEMES + PRECISE, "interval, ms")


def availability_figure_7(found: Figures) -> str:
    return _figure(found, SCHEMES, "operators")


def availability_readings(found: Figures) -> str:
    rows = [
        [name, percent(each["table_6"]), percent(each["table_7"]), percent(each["table_8"]),
         fixed(each["active_filter_ms"]), fixed(each["active_aggregate_ms"]),
         each["upstream_5_ms"]]
        for name, each in found.items()
    ]  # fmt: skip
    rows.append(["the paper", "", "", "", "1.80", "0.07", paper.FIGURE_7_UPSTREAM_5_MS])
    heads = ["reading", "Table 6, but one cell", "Table 7", "Table 8", "active, filter, ms",
             "active, aggregate, ms", "upstream, 5 operators, ms"]  # fmt: skip
    return table(heads, rows)


def availability_headline(found: Figures) -> str:
    return beside_targets(found, "papers/availability.py", "simulated")


def availability_machine(found: Figures) -> str:
    return table(["", ""], list(found.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (
    availability_machine, availability_headline, availability_table_6, availability_table_7,
    availability_table_8, availability_figure_6, availability_figure_7, availability_readings,
)  # fmt: skip


def availability_processes(found: Figures) -> str:
    rows = []
    for interval_ms, each in found.items():
        for name, point in each.items():
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


def availability_processes_machine(found: Figures) -> str:
    return availability_machine(found)


def process_tables() -> tuple[Callable[[Figures], str], ...]:
    """Return the tables of bench/papers/availability_processes.py."""
    return availability_processes_machine, availability_processes
