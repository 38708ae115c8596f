"""What a restart costs against what it costs to keep it short, over the target Q."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cec_store.report.facts import LogFacts

_FACTORS = np.geomspace(1.1, 32, 40)
_RECORDS_MIN = 1000
"""Fewer are read in no time, which says nothing of the rate."""


def load_rate(logs: Sequence[LogFacts]) -> float | None:
    """Records of extents that were read here in a second; ``None`` where too few were."""
    records = sum(facts.extent_records for facts in logs if facts.load_s)
    seconds = sum(facts.load_s for facts in logs)
    return records / seconds if records >= _RECORDS_MIN else None


def recovery_curve(logs: Sequence[LogFacts], rate: float | None) -> dict[str, Any] | None:
    """For targets Q from a little over N upward: records to load, and CHECKs that keep it so.

    Between two CHECKs of a window the log advances by Q − N records, so each record of output
    brings N ÷ (Q − N) CHECKs (see :class:`cec_store.policy.CostBenefit`).
    """
    windows = sum(facts.open_windows for facts in logs)
    if not windows:
        return None
    q = np.unique(np.rint(windows * _FACTORS).astype(np.int64))
    q = q[q > windows]
    return {
        "extent_target": q.tolist(),
        "load_s": None if rate is None else (q / rate).tolist(),
        "checks_per_record": (windows / (q - windows)).tolist(),
        "now": sum(facts.extent_records for facts in logs),
        "open_windows": windows,
    }
