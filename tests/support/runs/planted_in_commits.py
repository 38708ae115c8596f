"""Bugs to be planted in commits that hold their rows; see :mod:`.planted_bugs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cec_store.format.by_reference import commits
from cec_store.ledger import commit_writer, reference_trims, sweeping
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference import upkeep
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.fsspec_store import FsspecStore


def deletes_commits_whose_rows_count() -> None:
    """All before the last one that says all go, once that is a day old."""

    def delete(log: ReferenceLog, state: QueueState, done: int = 0, most: int | None = None) -> int:
        floor, store = state.floor, log.store
        if floor <= done or log.made_us(floor) > sweeping.store_now_us(store) - sweeping.GRACE_US:
            return done
        store.delete(commit_object_name(number) for number in log.numbers_below(floor) if number)
        return floor

    for place in (sweeping, upkeep, commit_writer):
        place.delete_commits = delete  # type: ignore[attr-defined]


def takes_inline_rows_from_one_frame_further() -> None:
    """Each inline segment is looked for where the next one of its commit stands."""
    first = commits.placed

    def placed(segments: pa.RecordBatch, number: int, frames_byte: int) -> pa.RecordBatch:
        rows = first(segments, number, frames_byte).to_pylist()
        own = [row for row in rows if row["file"] == commit_object_name(number)]
        places = [row["byte"] for row in own]
        for row, byte in zip(own, places[1:] + places[:1], strict=True):
            row["byte"] = byte
        return pa.RecordBatch.from_pylist(rows, segments.schema)

    commits.placed = placed


def takes_its_own_commit_for_another_writers() -> None:
    """Where the reply to a create is lost, and the second try finds the name taken."""
    FsspecStore._holds = lambda self, path, place, data, after=None: False  # type: ignore[assignment]


def lets_a_fenced_writer_of_commits_go_on() -> None:
    """Whoever finds another writer's token commits all the same."""
    commit_writer.CommitWriter.refuse_if_fenced = (  # type: ignore[method-assign]
        lambda self, state, token: None
    )


def trims_commits_that_a_rebuild_needs() -> None:
    """The extent at the end is not looked at."""
    reference_trims._rebuilt_from = lambda store, state: state.commit.ends[0]


BUGS: dict[str, Callable[[], Any]] = {
    bug.__name__: bug
    for bug in (
        deletes_commits_whose_rows_count,
        takes_inline_rows_from_one_frame_further,
        takes_its_own_commit_for_another_writers,
        lets_a_fenced_writer_of_commits_go_on,
        trims_commits_that_a_rebuild_needs,
    )
}
