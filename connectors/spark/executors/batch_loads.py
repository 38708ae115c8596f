"""Loads of state partitions over whole batches: what the adaptation manager goes by.

Pure: from the versions of queries' states, what their tasks have cost and a clock. A look in the
middle of a batch says nothing of the load, and two looks between two batches say that there is
none, whatever the trigger is. So a query's load counts from the end of a batch to that of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from cec_store.connectors.spark.executors.snapshot import PartitionId, Snapshot

MIN_BATCHES = 6
"""Loads of fewer jitter around a threshold, and move partitions to and fro."""


@dataclass(frozen=True)
class _Span:
    """The time between the ends of two batches of a query."""

    batches: int
    seconds: float
    cpu_s: Mapping[PartitionId, float]


@dataclass
class _Query:
    """One run of a query. Its first span begins with the first batch that is seen to end."""

    version: int
    at_s: float
    cpu_s: Mapping[PartitionId, float]
    idle_at: str | None
    """Timestamp of the last trigger that had no batch to run; ``None``: none is known."""
    has_begun: bool = False
    spans: deque[_Span] = field(default_factory=deque)
    is_new: bool = False
    """True if a span is in no sample yet."""

    @property
    def batches(self) -> int:
        return sum(span.batches for span in self.spans)


class OtherLoads:
    """Meter of what executors do for no partition of state, over the newest complete samples.

    It goes by the same stretches as `BatchLoads`: a look in the middle of a batch says nothing.

    Args:
        samples_max: Number of stretches over which the loads are means.
    """

    def __init__(self, samples_max: int = MIN_BATCHES) -> None:
        self._looks: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=samples_max + 1)

    def see(self, cpu_s: Mapping[str, float], at_s: float) -> None:
        """Take in the processor seconds so far of each executor, at the end of a sample."""
        if not self._looks or at_s > self._looks[-1][0]:
            self._looks.append((at_s, dict(cpu_s)))

    def loads(self) -> dict[str, float]:
        """Return processor seconds a second by executor; none before the second look."""
        if len(self._looks) < 2:
            return {}
        (began_s, before), (at_s, now) = self._looks[0], self._looks[-1]
        return {
            executor: max(0.0, spent - before.get(executor, 0.0)) / (at_s - began_s)
            for executor, spent in now.items()
        }

    def begin_anew(self) -> None:
        """Forget what was measured: after this other executors do the work."""
        self._looks.clear()


class BatchLoads:
    """Meter of the loads of partitions over the newest whole batches of their queries.

    Args:
        min_batches: A query of fewer has no load that is known.
    """

    def __init__(self, min_batches: int = MIN_BATCHES) -> None:
        if type(min_batches) is not int or min_batches < 1:
            raise ValueError(f"min_batches={min_batches!r}: a whole number, 1 or more")
        self._min_batches = min_batches
        self._queries: dict[str, _Query] = {}

    def see(
        self,
        snapshot: Snapshot,
        cpu_s: Mapping[PartitionId, float],
        at_s: float,
        idle: Mapping[str, str] | None = None,
    ) -> dict[Hashable, float] | None:
        """Take in a look at all queries; return a sample of all loads, where one is complete.

        A sample has a span of each query that ended since the last one, in processor seconds a
        second.

        Args:
            cpu_s: Processor time of each partition's tasks so far.
            at_s: Now, by any clock that does not jump.
            idle: When a trigger had no batch to run, by the run ids of queries whose last trigger
                had none. It counts as a batch that has cost nothing.
        """
        versions = _versions(snapshot)
        self._queries = {name: query for name, query in self._queries.items() if name in versions}
        for name, version in versions.items():
            own = {of: spent for of, spent in cpu_s.items() if of.query == name}
            known, idle_at = self._queries.get(name), (idle or {}).get(name)
            if known is None or version < known.version:
                self._queries[name] = _Query(version, at_s, own, idle_at)
            elif version > known.version or idle_at not in (None, known.idle_at):
                self._end_span(known, version, own, at_s)
                known.idle_at = idle_at
        if not self._queries or not all(query.is_new for query in self._queries.values()):
            return None
        sample: dict[Hashable, float] = {}
        for query in self._queries.values():
            sample |= _loads([query.spans[-1]])
            query.is_new = False
        return sample

    def _end_span(
        self, query: _Query, version: int, cpu_s: Mapping[PartitionId, float], at_s: float
    ) -> None:
        if query.has_begun and at_s > query.at_s:
            spent = {of: max(0.0, now - query.cpu_s.get(of, 0.0)) for of, now in cpu_s.items()}
            span = _Span(max(1, version - query.version), at_s - query.at_s, spent)
            query.spans.append(span)
            query.is_new = True
            while query.batches - query.spans[0].batches >= self._min_batches:
                query.spans.popleft()
        query.version, query.at_s, query.cpu_s = version, at_s, cpu_s
        query.has_begun = True

    @property
    def is_measured(self) -> bool:
        """Return True where the load of each query is known."""
        known = self._queries.values()
        return bool(known) and all(query.batches >= self._min_batches for query in known)

    def loads(self) -> dict[Hashable, float]:
        """Return the loads that are known, in processor seconds a second."""
        loads: dict[Hashable, float] = {}
        for query in self._queries.values():
            if query.batches >= self._min_batches:
                loads |= _loads(query.spans)
        return loads

    def begin_anew(self) -> None:
        """Forget what was measured: after this other executors do the work."""
        for query in self._queries.values():
            query.spans.clear()
            query.is_new = False


def _versions(snapshot: Snapshot) -> dict[str, int]:
    """Return the version of each query that all of its partitions have."""
    versions: dict[str, int] = {}
    for partition in snapshot.partitions:
        versions[partition.id.query] = min(
            versions.get(partition.id.query, partition.version), partition.version
        )
    return versions


def _loads(spans: deque[_Span] | list[_Span]) -> dict[Hashable, float]:
    seconds = sum(span.seconds for span in spans)
    loads: dict[Hashable, float] = {}
    for span in spans:
        for of, cpu_s in span.cpu_s.items():
            loads[of] = loads.get(of, 0.0) + cpu_s / seconds
    return loads
