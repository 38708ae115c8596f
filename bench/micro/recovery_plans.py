"""Recovery plans: how long they take, and how near to the optimum they are (the paper's Figure 16).

`plan_ms_1000_queries`, and `plan_1000_queries_s` in seconds: from the failed partitions to the plan
of BestDensity, a thousand queries over ten thousand partitions that have all failed, room for half.
`bestdensity_vs_optimum`: the sum of its plan's priorities over that of the exact optimum, the mean
over the settings of Figure 16: 18 queries; partitions shared by at most 3 or 6 of them, by Zipf
with 0.2 or 0.5, priorities random or by workload; 100 topologies for each, and room for 20, 40, 60
and 80 % of what failed. `greedy_vs_optimum` and `operator_centric_vs_optimum`: the same of the
short paper's greedy and of the operator-centric one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np

from bench.harness.rounds import Options, options, race, report
from bench.simulators.topologies import Drawn, drawn
from cec_store.recovery_plans import (
    Outage,
    Planner,
    Topology,
    best_density,
    dynamic_program,
    greedy,
    operator_centric,
    optimum,
)

TARGETS = {
    "plan_ms_1000_queries": "at most 1000",
    "bestdensity_vs_optimum": "at least 0.95",
    "greedy_vs_optimum": "report",
    "operator_centric_vs_optimum": "report",
}
QUERIES, PARTITIONS = 1_000, 10_000
SIZE = 19
"""Partitions of each of the thousand queries: with at most 3 sharers, ten thousand in all."""
TOPOLOGIES, TOPOLOGIES_QUICK = 100, 4
SHARES = (0.2, 0.4, 0.6, 0.8)
SETTINGS = {
    "shared by at most 3": Drawn(sharing_max=3),
    "shared by at most 6": Drawn(sharing_max=6),
    "Zipf, s = 0.2": Drawn(sharing_max=6, skew=0.2),
    "Zipf, s = 0.5": Drawn(sharing_max=6, skew=0.5),
    "random priorities": Drawn(),
    "priorities by workload": Drawn(by_workload=True),
}
PLANNERS: Mapping[str, Planner] = {
    "BestDensity": best_density,
    "greedy": greedy,
    "operator-centric": operator_centric,
}


def whole(topology: Topology) -> Outage:
    """All partitions have failed."""
    return Outage.of(topology, topology.partitions)


def seconds(planner: Planner, topology: Topology) -> float:
    began = time.perf_counter()
    planner(whole(topology), float(topology.cost.sum()) / 2)
    return time.perf_counter() - began


@contextmanager
def silent() -> Iterator[None]:
    """HiGHS prints lines of its own now and then, below Python's standard output."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def shares_of_optimum(how: Drawn, topologies: int) -> dict[str, list[float]]:
    """Return by planner its plans' priorities over the optimum's, means by amount of room."""
    means: dict[str, list[float]] = {name: [] for name in PLANNERS}
    for share in SHARES:
        ratios: dict[str, list[float]] = {name: [] for name in PLANNERS}
        for seed in range(topologies):
            outage = whole(drawn(how, np.random.default_rng([seed, round(100 * share)])))
            room = share * float(outage.cost.sum())
            with silent():
                best = optimum(outage, room).priority
            for name, planner in PLANNERS.items() if best else ():
                ratios[name].append(planner(outage, room).priority / best)
        for name, shares in ratios.items():
            means[name].append(float(np.mean(shares)) if shares else 1.0)
    return means


def figure_16(asked: Options) -> dict[str, float]:
    topologies = asked.size(TOPOLOGIES, TOPOLOGIES_QUICK)
    print(f"share of the optimum, mean of {topologies} topologies of 18 queries; room for")
    print(f"{'':24} {'':18}" + "".join(f"{share:8.0%}" for share in SHARES))
    means: dict[str, list[float]] = {name: [] for name in PLANNERS}
    for setting, how in SETTINGS.items():
        for name, shares in shares_of_optimum(how, topologies).items():
            print(f"{setting:24} {name:18}" + "".join(f"{value:8.3f}" for value in shares))
            means[name].append(float(np.mean(shares)))
    return {name: float(np.mean(shares)) for name, shares in means.items()}


def exact_ones(asked: Options) -> None:
    """Print how long the exact planners take at the paper's size."""
    topologies = [drawn(Drawn(), np.random.default_rng(seed)) for seed in range(3)]
    for name, planner in (("Algorithm 4", dynamic_program), ("HiGHS", optimum)):
        taken = [seconds(planner, topology) for topology in topologies[: asked.rounds]]
        print(f"18 queries, {name}: {1e3 * float(np.median(taken)):,.0f} ms")


def plan_times(asked: Options) -> float:
    queries = asked.size(QUERIES, QUERIES)
    how = Drawn(queries=max(3, queries), size=SIZE, sharing_max=3)
    topology = drawn(how, np.random.default_rng(1))
    assert topology.needed_by, "of the graph alone: it is known before anything fails"
    contestants = {name: partial(seconds, planner, topology) for name, planner in PLANNERS.items()}
    timings = race(contestants, asked.rounds)
    print(
        f"{len(topology.outputs):,} queries, {len(topology.partitions):,} partitions, room for half"
    )
    for name, timing in timings.items():
        print(f"  {name:18} {1e3 * timing.median:8.0f} ms (best {1e3 * timing.best:.0f})")
    return timings["BestDensity"].median


def main() -> None:
    with options(__doc__, turns=(5, 3)) as asked:
        taken_s = plan_times(asked)
        exact_ones(asked)
        means = figure_16(asked)
        report({
            "plan_ms_1000_queries": 1e3 * taken_s,
            "plan_1000_queries_s": taken_s,
            "bestdensity_vs_optimum": means["BestDensity"],
            "greedy_vs_optimum": means["greedy"],
            "operator_centric_vs_optimum": means["operator-centric"],
        })  # fmt: skip


if __name__ == "__main__":
    main()
