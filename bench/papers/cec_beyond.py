"""Beyond the paper, on its workload: policies against fixed targets, checkpoints that stop the
operator, skewed keys and windows that overlap.

Everything here runs in one process: the operator, its output queue on disk, and a recovery from it.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from bench.harness.bids import BATCH_ROWS
from bench.harness.rounds import Options, WarmClock, race
from bench.papers.cec_baselines import (
    ClockedAggregate,
    PeriodicCheckpoints,
    recover,
    same_states,
    states_of,
)
from bench.papers.cec_graph import extents
from bench.papers.cec_input import Bids
from cec_store import CostBenefit, Never, RecoveryTime, Targets, open_queue
from cec_store.checkpoints.policy import Policy
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.runner import Runner, record_schema

ITEMS = 100_000
WINDOW = 10
Figures = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Bids into windows; ``warm_rows`` come before the clock."""

    source: Bids
    window: CountWindow
    warm_rows: int

    def operator(self) -> ClockedAggregate:
        names = self.source.schema.names[1:-1]
        return ClockedAggregate(
            group_by=["item"],
            aggregates={f"average_{name}": ("avg", name) for name in names},
            window=self.window,
            input_schema=self.source.schema,
        )


def case(
    asked: Options, rows: int, warm_rows: int, window: CountWindow | None = None, skew: float = 0.0
) -> Case:
    items = max(1, int(ITEMS * min(1.0, asked.scale)))
    return Case(Bids(items, rows, skew), window or CountWindow(WINDOW), warm_rows)


def run(work: Case, asked: Options, policy: Policy | None, figures: Figures) -> float:
    """Seconds from the end of the warm-up to all output durable; into ``found``, what a recovery
    of it takes and how the extents were."""
    path = asked.folder / "beyond"
    operator = work.operator()
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [work.source], queue, policy, checkpoints=policy is not None)
        clock = WarmClock(work.warm_rows)
        runner.run(partial(_progress, operator, clock))
        seconds = clock.seconds()
    figures["checks"] = runner.checks_written
    figures["records"] = runner.records_written
    figures["pause_s"] = operator.longest_pause_s(work.warm_rows)
    del operator, runner  # not beside those of the recovery: ten million windows take gigabytes
    if policy is not None:
        figures["samples"] = extents(path)
        _recover(work, path, figures)
    shutil.rmtree(path)
    return seconds


def _progress(operator: ClockedAggregate, clock: WarmClock, rows: int) -> None:
    operator.ready()
    clock(rows)


def _recover(work: Case, path: Any, figures: Figures) -> None:
    operator = work.operator()
    with open_queue(path, "a", schema=record_schema(operator)) as queue:
        began = time.perf_counter()
        recovery = Runner(operator, [work.source], queue).recovery
        assert recovery is not None
        figures["recovery_s"] = time.perf_counter() - began
        figures["load_s"] = recovery.load_s
        figures["replay_s"] = recovery.replay_s
        figures["replayed_rows"] = recovery.replayed_rows
        figures["extent"] = recovery.extent.records
        figures["extent_bytes"] = recovery.extent.bytes
        figures["open_windows"] = recovery.extent.open_windows


def compared(work: Case, asked: Options, policies: dict[str, Policy], rounds: int) -> Figures:
    """Each policy against no checkpoints: throughput lost, and what a recovery takes."""
    measured: Figures = {name: {} for name in ("none", *policies)}
    contestants = {
        name: partial(run, work, asked, policy, measured[name])
        for name, policy in {"none": None, **policies}.items()
    }
    timings = race(contestants, rounds)
    rows = work.source.rows - work.warm_rows
    for name, timing in timings.items():
        outcome = measured[name]
        outcome["rows_per_s"] = rows / timing.best
        outcome["lost"] = 1 - timings["none"].best / timing.best
        outcome["rows_per_s_median"] = rows / timing.median
        outcome["lost_median"] = 1 - timings["none"].median / timing.median
    return measured


def within(samples: list[tuple[int, int, int]], policy: Targets) -> float:
    """The share of frames with q ≤ Q."""
    return float(np.mean([q <= policy.extent_target(n) for q, n, _ in samples]))


