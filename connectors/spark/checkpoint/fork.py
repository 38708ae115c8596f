"""A new checkpoint that runs on from the state at an earlier batch, beside the old one.

Only the logs are cut: offsets, commits and entries of the file source to the batch, each state log
to the version that the batch made. What a state log builds on is shared by hard links; the segment
with the version itself is copied up to there, since its writer may still be adding to it. The
query that goes on from the new directory writes segments of its own, as after any restart.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from uuid import uuid4

from cec_store.connectors.spark.checkpoint.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    STATE,
    Checkpoint,
    StateFolder,
)
from cec_store.connectors.spark.checkpoint.source_logs import source_files
from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.errors import CorruptLog, NotAQueue, OutOfRange, StorageError
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from cec_store.storage.publishing import write_file
from cec_store.storage.retrying import retry_when_changed
from cec_store.storage.trees import check_new, copy, link, new_tree, subfolders
from cec_store.values import format_timestamp_us

_SCHEMAS = "_metadata"


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


@dataclass(frozen=True)
class _Part:
    """The beginning of one file, wanted in the new directory at the same place."""

    source: LocalFolder
    name: str
    size: int
    is_final: bool = False
    """Nobody writes to the file any more, and all of it is wanted."""


def fork(
    checkpoint: str | PurePath,
    new: str | PurePath,
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
        chosen = _chosen(old, at, batch)
        parts = _parts(old, chosen)
        if dry_run:
            return _report(old, new, chosen, "", parts, [part.is_final for part in parts])
        return _carry_out(old, new, chosen, parts)

    # A query that runs may just have deleted what it needs no more.
    return retry_when_changed(work, FileNotFoundError)


def _chosen(old: Checkpoint, at: datetime | int | None, batch: int | None) -> int:
    if at is not None:
        try:
            return old.batch_at(at)
        except OutOfRange as error:
            raise OutOfRange(f"{error}; {_what_can_be_forked(old)}") from error
    assert batch is not None
    if batch not in old.committed_batches():
        raise OutOfRange(
            f"{old.path}: batch {batch} is no longer kept, or not committed yet; "
            f"{_what_can_be_forked(old)}"
        )
    return batch


# -- what belongs to a batch ------------------------------------------------------------------


def _parts(old: Checkpoint, batch: int) -> list[_Part]:
    try:
        _check_batch(old, batch)
        states = [part for state in _states(old, batch) for part in _state_parts(old, batch, state)]
    except OutOfRange as error:
        raise OutOfRange(f"{error}; {_what_can_be_forked(old)}") from error
    except CorruptLog as error:
        reason = f"{error.reason}; {_what_can_be_forked(old)}"
        raise CorruptLog(error.path, error.byte, reason, error.advice) from error
    return [*_spark_parts(old, batch), *states]


def _check_batch(old: Checkpoint, batch: int) -> None:
    """What can be known without reading state."""
    conf = old.offsets(batch).conf
    provider = conf.get(PROVIDER_KEY, PROVIDER)
    if provider != PROVIDER and old.state_folders():
        raise NotAQueue(
            f"{old.path}: its state is kept by {provider}; only logs of ours are forked"
        )
    if batch > 0 and batch - 1 not in old.logged_batches():
        raise OutOfRange(
            f"{old.path}: to go on from batch {batch} Spark needs the offsets of the one before, "
            "which are no longer kept"
        )
    source_files(old, batch)


def _states(old: Checkpoint, batch: int) -> list[StateFolder]:
    states = old.state_folders()
    for operator, partitions in (old.commit(batch).unique_ids or {}).items():
        there = {state.partition for state in states if state.operator == operator}
        for lost in sorted({*range(len(partitions))} - there):
            path = str(PurePath(old.path, STATE, str(operator), str(lost)))
            raise CorruptLog(path, 0, f"batch {batch} left state here, and the folder is missing")
    return states


def _version(old: Checkpoint, batch: int, state: StateFolder) -> int | str:
    unique_id = old.unique_id(batch, state.operator, state.partition, state.store)
    return batch + 1 if unique_id is None else unique_id


def _state_parts(old: Checkpoint, batch: int, state: StateFolder) -> Iterator[_Part]:
    lineage = StateLog(state.folder).checked_version_reader(_version(old, batch, state))
    for segment_id in lineage.segments:
        name, end = segment_name(segment_id), lineage.segment_end(segment_id)
        # On the others a segment builds: what late attempts may still add there are versions
        # that the lineage has from elsewhere, and not its own next ones.
        is_last = segment_id == lineage.last_frame.address.segment_id
        is_final = not is_last and state.folder.size(name) == end
        yield _Part(state.folder, name, end, is_final)


def _spark_parts(old: Checkpoint, batch: int) -> Iterator[_Part]:
    for log in (OFFSETS, COMMITS):
        folder = old.folder.folder(log)
        for name in folder.names():
            if name.isascii() and name.isdigit() and int(name) <= batch:
                yield _Part(folder, name, folder.size(name))
    for folder, names in source_files(old, batch):
        for name in names:
            yield _Part(folder, name, folder.size(name))
    if (state := old.folder.folder(STATE)).exists():
        yield from _schema_parts(state)


def _schema_parts(folder: LocalFolder, is_inside: bool = False) -> Iterator[_Part]:
    """What Spark itself keeps beside the logs."""
    if is_inside:
        names = {name for name in folder.names() if not name.startswith(".")}
        for name in sorted(names - {*subfolders(folder)}):
            yield _Part(folder, name, folder.size(name))
    for name, each in sorted(subfolders(folder).items()):
        yield from _schema_parts(each, is_inside or name == _SCHEMAS)


# -- doing it ---------------------------------------------------------------------------------


def _carry_out(
    old: Checkpoint, new: str | PurePath, batch: int, parts: Sequence[_Part]
) -> ForkReport:
    query_id = str(uuid4())
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
            linked.append(part.is_final and link(part.source, part.name, target))
            if not linked[-1]:
                copy(part.source, part.name, target, part.size)
        # Only now is it a checkpoint to Spark.
        write_file(tree, METADATA, json.dumps({"id": query_id}).encode())
        for folder in folders.values():
            folder.sync_names()
    return _report(old, new, batch, query_id, parts, linked)


def _report(
    old: Checkpoint,
    new: str | PurePath,
    batch: int,
    query_id: str,
    parts: Sequence[_Part],
    linked: Sequence[bool],
) -> ForkReport:
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for part, is_linked in zip(parts, linked, strict=True):
        sizes[is_linked].append(part.size)
    return ForkReport(
        checkpoint=old.path,
        path=LocalFolder(new).path,
        batch=batch,
        timestamp_us=old.offsets(batch).timestamp_us,
        query_id=query_id,
        linked_files=len(sizes[True]),
        linked_bytes=sum(sizes[True]),
        copied_files=len(sizes[False]),
        copied_bytes=sum(sizes[False]),
    )


# -- saying what can be -----------------------------------------------------------------------


def _what_can_be_forked(old: Checkpoint) -> str:
    """As far as headers show."""
    batches = old.committed_batches()
    first = 0
    if batches and not _is_kept(old, batches[0]):
        # What is forgotten is forgotten from the oldest on.
        first = bisect_left(batches, True, key=lambda batch: _is_kept(old, batch))
    if first == len(batches):
        return "no batch can be forked"
    began = format_timestamp_us(old.offsets(batches[first]).timestamp_us)
    return f"the earliest that can be forked is batch {batches[first]}, which began at {began}"


def _is_kept(old: Checkpoint, batch: int) -> bool:
    try:
        _check_batch(old, batch)
        for state in _states(old, batch):
            StateLog(state.folder).extent(_version(old, batch, state))
    except (StorageError, OutOfRange):
        return False
    return True
