"""A new checkpoint that runs on from the state at an earlier batch, beside the old one.

Only the logs are cut: offsets, commits and entries of the file source to the batch, each state log
to the version that the batch made. What a state log builds on is shared by hard links; the segment
with the version itself is copied up to there, since its writer may still be adding to it. The
query that goes on from the new directory writes segments of its own, as after any restart.

Where either of them is in a store all is copied. There the file that makes the new one a checkpoint
to Spark is written last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

from cec_store.connectors.spark.checkpoint.fork_plan import Part, chosen_batch, parts_of
from cec_store.connectors.spark.checkpoint.layout import METADATA, METADATA_FOLDER, Checkpoint
from cec_store.connectors.spark.checkpoint.rewriting import hadoop_url, moved_metadata
from cec_store.connectors.spark.checkpoint.state_schema import VERSION_2
from cec_store.errors import StorageError
from cec_store.storage.paths import AnyPath
from cec_store.storage.retrying import retry_when_changed
from cec_store.storage.stores.folders import AnyFolder, StorageOptions, folders_at
from cec_store.storage.stores.new_trees import check_new_folder, new_folder


@dataclass(frozen=True)
class ForkReport:
    """Counts and sizes of a fork; those of a dry run assume that files can be linked.

    Examples:
        >>> report = fork("checkpoint", "what-if", batch=1, dry_run=True)
        >>> report.batch, report.query_id
        (1, '')
    """

    checkpoint: str
    path: str
    """The new checkpoint."""
    batch: int
    """The last batch that the new query takes as done."""
    timestamp_us: int
    """Time at which that batch began, microseconds since 1970."""
    query_id: str
    """Id of the new query; empty after a dry run."""
    linked_files: int
    linked_bytes: int
    copied_files: int
    copied_bytes: int


def fork(
    checkpoint: AnyPath | AnyFolder,
    new: AnyPath | AnyFolder,
    *,
    at: date | int | str | None = None,
    batch: int | None = None,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> ForkReport:
    """Make a checkpoint directory that runs on from the state at a moment, or after a batch.

    Of a moment (a datetime, or microseconds since 1970) it is the last batch that had begun by
    then. The old directory is not touched, and its query may be running. The new query has an id
    of its own; give it a sink of its own as well. After any failure there is nothing at ``new``.
    Each of the two may be a URL; ``storage_options`` are for both, as for :func:`read_queue`.

    Raises:
        NotACheckpoint: there is none.
        NotAQueue: its state was not written by our provider.
        OutOfRange: that batch is no longer kept, or not committed yet; says which ones are.
        CorruptLog: damage in what the batch's state needs, or in Spark's own files.
        StorageError: a source keeps what cannot be cut to a batch; ``new`` is inside the old one.
        FileExistsError: there is something at ``new``.
        ValueError: neither or both of ``at`` and ``batch``.

    Examples:
        >>> fork("checkpoint", "what-if", batch=1).batch
        1
    """
    return fork_as(None, checkpoint, new, at, batch, dry_run, storage_options)


def fork_as(
    query_id: str | None,
    checkpoint: AnyPath | AnyFolder,
    new: AnyPath | AnyFolder,
    at: date | int | str | None,
    batch: int | None,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
    history: int | None = None,
) -> ForkReport:
    """Fork as :func:`fork` does; ``query_id`` is the new query's id, by default a random UUID.

    Two of one name write the same batches: only for those who see to it that these are the same.
    ``history``: how many batches before the last one the new query can still tell of. All that are
    kept take longer to copy than a fast query needs to forget the oldest of them.
    """
    if (at is None) == (batch is None):
        raise ValueError("give a moment (at=) or a batch (batch=)")
    folder, target = folders_at((checkpoint, new), storage_options)
    check_new_folder(target)
    old = Checkpoint(folder)
    if f"{target.path}/".startswith(f"{old.path}/"):
        raise StorageError(f"{target.path}: is inside the checkpoint; name a folder beside it")

    def work() -> ForkReport:
        chosen = chosen_batch(old, at, batch)
        parts = parts_of(old, chosen, history)
        name = "" if dry_run else query_id or str(uuid4())
        is_local = folder.appends and target.appends
        linked = [part for part in parts if part.is_final and is_local]
        if not dry_run:
            linked = _carry_out(old, target, parts, name)
        linked_bytes = sum(part.size for part in linked)
        return ForkReport(
            checkpoint=old.path,
            path=target.path,
            batch=chosen,
            timestamp_us=old.offsets(chosen).timestamp_us,
            query_id=name,
            linked_files=len(linked),
            linked_bytes=linked_bytes,
            copied_files=len(parts) - len(linked),
            copied_bytes=sum(part.size for part in parts) - linked_bytes,
        )

    # A query that runs may just have deleted what it needs no more.
    return retry_when_changed(work, FileNotFoundError)


def _carry_out(
    old: Checkpoint, target: AnyFolder, parts: Sequence[Part], query_id: str
) -> list[Part]:
    """Make the new checkpoint; returns the parts that could be linked."""
    linked = []
    with new_folder(target) as tree:
        for part in parts:
            inside = part.source.path[len(old.path) :].strip("/")
            if inside.endswith(f"/{METADATA_FOLDER}/{VERSION_2}"):
                data = part.source.read(part.name, 0, part.size)
                path = f"{part.source.path}/{part.name}"
                tree.write(inside, part.name, moved_metadata(path, data, hadoop_url(target)))
            elif tree.take(inside, part.source, part.name, part.size, is_final=part.is_final):
                linked.append(part)
        # Only now is it a checkpoint to Spark.
        tree.write("", METADATA, json.dumps({"id": query_id}).encode())
    return linked
