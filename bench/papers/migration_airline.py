"""Figures 7 to 9 of the migration paper (7.3) on Spark: its airline job, small, with real flights.

Operators 1 to 3 are queries over all flights, those that were late, and all again; their key groups
(state partitions) are on four executors. Operator 4 takes a sample at a fixed rate, on a fifth. Two
days pass in as many steps as asked for; after the first third copies (warm replicas) are allocated,
and from then on groups leave executors that are above 80 %, by the rows of a step that Spark's task
metrics tell of. A full run writes bench/papers/migration_airline.json and the tables of
docs/evaluation.md.

airline_correlated_vs_even           the share of usable copies, by Algorithm 3 over evenly
airline_correlated_vs_even_assisted  the same of the share of moves that were assisted
airline_latency_vs_direct            what new owners loaded for with correlated copies, over what
                                     they would have, had all moves been direct
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness.apart import run_apart
from bench.harness.machine import describe
from bench.harness.rounds import ONE_TURN, Options, options, report
from bench.papers.migration_airline_worker import Outcome, Task
from bench.papers.report import publish
from bench.papers.tables import Figures, percent, table
from bench.simulators.placement.runs import Allocation

WORKER = str(Path(__file__).with_name("migration_airline_worker.py"))


def task(asked: Options, allocation: Allocation) -> Task:
    steps = asked.size(96, 24)
    return Task(
        asked.folder / allocation.name.lower(), allocation.value, groups=asked.size(12, 4),
        steps=steps, statistics=steps // 3, every_s=2.0,
    )  # fmt: skip


def line(outcome: Outcome, direct_ms: float) -> dict[str, float]:
    """Return the figures of one allocation; a direct move would have loaded for ``direct_ms``."""
    moves = max(1, outcome.moves)
    return {
        "moves": outcome.moves,
        "assisted": outcome.assisted / moves,
        "from_replica": outcome.from_replica / moves,
        "usable": outcome.usable / max(1, outcome.on_overloaded),
        "on_overloaded": outcome.on_overloaded,
        "latency_ms": sum(outcome.load_ms),
        "direct_latency_ms": direct_ms * outcome.moves,
        "overloaded_share": outcome.overloaded_looks / max(1, outcome.looks),
    }


def airline(figures: Figures) -> str:
    heads = ["", "moves", "assisted", "from a replica", "usable copies", "loaded, ms of direct",
             "executors overloaded, on average"]  # fmt: skip
    rows = [
        [name, outcome["moves"], percent(outcome["assisted"]), percent(outcome["from_replica"]),
         f"{percent(outcome['usable'])} of {outcome['on_overloaded']:,}",
         f"{outcome['latency_ms']:,.0f} of {outcome['direct_latency_ms']:,.0f}",
         outcome["overloaded_share"]]
        for name, outcome in figures.items()
    ]  # fmt: skip
    return table(heads, rows)


def airline_headline(figures: Figures) -> str:
    return table(["figure", "measured"], [[f"`{name}`", value] for name, value in figures.items()])


def airline_machine(figures: Figures) -> str:
    return table(["", ""], list(figures.items()))


TABLES: tuple[Callable[[Figures], str], ...] = (airline_machine, airline_headline, airline)


def headline(lines: dict[str, dict[str, float]]) -> dict[str, float]:
    correlated, even = (
        lines[allocation.value] for allocation in (Allocation.CORRELATED, Allocation.EVEN)
    )
    return {
        "airline_correlated_vs_even": correlated["usable"] / max(1e-3, even["usable"]),
        "airline_correlated_vs_even_assisted": correlated["assisted"] / max(1e-3, even["assisted"]),
        "airline_latency_vs_direct": correlated["latency_ms"]
        / max(1.0, correlated["direct_latency_ms"]),
    }


def main(asked: Options) -> None:
    began = time.perf_counter()
    machine: dict[str, Any] = describe(asked.folder)
    outcomes = {}
    for allocation in Allocation:
        one = task(asked, allocation)
        outcomes[allocation.value] = Outcome(**run_apart(WORKER, one.folder, asdict(one)))
        print(outcomes[allocation.value], flush=True)
    direct_ms = statistics.median(ms for outcome in outcomes.values() for ms in outcome.direct_ms)
    lines = {name: line(outcome, direct_ms) for name, outcome in outcomes.items()}
    machine["command"] = "python bench/papers/migration_airline.py" + " --quick" * asked.quick
    machine["steps, groups of an operator"] = f"{one.steps} of {one.every_s:g} s, {one.groups}"
    machine["a direct move loads for"] = f"{direct_ms:.0f} ms"
    machine["took"] = f"{time.perf_counter() - began:.0f} s"
    figures = {
        "airline_machine": machine, "airline": lines, "airline_headline": headline(lines),
    }  # fmt: skip
    publish(figures, "migration_airline", TABLES, quick=asked.quick)
    report(figures["airline_headline"])


if __name__ == "__main__":
    with options(__doc__, turns=ONE_TURN, takes="under five minutes") as asked:
        main(asked)
