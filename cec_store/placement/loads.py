"""Loads of key groups over time, and how they vary together: the paper's section 5.

A load is any unit that adds up over the groups of a node: seconds of a processor a second, rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum

import numpy as np

from cec_store.placement.layout import NOWHERE, Floats, Layout


class Reading(str, Enum):
    """Meanings of the correlation of a group with a node, which the paper leaves open."""

    NODE = "with the load of the node"
    GROUPS = "the mean over the groups of the node"
    SUM = "the sum over the groups of the node"


class LoadHistory:
    """The newest samples of each group, for as long as it has any."""

    def __init__(self, samples_max: int = 90) -> None:
        if samples_max < 2:
            raise ValueError(f"samples_max is {samples_max}: a correlation takes at least 2")
        self._samples: deque[dict[Hashable, float]] = deque(maxlen=samples_max)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, loads: Mapping[Hashable, float]) -> None:
        """One sample of all groups at the same moment.

        Raises:
            ValueError: a load below 0, or not a number; nothing is added.
        """
        for group, load in loads.items():
            if not 0 <= load < np.inf:
                raise ValueError(f"the load of {group} is {load}: it has to be at least 0")
        self._samples.append(dict(loads))

    def series(self, groups: Sequence[Hashable]) -> Floats:
        """Shape (groups, samples), oldest first; 0 where a sample has no such group."""
        rows = [[sample.get(group, 0.0) for group in groups] for sample in self._samples]
        return np.array(rows, np.float64).reshape(len(rows), len(groups)).T


def checked_loads(loads: Floats, layout: Layout) -> Floats:
    """The series as it is.

    Raises:
        ValueError: it has another shape than (groups, samples), or a load that is none.
    """
    if loads.ndim != 2 or len(loads) != len(layout.groups):
        raise ValueError(f"{len(layout.groups)} groups, but loads of shape {loads.shape}")
    if loads.size and not (np.isfinite(loads).all() and loads.min() >= 0):
        raise ValueError("loads have to be finite numbers of at least 0")
    return loads


def standard_scores(series: Floats) -> Floats:
    """Return each row centred and scaled to length 1; a row that never varies is all 0."""
    if not series.shape[1]:
        return series
    centred = series - series.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    # The mean of equal numbers may differ from them in the last digits.
    varies = length > 1e-9 * np.linalg.norm(series, axis=1, keepdims=True)
    scores: Floats = np.where(varies, centred / np.where(varies, length, 1.0), 0.0)
    return scores


def correlations(
    loads: Floats, layout: Layout, reading: Reading = Reading.NODE, least: float | None = None
) -> Floats:
    """Pearson's, of each group with each node; shape (groups, nodes).

    0 where a group or node does not vary, and with a node that processes nothing.

    Args:
        least: what is nearer to 0 counts as 0: 2 / √samples unless given, which chance alone
            exceeds once in twenty times. Without it, chance would decide between nodes that have
            nothing to do with a group, and put the copies of all groups at the same one.
    """
    checked_loads(loads, layout)
    if least is None:
        least = 2 / max(1, loads.shape[1]) ** 0.5
    of_groups = standard_scores(loads)
    owned = layout.owned.astype(np.float64)
    if reading is Reading.NODE:
        correlation = _significant(of_groups @ standard_scores(owned.T @ loads).T, least)
    else:
        correlation = _significant(of_groups @ of_groups.T, least) @ owned
        if reading is Reading.GROUPS:
            correlation = correlation / np.maximum(1.0, owned.sum(axis=0))
    # Round, so that costs equal up to rounding are ties, which load decides.
    rounded: Floats = np.round(correlation, 9) + 0.0
    return rounded


def _significant(correlation: Floats, least: float) -> Floats:
    kept: Floats = np.where(np.abs(correlation) < least, 0.0, correlation)
    return kept


def costs(
    loads: Floats, layout: Layout, reading: Reading = Reading.NODE, least: float | None = None
) -> Floats:
    """Return the cost of a copy of each group at each node, corr · load; shape (groups, nodes)."""
    priced: Floats = correlations(loads, layout, reading, least) * mean_loads(loads)[:, None]
    return priced


def mean_loads(loads: Floats) -> Floats:
    """Return the mean load of each group over all samples; 0 without samples."""
    if not loads.shape[1]:
        return np.zeros(len(loads))
    means: Floats = loads.mean(axis=1)
    return means


def score(layout: Layout, priced: Floats) -> float:
    """The value that an optimal allocation minimizes: the costs of all copies.

    A copy that is nowhere counts as the dearest node does.
    """
    if not layout.holders.size:
        return 0.0
    group = np.arange(len(layout.groups))[:, None]
    dearest = priced.max(axis=1, initial=0.0)[:, None]
    cost = np.where(layout.holders == NOWHERE, dearest, priced[group, layout.holders])
    return float(cost.sum())
