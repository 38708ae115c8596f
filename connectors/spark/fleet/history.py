"""History of a fleet: offsets that its queries read and wrote, from checkpoints and queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.fleet.cuts import Offsets
from cec_store.connectors.spark.fleet.declaration import Graph
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.errors import NotACheckpoint, NotAQueue, OutOfRange
from cec_store.format.by_reference.commits import ReferenceCommit
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import check_queue
from cec_store.partitioned.offsets import Positions


class Reached(NamedTuple):
    """A queue as far as a cut has it."""

    commit: int
    ends: Offsets


class FleetHistory:
    """A :class:`.cuts.History`. Reads anew with each call; for one thread."""

    def __init__(self, folder: FleetFolder, notes: Notes, graph: Graph) -> None:
        self._folder = folder
        self._notes = notes
        self._graph = graph
        self._ids: dict[str, str] = {}

    def queue_id(self, queue: str) -> str:
        """The id of the queue that is there: 32 hex digits; empty where there is none."""
        if queue not in self._ids:
            self._ids[queue] = id_of(self._folder, queue)
        return self._ids[queue]

    def checkpoint(self, query: str) -> Checkpoint | None:
        """Spark's; ``None`` where the query has left none yet."""
        try:
            path = self._folder.checkpoint_of(query, self._notes.generation)
            return Checkpoint(path, self._folder.options_of(path))
        except NotACheckpoint:
            return None

    def batches(self, query: str) -> Sequence[int]:
        # Without its sources nobody knows which offsets are of which queue.
        if not self._notes.of(query).sources:
            return []
        checkpoint = self.checkpoint(query)
        return [] if checkpoint is None else checkpoint.committed_batches()

    def is_in_batch(self, query: str) -> bool:
        """Return True where a batch of the query was begun and is not done."""
        checkpoint = self.checkpoint(query)
        if checkpoint is None:
            return False
        begun, done = checkpoint.logged_batches(), checkpoint.committed_batches()
        return begun[-1:] != done[-1:]

    def read(self, query: str, batch: int, queue: str) -> Offsets:
        """See :class:`.cuts.History`; raises :class:`QueueReplaced` where it read another queue."""
        checkpoint = self.checkpoint(query)
        assert checkpoint is not None
        texts = checkpoint.offsets(batch).sources
        offsets: dict[int, int] = {}
        for place, name in enumerate(self._notes.of(query).sources):
            if name == queue:
                position = Positions.of(json.loads(texts.get(str(place)) or "{}"))
                where = f"query {query!r}, batch {batch}: {queue}"
                check_queue(position.queue, where, self.queue_id(queue))
                for number, offset in position.offsets.items():
                    offsets[number] = max(offsets.get(number, 0), offset)
        return offsets

    def written(self, query: str, batch: int | None) -> Offsets:
        return self.reached(query, batch).ends

    def reached(self, query: str, batch: int | None) -> Reached:
        """The query's queue, right before the commit of a later batch of the query."""
        log = ReferenceLog(self._folder.queue(self._graph.queries[query].writes))
        checkpoint = self.checkpoint(query)
        try:
            newest = log.open()
        except NotAQueue:
            return Reached(0, {})
        number, commit = newest.number, newest.commit
        if checkpoint is None:
            return Reached(number, _ends(commit))
        last = -1 if batch is None else batch
        writer = checkpoint.query_id
        # What the query had committed last, before that one.
        while commit.queries.get(writer, -1) > last:
            number -= 1
            earlier = log.kept(number, newest.floor)
            if earlier is None:
                what = f"commit {number} of its queue is deleted, being older than a day"
                raise OutOfRange(f"query {query}: {what}; choose a later moment")
            commit = earlier.commit
        return Reached(number, _ends(commit))


def id_of(folder: FleetFolder, queue: str) -> str:
    """Return a queue's id, 32 hex digits; empty where there is none."""
    try:
        return ReferenceLog(folder.queue(queue)).open().log_id.hex()
    except NotAQueue:
        return ""


def _ends(commit: ReferenceCommit) -> Offsets:
    return dict(enumerate(commit.ends))
