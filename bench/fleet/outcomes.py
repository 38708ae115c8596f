"""Availability of a fleet's queries over time, from their batches (Su and Zhou, 7.2).

A query is available in an interval where the rows of its batches were at most 1.2 times as late on
average as before the failure: the paper's relative latency, and its threshold. Rows that wait for
triggers are late in steps of one: a query whose batches come to stand a trigger behind those of
what it reads stays so, and is not behind. So a trigger is allowed on top where the caller asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

THETA = 1.2
USUAL_BATCHES = 5
Batches = Mapping[str, Sequence[tuple[float, float]]]
"""Batches by query: when each was done, wall clock, and how late its rows were on average, in s."""


def lateness_of(batches: Batches, names: Sequence[str], before_s: float) -> dict[str, float]:
    """Return for each query the median of its last batches before a moment, in seconds.

    Raises:
        ValueError: a query had none.
    """
    lateness = {}
    for name in names:
        late = [late for done, late in batches.get(name, ()) if done <= before_s][-USUAL_BATCHES:]
        if not late:
            raise ValueError(f"{name}: no batch was seen before the loss")
        lateness[name] = float(np.median(late))
    return lateness


def interval_s(every_s: float) -> float:
    """The paper's interval: long enough for a batch or two of each query."""
    return 2.5 * every_s


def unavailable(
    batches: Batches, usual: Mapping[str, float], at_s: float, every_s: float, allowed_s: float
) -> list[str]:
    """Names of the queries that are not available at a moment, wall clock.

    Args:
        allowed_s: How much later than 1.2 times as late as usual their rows may be.
    """
    missing = []
    since_s = at_s - interval_s(every_s)
    for name, before in usual.items():
        late = [late for done, late in batches.get(name, ()) if since_s < done <= at_s]
        if not late or float(np.mean(late)) > THETA * before + allowed_s:
            missing.append(name)
    return missing


def series(
    batches: Batches,
    usual: Mapping[str, float],
    every_s: float,
    span_s: tuple[float, float],
    allowed_s: float,
) -> list[tuple[float, int]]:
    """Seconds since the loss, and how many queries are available then; a point a second.

    Args:
        span_s: From the loss to the end, wall clock.
        allowed_s: As in :func:`unavailable`.
    """
    gone = [
        (float(at - span_s[0]), len(unavailable(batches, usual, float(at), every_s, allowed_s)))
        for at in np.arange(*span_s, 1.0)
    ]
    return [(at, len(usual) - count) for at, count in gone]


def lost_query_s(points: Sequence[tuple[float, int]], queries: int) -> float:
    """The area of unavailable queries over time, in seconds of one query."""
    return float(sum(queries - available for _, available in points))


def first_back_s(points: Sequence[tuple[float, int]]) -> float:
    """Return seconds from the loss until a query is available again, or until the end if none is.

    Where the failure is never felt by all of them, until the least are.
    """
    least = min(available for _, available in points)
    low = next(place for place, (_, available) in enumerate(points) if available == least)
    later = [at for at, available in points[low:] if available > least]
    return later[0] if later else points[-1][0]
