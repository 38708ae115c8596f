"""What the queries of a fleet have read and written, from their checkpoints and their queues."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.fleet.cuts import Offsets
from cec_store.connectors.spark.fleet.declaration import Graph
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.errors import NotACheckpoint, NotAQueue
from cec_store.format.by_reference.commits import ReferenceCommit
from cec_store.partitioned.by_reference.reference_log import ReferenceLog


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
        checkpoint = self.checkpoint(query)
        assert checkpoint is not None
        texts = checkpoint.offsets(batch).sources
        found: dict[int, int] = {}
        for place, name in enumerate(self._notes.of(query).sources):
            if name == queue:
                said: Mapping[str, int] = json.loads(texts.get(str(place)) or "{}")
                for number, offset in said.items():
                    found[int(number)] = max(found.get(int(number), 0), int(offset))
        return found

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
            commit = log.commit(number).commit
        return Reached(number, _ends(commit))


def _ends(commit: ReferenceCommit) -> Offsets:
    return dict(enumerate(commit.ends))
