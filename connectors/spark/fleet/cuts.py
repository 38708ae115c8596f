"""Consistent cuts through a fleet: the paper's global checkpoints (section 4.1), without markers.

A cut is a batch number of each query such that no query has read what its upstream had not written.
Spark's batches are what punctuations are in the paper: where a batch ends is noted by the query
that reads and, as a commit, by the queue that is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cec_store.connectors.spark.fleet.declaration import Graph

Offsets = Mapping[int, int]
"""Next offset of each partition of a queue."""


class History(Protocol):
    """Record of what queries have read and written; it grows, and no answer changes later."""

    def batches(self, query: str) -> Sequence[int]:
        """Batches of a query that are done and that it can go back to, ascending."""

    def read(self, query: str, batch: int, queue: str) -> Offsets:
        """Return the offsets up to which a query has read a queue with a batch."""

    def written(self, query: str, batch: int | None) -> Offsets:
        """Return the ends of a query's queue before the batch behind this one is in it.

        ``None`` stands for the batch before its first.
        """


def latest_cut(graph: Graph, history: History) -> dict[str, int | None] | None:
    """The latest consistent cut: of each query its last batch inside; ``None``: none yet.

    ``None`` altogether where a query cannot go back as far as its upstream asks for.
    """
    cut: dict[str, int | None] = {}
    for name in graph.queries:  # each after those that it reads
        limits = {
            queue: history.written(graph.writers[queue], cut[graph.writers[queue]])
            for queue in graph.reads(name)
            if queue in graph.writers
        }
        batches = history.batches(name)
        last_batch = next(
            (batch for batch in reversed(batches) if _is_inside(history, name, batch, limits)), None
        )
        if last_batch is None and batches and batches[0] > 0:
            return None
        cut[name] = last_batch
    return cut


def _is_inside(history: History, query: str, batch: int, limits: Mapping[str, Offsets]) -> bool:
    return all(
        is_below(history.read(query, batch, queue), limit) for queue, limit in limits.items()
    )


def is_below(read: Offsets, limit: Offsets) -> bool:
    """Return True if no partition was read beyond its limit; one without a limit has 0."""
    return all(offset <= limit.get(number, 0) for number, offset in read.items())


def needed(reads: Iterable[Offsets], partitions: int) -> dict[int, int]:
    """Return the offset of each partition from which on somebody will read again."""
    all_reads = list(reads)
    return {
        number: min((offsets.get(number, 0) for offsets in all_reads), default=0)
        for number in range(partitions)
    }
