"""Histograms of the open windows of some logs: by age, by footprints, by what they hold.

Everything here is of bounded size, however many windows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cec_store.format.columns import Ints
from cec_store.inspector.measuring.footprint_statistics import FootprintStatistics
from cec_store.report.facts import LogFacts

Document = dict[str, Any]
_RankedWindow = tuple[int, LogFacts, int]
"""The number to rank by, the log, and the index of the window in it."""
_BINS = 30
_SAMPLES = 4000
"""Windows of one log that a histogram counts, evenly spread over the sorted values."""
_SHARES = np.unique(np.concatenate([np.geomspace(0.001, 0.1, 16).round(4), np.linspace(0, 1, 41)]))
_TIME_STEPS_US = tuple(
    unit * count
    for unit, counts in (
        (1e3, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1e6, (1, 2, 5, 10, 15, 30)),
        (6e7, (1, 2, 5, 10, 15, 30)),
        (3.6e9, (1, 2, 3, 6, 12)),
        (8.64e10, (1, 2, 5, 10, 30, 100, 365)),
    )
    for count in counts
)
_FOOTPRINT_BINS = (1, 2, 3, 5, 9, 17, 33)


def _sampled(values: Ints, weight: float) -> tuple[Ints, NDArray[np.float64]]:
    """Some of the values, evenly out of their order, and for how many each of them stands."""
    values = np.sort(values)
    if len(values) <= _SAMPLES:
        return values, np.full(len(values), weight)
    places = (np.arange(_SAMPLES) * len(values)) // _SAMPLES
    return values[places], np.full(_SAMPLES, weight * len(values) / _SAMPLES)


def _histogram(
    values: Sequence[tuple[Ints, float]], steps: Sequence[float] = ()
) -> Document | None:
    """Return a histogram of values, each with the number of windows that it stands for.

    Bins are as wide as the first of these steps that is wide enough; else as a round number.
    """
    samples = [_sampled(sampled, weight) for sampled, weight in values if len(sampled)]
    if not samples:
        return None
    taken = np.concatenate([sample for sample, _ in samples]).astype(np.float64)
    weights = np.concatenate([weight for _, weight in samples])
    least = float(taken.max()) / _BINS
    step = next((step for step in steps if step >= least), 0.0) or _nice_step(least)
    edges = np.arange(0, taken.max() + step * 1.001, step)
    counts, _ = np.histogram(taken, edges, weights=weights)
    return {"edges": edges.tolist(), "windows": np.rint(counts).astype(np.int64).tolist()}


def _nice_step(least: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = float(10.0 ** np.floor(np.log10(max(least, 1.0))))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= least * (1 - 1e-9))


def ages(logs: Sequence[FootprintStatistics]) -> Document:
    """Return histograms of the ages of open windows, in records and in microseconds."""
    return {
        "records": _histogram([(statistics.ages, statistics.weight) for statistics in logs]),
        "time_us": _histogram(
            [(statistics.ages_us, statistics.weight) for statistics in logs], _TIME_STEPS_US
        ),
    }


def lifetimes(logs: Sequence[FootprintStatistics]) -> Document | None:
    """Return a histogram of the windows that opened and closed within the extent, in records."""
    return _histogram([(statistics.lifetimes, statistics.weight) for statistics in logs])


def renewing(logs: Sequence[FootprintStatistics]) -> Document | None:
    """Return the extents in records if a share of each log's oldest windows were renewed now."""
    if not logs:
        return None
    windows, left = (np.zeros(len(_SHARES), np.int64) for _ in range(2))
    for statistics in logs:
        if not len(statistics.offsets):
            continue
        places = np.rint(_SHARES * len(statistics.offsets)).astype(np.int64)
        renewed = np.rint(places * statistics.weight).astype(np.int64)
        # The extent then begins with the next oldest window; each renewal adds a record.
        reach = np.append(statistics.ages, 0)[places]
        windows += renewed
        left += reach + renewed
    return {"share": _SHARES.tolist(), "windows": windows.tolist(), "extent_records": left.tolist()}


def footprint_counts(logs: Sequence[FootprintStatistics]) -> Document | None:
    """Return how many windows have left 1, 2, 3–4, … footprints in the extent, and of what kind."""
    if not logs:
        return None
    edges = np.array([*_FOOTPRINT_BINS, 2**62])
    totals = np.zeros((3, len(_FOOTPRINT_BINS)), np.int64)
    for statistics in logs:
        place = np.searchsorted(edges, statistics.counts, "right") - 1
        weights = (None, statistics.updates, statistics.renewals)
        counted = np.array([np.bincount(place, weight, len(_FOOTPRINT_BINS)) for weight in weights])
        totals += np.rint(counted * statistics.weight).astype(np.int64)
    names = ("windows", "updates", "renewals")
    return {"from": list(_FOOTPRINT_BINS), **dict(zip(names, totals.tolist(), strict=True))}


def named_windows(logs: Sequence[LogFacts], top: int) -> Document:
    """The windows that hold the extents open, and those with the most footprints."""
    oldest: list[_RankedWindow] = []
    busiest: list[_RankedWindow] = []
    for facts in logs:
        statistics = facts.footprints
        if statistics is None:
            continue
        first = range(min(top, len(statistics.offsets)))
        oldest += [(int(statistics.ages[window]), facts, window) for window in first]
        most = statistics.busiest(top).tolist()
        busiest += [(int(statistics.counts[window]), facts, window) for window in most]
    return {"oldest": _named(oldest, top), "busiest": _named(busiest, top)}


def _named(places: list[_RankedWindow], top: int) -> list[Document]:
    """The windows with the largest numbers, with their keys."""
    places = sorted(places, key=lambda place: -place[0])[:top]
    return [_row(facts, window) for _, facts, window in places]


def _row(facts: LogFacts, window: int) -> Document:
    statistics = facts.footprints
    assert statistics is not None
    [key] = facts.decoder.keys(statistics.keys([window]), facts.names)
    return {
        "log": facts.log.name,
        "key": key,
        "timestamp_us": int(statistics.timestamps_us[window]),
        "records_back": int(statistics.ages[window]),
        "updates": int(statistics.updates[window]),
        "renewals": int(statistics.renewals[window]),
    }