def frontier(asked: Options) -> Figures:
    """Overhead against recovery time: fixed Q, fixed U, cost and benefit, a recovery time."""
    rows = asked.size(10_000_000, 2_000_000)
    work = case(asked, rows, min(rows // 2, 64 * BATCH_ROWS))
    policies: dict[str, Policy] = {"OPEN alone": Never()}
    factors = (2.0, 4.0) if asked.quick else (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
    policies |= {f"Q = {factor:g} N": Targets(extent_factor=factor) for factor in factors}
    limits = (500_000,) if asked.quick else (125_000, 250_000, 500_000, 1_000_000)
    policies |= {
        f"U = {limit:,}": Targets(extent_factor=None, replay_rows=limit) for limit in limits
    }
    times = (600,) if asked.quick else (1, 10, 100, 1_000, 10_000)
    policies |= {
        f"a failure in {mean:,} s": CostBenefit(mean_time_between_failures_s=mean) for mean in times
    }
    limits_s = (0.3,) if asked.quick else (0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
    policies |= {f"back in {limit:g} s": RecoveryTime(limit) for limit in limits_s}
    measured = compared(work, asked, policies, 1 if asked.quick else 2)
    for name, policy in policies.items():
        if isinstance(policy, Targets) and policy.extent_factor is not None:
            measured[name]["within_q"] = within(measured[name]["samples"], policy)
    return _without_samples(measured)


def skewed(asked: Options) -> Figures:
    """Zipf's law over the items: few windows are fast, most are slow."""
    rows = asked.size(10_000_000, 2_000_000)
    measured: Figures = {}
    for skew in (1.2,) if asked.quick else (0.0, 0.8, 1.2, 1.5):
        work = case(asked, rows, rows // 2, skew=skew)
        measured[f"{skew:g}"] = _without_samples(_q2(work, asked))
    return measured


def sliding(asked: Options) -> Figures:
    """Windows of ten rows that begin anew every ten, five and two rows."""
    rows = asked.size(5_000_000, 1_500_000)
    measured: Figures = {}
    for advance in (5,) if asked.quick else (10, 5, 2):
        work = case(asked, rows, rows // 2, window=CountWindow(WINDOW, advance))
        measured[str(advance)] = _without_samples(_q2(work, asked))
    return measured


def _q2(work: Case, asked: Options) -> Figures:
    policies: dict[str, Policy] = {"OPEN alone": Never(), "Q = 2 N": Targets(extent_factor=2.0)}
    measured = compared(work, asked, policies, 1 if asked.quick else 2)
    samples = measured["Q = 2 N"]["samples"]
    measured["Q = 2 N"]["within_q"] = within(samples, Targets(extent_factor=2.0))
    return measured


def _without_samples(measured: Figures) -> Figures:
    return {
        name: {key: value for key, value in outcome.items() if key != "samples"}
        for name, outcome in measured.items()
    }


# -- checkpoints that stop the operator -----------------------------------------------------------


def pauses(asked: Options) -> Figures:
    """Return how long the operator stands still: eventual checkpoints, whole ones, increments."""
    items = asked.size(1_000_000, 100_000)
    # Until the operator's tables have all the memory that they come to use: pages of it that are
    # new take milliseconds each.
    warm_rows, rows = 24 * items, 34 * items
    work = Case(Bids(items, rows), CountWindow(WINDOW), warm_rows)
    every = 2 * items
    measured: Figures = {"eventual": {}, "whole": {}, "increments": {}}
    contestants = {
        "none": partial(run, work, asked, None, {}),
        "eventual": partial(_eventual, work, asked, measured["eventual"]),
        "whole": partial(_periodic, work, asked, every, 1, measured["whole"]),
        "increments": partial(_periodic, work, asked, every // 8, 16, measured["increments"]),
    }
    timings = race(contestants, 1 if asked.quick else 3)
    for name, outcome in measured.items():
        outcome["lost"] = 1 - timings["none"].best / timings[name].best
        outcome["rows_per_s"] = (rows - warm_rows) / timings[name].best
        outcome["pause_s"] = pause_s(name, outcome["pauses_s"])
    return measured


def pause_s(checkpoints: str, rounds_s: list[float]) -> float:
    """Return seconds: the longest of all rounds for eventual checkpoints, the median for others.

    ``rounds_s`` has the longest pause of each round for the former, the median for the latter.
    """
    return max(rounds_s) if checkpoints == "eventual" else median(rounds_s)


def _eventual(work: Case, asked: Options, figures: Figures) -> float:
    seconds = run(work, asked, Targets(extent_factor=2.0), figures)
    figures.setdefault("pauses_s", []).append(figures["pause_s"])
    figures.pop("samples")
    return seconds


def _periodic(
    work: Case, asked: Options, every_rows: int, whole_every: int, figures: Figures
) -> float:
    """A run with periodic checkpoints; its recovery must come to the same state."""
    path = asked.folder / "periodic"
    operator = work.operator()
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        driver = PeriodicCheckpoints(operator, work.source, queue, every_rows, whole_every)
        clock = WarmClock(work.warm_rows)
        driver.run(clock)
        seconds = clock.seconds()
    with open_queue(path, "a") as queue:
        recovered = recover(queue, work.operator(), work.source, work.source.rows)
    expected = states_of(operator, driver.open_slots())
    if not same_states(expected, states_of(recovered.operator, recovered.slots)):
        raise AssertionError("the recovered state is not the operator's")
    shutil.rmtree(path)
    taken = [seconds_each for at, seconds_each in driver.checkpoint_s if at > work.warm_rows]
    figures.setdefault("pauses_s", []).append(median(taken))
    figures.setdefault("longest_s", []).append(max(taken))
    figures["checkpoints"] = len(taken)
    figures["windows_each"] = median(driver.checkpoint_windows[-len(taken) :])
    figures["load_s"] = recovered.load_s
    figures["replay_s"] = recovered.replay_s
    figures["replayed_rows"] = recovered.replayed_rows
    figures["extent"] = recovered.extent
    figures["open_windows"] = len(recovered.slots)
    return seconds
