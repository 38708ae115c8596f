"""Maintenance of a partitioned queue: merging, trimming, and deleting objects nobody reads.

docs/format.md §11. Any process may do it beside the writers: each step is a commit, or deletes what
no commit names.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import CecError, CorruptLog
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.schema import RecordSchema
from cec_store.ledger.ages import (
    GRACE_US,
    Stopwatch,
    require_young,
    store_now_us,
)
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import (
    merge_after,
)
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import TrimBounds, trimmed
from cec_store.ledger.sweeping import (
    DELETED_COMMITS_MAX,
    counted_at,
    delete_commits,
    perhaps_named,
    rubbish,
    sweep_earlier,
    sweep_gone,
)
from cec_store.partitioned.by_reference.merging import MERGED_BYTES, merged, merges_of

_EVERY = 64
"""Commits, between two looks at what may be trimmed, merged and deleted."""
_log = logging.getLogger(__name__)


class Upkeep:
    """Steps that each take the queue as it was last seen, and return it as it is then."""

    def __init__(
        self, log: ReferenceLog, schema: RecordSchema, clock_us: Callable[[], int]
    ) -> None:
        self._store = log.store
        self._log = log
        self._schema = schema
        self._clock_us = clock_us
        self._swept: int | None = None
        """Commits whose removed objects are deleted; None before the first look."""
        self._floor = 0
        """Number of the commit before which the others are deleted."""

    def now_and_then(self, before: QueueState, after: QueueState) -> QueueState:
        """Trim and merge after every ``_EVERY`` commits, and return the queue's new state.

        A :class:`CecError` on the way is logged and not raised.
        """
        if before.number // _EVERY == after.number // _EVERY:
            return after
        state = after
        for step in (self._trimmed, self._merged, self._without_old_commits):
            try:
                state = step(state)
            except CecError as error:  # as where a segment is damaged: the next step goes on
                _log.warning("%s is not kept small: %s", self._store.url, error)
        return state

    def _trimmed(self, state: QueueState) -> QueueState:
        return self.trim(state, TrimBounds())

    def _merged(self, state: QueueState) -> QueueState:
        return self._merge(state, MERGED_BYTES)[0]

    def _without_old_commits(self, state: QueueState) -> QueueState:
        self._delete_commits(state, DELETED_COMMITS_MAX)
        return state

    def merge(self, state: QueueState) -> tuple[QueueState, int]:
        """Put small neighbours together; also how many segments have gone into others.

        Raises:
            CorruptLog: one of them is damaged; it stays, and the others are merged.
        """
        state, count = self._merge(state)
        self._sweep_gone(state)
        return state, count

    def _merge(self, state: QueueState, bytes_max: int | None = None) -> tuple[QueueState, int]:
        """Do so, and stop once ``bytes_max`` bytes were read."""
        state = self._log.refresh(state)
        query, count, read_bytes = f"merge-{secrets.token_hex(8)}", 0, 0
        damage: CorruptLog | None = None
        for segments in list(merges_of(state)):
            if bytes_max is not None and read_bytes >= bytes_max:
                break
            try:
                state, is_merged = self._merge_one(state, segments, query)
            except CorruptLog as error:
                damage = damage or error
                continue
            count += segments.num_rows if is_merged else 0
            read_bytes += pc.sum(segments.column("bytes")).as_py()
        if damage is not None:
            raise damage
        return state, count

    def _merge_one(
        self, state: QueueState, segments: pa.Table, query: str
    ) -> tuple[QueueState, bool]:
        watch = Stopwatch(self._clock_us)
        into = merged(self._store, segments, self._schema, query, self._clock_us)

        def commit(now: QueueState) -> ReferenceObject | None:
            require_young(self._store, [into["file"]], watch.elapsed_us())
            return merge_after(now, segments, [into], self._clock_us())

        after = self._log.add(state, commit)
        if after.has_all(pa.Table.from_batches([segments_of([into])])):
            return after, True
        self._store.delete([into["file"]])  # somebody else has merged or trimmed them
        return after, False

    def trim(self, state: QueueState, bounds: TrimBounds) -> QueueState:
        """Take away whole segments; raises as :func:`cec_store.ledger.reference_trims.limits`."""
        state = trimmed(self._log, state, bounds, self._clock_us)
        self._sweep_gone(state)
        return state

    def _sweep_gone(self, state: QueueState) -> None:
        if self._swept is None:
            sweep_earlier(self._log, state, _EVERY)
        self._swept = sweep_gone(self._log, state, self._swept or 0)

    def clean(self, state: QueueState) -> tuple[QueueState, list[str]]:
        """Delete what writers that died have left, and what was taken away; also the names."""
        # Before the commits are looked at: what they name was made before them.
        older_us = store_now_us(self._store) - GRACE_US
        state = self._log.refresh(state, proving=True)
        # What is younger may have been committed after that moment, and be removed since.
        made_us = dict(rubbish(self._store, state, older_us - GRACE_US))
        kept = counted_at(self._log, state, older_us) | perhaps_named(self._log, state, made_us)
        names = [name for name in made_us if name not in kept]
        self._store.delete(names)
        self._sweep_gone(state)
        self._delete_commits(state)
        return state, names

    def _delete_commits(self, state: QueueState, most: int | None = None) -> None:
        self._floor = delete_commits(self._log, state, self._floor, most)
