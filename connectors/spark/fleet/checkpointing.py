"""Global checkpoints of a fleet that runs: taken, recorded, and what they need kept in the queues.

The paper's sections 4.1 and 4.2.4. Every queue that the fleet reads has it as a consumer, which
acknowledges what lies before the oldest global checkpoint that is kept: no trim by consumers takes
anything that going back to one of them would read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cec_store.connectors.spark.fleet.cuts import latest_cut, needed
from cec_store.connectors.spark.fleet.declaration import Graph
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.history import FleetHistory
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint, Notes
from cec_store.errors import CecError, NotAQueue
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import registered
from cec_store.partitioned.by_reference.partitioned_consumer import (
    PartitionedConsumer,
    drop_consumer,
)

_log = logging.getLogger(__name__)


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Holds:
    """The fleet as a consumer of the queues that it reads. For one thread."""

    def __init__(
        self, folder: FleetFolder, name: str, graph: Graph, clock_us: Callable[[], int] = now_us
    ) -> None:
        self._folder = folder
        self._name = name
        self._clock_us = clock_us
        self._queues = graph.read_queues
        self._consumers: dict[str, PartitionedConsumer] = {}

    def hold(self, queues: Iterable[str]) -> None:
        """Register with those of these queues that are there by now.

        Raises:
            OutOfRange: one of them has deleted what the fleet needs.
        """
        for queue in queues:
            if queue not in self._consumers:
                log = ReferenceLog(self._folder.queue(queue))
                try:
                    consumer = PartitionedConsumer(log, self._name, None, self._clock_us)
                except NotAQueue:
                    continue
                self._consumers[queue] = consumer

    def hold_all(self) -> list[CecError]:
        """Register with all queues of the fleet; return the errors of those that cannot be held."""
        failures = []
        for queue in self._queues:
            try:
                self.hold([queue])
            except CecError as error:
                failures.append(error)
        return failures

    def release(self, oldest: GlobalCheckpoint) -> None:
        """Let queues delete all before ``oldest``, the oldest global checkpoint that is kept."""
        self.hold_all()
        for queue, offsets in oldest.needed.items():
            if queue in self._consumers:
                self._consumers[queue].acknowledge(effects_saved=dict(enumerate(offsets)))


def drop_holds(folder: FleetFolder, consumer: str, queues: Iterable[str]) -> None:
    """Drop a fleet's consumer of these queues; those that cannot be reached are logged."""
    for queue in queues:
        try:
            log = ReferenceLog(folder.queue(queue))
            if consumer in registered(log.open(), queue):
                drop_consumer(log, consumer, now_us)
        except NotAQueue:
            continue
        except CecError as error:
            _log.warning("%s: consumer %s of %s stays: %s", folder.path, consumer, queue, error)


@dataclass(frozen=True)
class Taken:
    """The latest consistent cut through a fleet."""

    new: GlobalCheckpoint | None
    """Checkpoint to be recorded; ``None`` where the newest one that is kept is this cut already, or
    where no batch is done."""
    has_all: bool
    """Nothing that was begun lies behind an unchanged cut: it counts as taken now."""


def taken(folder: FleetFolder, notes: Notes, graph: Graph, at_us: int) -> Taken | None:
    """Return the latest consistent cut; ``None`` where no query can go back as far as one."""
    history = FleetHistory(folder, notes, graph)
    cut = latest_cut(graph, history)
    if cut is None:
        return None
    last = folder.newest_checkpoint()
    before = dict.fromkeys(cut) if last is None else dict(last.batches)
    if before == cut:
        return Taken(None, not any(map(history.is_in_batch, graph.queries)))
    commits = {
        queue: history.reached(writer, cut[writer]).commit
        for queue, writer in graph.writers.items()
    }
    new = GlobalCheckpoint(
        number=0 if last is None else last.number + 1,
        at_us=at_us,
        generation=notes.generation,
        batches=cut,
        commits=commits,
        needed={queue: _needed(graph, history, cut, queue) for queue in graph.read_queues},
        queues={queue: history.queue_id(queue) for queue in sorted({*commits, *graph.read_queues})},
    )
    return Taken(new, has_all=False)


def _needed(
    graph: Graph, history: FleetHistory, cut: dict[str, int | None], queue: str
) -> tuple[int, ...]:
    reads = []
    for name in graph.queries:
        if queue in graph.reads(name):
            batch = cut[name]
            reads.append({} if batch is None else history.read(name, batch, queue))
    partitions = 1 + max((number for offsets in reads for number in offsets), default=-1)
    return tuple(needed(reads, partitions).values())
