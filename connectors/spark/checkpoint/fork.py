"""A new checkpoint that runs on from the state at an earlier batch, beside the old one.

Only the logs are cut: offsets, commits and entries of the file source to the batch, each state log
to the version that the batch made. What a state log builds on is shared by hard links; the segment
with the version itself is copied up to there, since its writer may still be adding to it. The
query that goes on from the new directory writes segments of its own, as after any restart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from uuid import uuid4

from cec_store.connectors.spark.checkpoint.fork_plan import Part, chosen_batch, parts_of
from cec_store.connectors.spark.checkpoint.layout import METADATA, Checkpoint
from cec_store.errors import StorageError
from cec_store.storage.local import LocalFolder
from cec_store.storage.paths import AnyPath
from cec_store.storage.publishing import write_file
from cec_store.storage.retrying import retry_when_changed
from cec_store.storage.trees import check_new, copy, link, new_tree


@dataclass(frozen=True)
class ForkReport:
    """What a fork did; of a dry run, what it would do where files can be linked."""

    checkpoint: str
    path: str
    """The new checkpoint."""
    batch: int
    """The last batch that the new query takes as done."""
    timestamp_us: int
    """When that batch began."""
    query_id: str
    """Of the new query; empty after a dry run."""
    linked_files: int
    linked_bytes: int
    copied_files: int
    copied_bytes: int


def fork(
    checkpoint: AnyPath,
    new: AnyPath,
    *,
    at: datetime | int | None = None,
    batch: int | None = None,
    dry_run: bool = False,
) -> ForkReport:
    """Make a checkpoint directory that runs on from the state at a moment, or after a batch.

    Of a moment (a datetime, or microseconds since 1970) it is the last batch that had begun by
    then. The old directory is not touched, and its query may be running. The new query has an id
    of its own; give it a sink of its own as well. After any failure there is nothing at ``new``.

    Raises:
        NotACheckpoint: there is none.
        NotAQueue: its state was not written by our provider.
        OutOfRange: that batch is no longer kept, or not committed yet; says which ones are.
        CorruptLog: damage in what the batch's state needs, or in Spark's own files.
        StorageError: a source keeps what cannot be cut to a batch; ``new`` is inside the old one.
        FileExistsError: there is something at ``new``.
        ValueError: neither or both of ``at`` and ``batch``.
    """
    if (at is None) == (batch is None):
        raise ValueError("give a moment (at=) or a batch (batch=)")
    target, old = check_new(new), Checkpoint(checkpoint)
    if PurePath(target.path).is_relative_to(old.path):
        raise StorageError(f"{target.path}: is inside the checkpoint; name a folder beside it")

    def work() -> ForkReport:
        chosen = chosen_batch(old, at, batch)
        parts = parts_of(old, chosen)
        query_id = "" if dry_run else str(uuid4())
        linked = [part for part in parts if part.is_final]
        if not dry_run:
            linked = _carry_out(old, new, parts, query_id)
        linked_bytes = sum(part.size for part in linked)
        return ForkReport(
            checkpoint=old.path,
            path=target.path,
            batch=chosen,
            timestamp_us=old.offsets(chosen).timestamp_us,
            query_id=query_id,
            linked_files=len(linked),
            linked_bytes=linked_bytes,
            copied_files=len(parts) - len(linked),
            copied_bytes=sum(part.size for part in parts) - linked_bytes,
        )

    # A query that runs may just have deleted what it needs no more.
    return retry_when_changed(work, FileNotFoundError)


def _carry_out(old: Checkpoint, new: AnyPath, parts: Sequence[Part], query_id: str) -> list[Part]:
    """Make the new checkpoint; returns the parts that could be linked."""
    with new_tree(new) as tree:
        folders = {PurePath(): tree}
        linked = []
        for part in parts:
            inside = PurePath(part.source.path).relative_to(old.path)
            for path in (*reversed(inside.parents), inside):
                if path not in folders:
                    folders[path] = LocalFolder(PurePath(tree.path, path))
                    folders[path].make()
            target = folders[inside]
            if part.is_final and link(part.source, part.name, target):
                linked.append(part)
            else:
                copy(part.source, part.name, target, part.size)
        # Only now is it a checkpoint to Spark.
        write_file(tree, METADATA, json.dumps({"id": query_id}).encode())
        for folder in folders.values():
            folder.sync_names()
    return linked
