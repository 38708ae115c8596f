"""Fleets after a correlated failure: queries brought back one by one, against all and against none.

Topology 2 of Su and Zhou (`topology.py`): 15 queries on ten executors of one core each, of
which eight machines are lost by SIGKILL at once. Others come when the times of the paper's Figure 7
say, 2 to 6 minutes after they were asked for, in three quarters of that time. A query is available
while the rows of its batches are at most 1.2 times as late as before, and a trigger
(`outcomes.py`).

queries_hours_lost_vs_blocking  the area of unavailable queries over time, of a fleet that extends
                                its plan with each executor over one that is started again once the
                                last one has come
queries_hours_lost_vs_spark     the same over Spark, which runs all queries on what there is
first_query_back_vs_blocking    from the loss until a query is available again, over blocking's
strict_vs_blocking              as the first two, where no trigger is allowed, until all are back
strict_vs_spark
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.fleet.outcomes import first_back_s, lateness_of, lost_query_s, series, unavailable
from bench.fleet.worker import BLOCKING, INCREMENTAL, SPARK, Case, Outcome, Task, run
from bench.harness.rounds import Options, options, report

TARGETS = {
    "queries_hours_lost_vs_blocking": "at most 0.6",
    "queries_hours_lost_vs_spark": "at most 0.5",
    "first_query_back_vs_blocking": "at most 0.4",
    "query_s_lost": "report",
}
FASTEST_S, SLOWEST_S = 120.0, 360.0
"""Figure 7: the first and the last of 180 machines, after they were asked for."""


def gaps_s(machines: int, scale: float, seed: int) -> list[float]:
    """Between the arrivals of machines that are all asked for at once."""
    drawn = np.random.default_rng(seed).uniform(FASTEST_S, SLOWEST_S, machines) * scale
    return [float(gap) for gap in np.diff(np.sort(drawn), prepend=0.0)]


def task(chosen: Options, policies: list[str], lost: int | None = None, seed: int = 7) -> Task:
    """The same machines come at the same times whatever the policy."""
    if chosen.quick:
        lost = 3 if lost is None else lost
        gaps = gaps_s(lost, chosen.scale / 24, seed)
        return Task(
            chosen.folder / f"lost-{lost}", windows=2, tweets_per_s=20, every_s=3.0, executors=5,
            cases=[Case(policy, lost, gaps) for policy in policies], settle_s=10.0,
            horizon_s=90.0 * chosen.scale,
        )  # fmt: skip
    lost = 8 if lost is None else lost
    # Triggers and machines are as far apart as two cores can bear: at 10 s they were all busy.
    gaps = gaps_s(lost, chosen.scale * 3 / 4, seed)
    return Task(
        chosen.folder / f"lost-{lost}", windows=4, tweets_per_s=40, every_s=15.0, executors=10,
        cases=[Case(policy, lost, gaps) for policy in policies], settle_s=45.0,
        horizon_s=1200.0 * chosen.scale,
    )  # fmt: skip


def usual_of(outcome: Outcome, asked: Task) -> dict[str, float]:
    """Return how late each query's rows were before the loss, in seconds."""
    return lateness_of(outcome.batches, asked.shape.outputs, outcome.lost_s)


def points_of(outcome: Outcome, asked: Task, *, is_strict: bool = False) -> list[tuple[float, int]]:
    """Queries that are available, second by second until the horizon; strictly, to the end."""
    usual, span_s = usual_of(outcome, asked), (outcome.lost_s, outcome.ended_s)
    allowed_s = 0.0 if is_strict else asked.every_s
    points = series(outcome.batches, usual, asked.every_s, span_s, allowed_s)
    if is_strict:
        # Of what would have been seen after the end nothing is known.
        return points
    # It was ended before the horizon where all was well, and goes on as it was at the end: queries
    # may have come back after the last whole second.
    gone = unavailable(outcome.batches, usual, outcome.ended_s, asked.every_s, allowed_s)
    rest = range(len(points), int(asked.horizon_s))
    return [*points, *((float(at), len(usual) - len(gone)) for at in rest)]


@dataclass(frozen=True)
class Told:
    """Figures of a case that are compared, in seconds."""

    lost_s: float
    """Seconds that one query lost."""
    strict_s: float
    """The same where no trigger is allowed."""
    first_s: float
    """Seconds from the loss until a query is back."""


def told(outcome: Outcome, asked: Task) -> Told:
    """Also prints it."""
    points, usual = points_of(outcome, asked), usual_of(outcome, asked)
    strict = points_of(outcome, asked, is_strict=True)
    of = len(usual)
    case = Told(lost_query_s(points, of), lost_query_s(strict, of), first_back_s(points))
    print(
        f"{outcome.policy}, {outcome.lost} lost: {case.lost_s:,.0f} s of queries lost (strictly "
        f"{case.strict_s:,.0f}), one back after {case.first_s:.0f} s, {points[-1][1]} of {of} "
        f"available at the end, rows usually {np.median(list(usual.values())):.1f} s late"
    )
    for what, line in (("available", points), ("strictly", strict)):
        shown = line[:: max(1, len(line) // 40)]
        print(f"  {what}:", " ".join(str(available) for _, available in shown), flush=True)
    return case


def figures(rounds: Mapping[str, Sequence[Told]]) -> dict[str, float]:
    """Return the figures of the medians of each policy's rounds."""

    def median(policy: str, of: Callable[[Told], float]) -> float:
        return float(np.median([of(case) for case in rounds[policy]]))

    def over(policy: str, of: Callable[[Told], float]) -> float:
        return median(INCREMENTAL, of) / median(policy, of)

    return {
        "queries_hours_lost_vs_blocking": over(BLOCKING, lambda case: case.lost_s),
        "queries_hours_lost_vs_spark": over(SPARK, lambda case: case.lost_s),
        "first_query_back_vs_blocking": over(BLOCKING, lambda case: case.first_s),
        "strict_vs_blocking": over(BLOCKING, lambda case: case.strict_s),
        "strict_vs_spark": over(SPARK, lambda case: case.strict_s),
        "query_s_lost": median(INCREMENTAL, lambda case: case.lost_s),
    }


def main() -> None:
    with options(__doc__, turns=(2, 1), takes="under five minutes") as chosen:
        asked = task(chosen, [INCREMENTAL, BLOCKING, SPARK] * chosen.rounds)
        come_s = np.cumsum(asked.cases[0].gaps_s)
        print("machines come after", " ".join(f"{gap:.0f}" for gap in come_s), "s")
        rounds: dict[str, list[Told]] = {}
        for outcome in run(asked):
            rounds.setdefault(outcome.policy, []).append(told(outcome, asked))
        report(figures(rounds))


if __name__ == "__main__":
    main()
