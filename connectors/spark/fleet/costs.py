"""Cost of a query: seconds of executor processor time for each second of its input.

A second of the clock brings a second of input, whether the query runs or is held back. So what a
query has spent counts over the time since it had last caught up with its input: what it spends on
what waited meanwhile is not taken for its usual cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Any

from cec_store.connectors.spark.executors.loads import TASK_LOADS
from cec_store.connectors.spark.fleet.outer import outer_lag
from cec_store.errors import CecError
from cec_store.partitioned.offsets import Positions

LEAST_S = 5.0
"""A cost is told once it was measured for so long."""


@dataclass(frozen=True)
class QueryCost:
    """Cost of one query: sums, in seconds, in which older measurements weigh less."""

    cpu_s: float = 0.0
    input_s: float = 0.0
    pending_cpu_s: float = 0.0
    """Since it had last caught up."""
    caught_up_at_s: float | None = None
    """Wall clock; ``None``: never yet, and what the first batches have cost says little."""

    @property
    def cores(self) -> float | None:
        """Seconds of a processor for a second of input; ``None``: not known yet."""
        return self.cpu_s / self.input_s if self.input_s >= LEAST_S else None

    def spent(self, cpu_s: float) -> QueryCost:
        return replace(self, pending_cpu_s=self.pending_cpu_s + cpu_s)

    def caught_up(self, now_s: float, half_life_s: float) -> QueryCost:
        """Return its cost, given that it has processed all of its input at this moment."""
        if self.caught_up_at_s is None or now_s < self.caught_up_at_s:
            return replace(self, pending_cpu_s=0.0, caught_up_at_s=now_s)
        passed_s = now_s - self.caught_up_at_s
        if passed_s == 0:
            return self
        kept = 0.5 ** (passed_s / half_life_s)
        # What of these seconds counts now, the older ones less: a night without input is no night
        # after which a query costs nothing for hours.
        counted_s = (1 - kept) * half_life_s / log(2)
        cpu_s = self.pending_cpu_s * counted_s / passed_s
        return QueryCost(self.cpu_s * kept + cpu_s, self.input_s * kept + counted_s, 0.0, now_s)


class CpuMeter:
    """Processor time of each query's tasks, from Spark's task metrics.

    The driver begins to count with the first meter of an application.
    """

    def __init__(self, session: Any) -> None:
        loads = session._jvm
        for part in TASK_LOADS.split("."):
            loads = getattr(loads, part)
        self._counted = loads.of(session.sparkContext._jsc.sc())
        self._last: Mapping[str, int] = {}

    def read(self) -> dict[str, float]:
        """Seconds since the last reading, by run id."""
        now: dict[str, int] = json.loads(self._counted.queriesText())
        seconds = {run: (ns - self._last.get(run, 0)) / 1e9 for run, ns in now.items()}
        self._last = now
        return seconds


def is_caught_up(progress: Any, *, takes_all: bool = False) -> bool:
    """Return True if no source is more records behind than the batch has taken from it.

    ``takes_all``: a batch takes all that is there from sources whose lag Spark does not say.
    """
    for source in progress.sources:
        if "recordsBehindLatest" in (source.metrics or {}):
            behind: int | None = int(source.metrics["recordsBehindLatest"])
            taken = _taken(source)
        else:
            behind, taken = outer_lag(source).records, int(source.numInputRows)
        if (not takes_all) if behind is None else behind > taken:
            return False
    return True


def _taken(source: Any) -> int:
    """Number of records from where a batch began to where it ended; 0 where this is not known.

    Spark's ``numInputRows`` counts what tasks read: each record twice if `foreachBatch` acts twice.
    """
    try:
        texts = (source.startOffset, source.endOffset)
        start, end = (Positions.of(json.loads(text) or {}) for text in texts)
    except (CecError, ValueError):
        return 0
    if start.queue != end.queue:
        return 0
    return sum(offset - start.offsets.get(number, offset) for number, offset in end.offsets.items())
