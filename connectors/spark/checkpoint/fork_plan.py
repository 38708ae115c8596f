"""Plan of a fork of a checkpoint: its batch, and the files (or their beginnings) to take."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from cec_store.checkpoints.rebuild import frames_in_order
from cec_store.connectors.spark.checkpoint.layout import (
    COMMITS,
    METADATA_FOLDER,
    OFFSETS,
    STATE,
    Checkpoint,
    StateFolder,
    store_folder,
)
from cec_store.connectors.spark.checkpoint.source_logs import source_files
from cec_store.connectors.spark.checkpoint.state_schema import (
    VERSION_2,
    has_variables,
    read_state_schema,
    state_partitions,
)
from cec_store.connectors.spark.checkpoint.variables import SCHEMAS
from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.errors import CecError, CorruptLog, NotAQueue, OutOfRange, StorageError
from cec_store.state_logs.key_directories import directory_to
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import segment_name
from cec_store.values import format_timestamp_us


@dataclass(frozen=True)
class Part:
    """The beginning of one file, wanted in the new directory at the same place."""

    source: FolderTree
    name: str
    size: int
    is_final: bool = False
    """Nobody writes to the file any more, and all of it is wanted."""


def chosen_batch(old: Checkpoint, at: date | int | str | None, batch: int | None) -> int:
    """The last batch that had begun by ``at``, or ``batch`` if it is committed and kept."""
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


def parts_of(old: Checkpoint, batch: int, history: int | None = None) -> list[Part]:
    """The files of a batch; errors as for :func:`.fork.fork`.

    ``history``: so many batches before it are taken along at most, by default all that are kept.
    """
    first = 0 if history is None else batch - history
    try:
        _check_batch(old, batch)
        states = [part for state in _states(old, batch) for part in _state_parts(old, batch, state)]
    except OutOfRange as error:
        raise OutOfRange(f"{error}; {_what_can_be_forked(old)}") from error
    except CorruptLog as error:
        reason = f"{error.reason}; {_what_can_be_forked(old)}"
        raise CorruptLog(error.path, error.byte, reason, error.advice) from error
    return [*_spark_parts(old, batch, first), *states]


def _check_batch(old: Checkpoint, batch: int) -> None:
    """Check all that can be checked without reading state.

    Raises:
        NotAQueue: another provider keeps the state.
        OutOfRange: the offsets of the batch before, or what a source needs, are no longer kept.
        StorageError: a source keeps what cannot be cut to a batch.
    """
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
        listed_partitions = {state.partition for state in states if state.operator == operator}
        for lost in sorted({*range(len(partitions))} - listed_partitions):
            raise _lost(f"{old.path}/{STATE}/{operator}/{lost}", batch)
    for operator, store in sorted({(state.operator, state.store) for state in states}):
        here = {state.partition for state in states if state.operator == operator}
        for lost in sorted({*range(_due_partitions(old, batch, operator, store))} - here):
            raise _lost(store_folder(old.operator_folder(operator), lost, store).path, batch)
    return states


def _lost(path: str, batch: int) -> CorruptLog:
    return CorruptLog(path, 0, f"batch {batch} left state here, and the folder is missing")


def _due_partitions(old: Checkpoint, batch: int, operator: int, store: str) -> int:
    """Number of partitions that a store had after a batch; 0 where Spark has not noted it."""
    folder = old.operator_folder(operator)
    try:
        counted = state_partitions(old.offsets(batch).conf)
        if has_variables(folder):
            return counted or 0
        return read_state_schema(folder, store).due_partitions(counted)
    except (CecError, ValueError):  # what it has noted cannot be read, and may be nothing
        return 0


def _version(old: Checkpoint, batch: int, state: StateFolder) -> int | str:
    unique_id = old.unique_id(batch, state.operator, state.partition, state.store)
    return batch + 1 if unique_id is None else unique_id


def _state_parts(old: Checkpoint, batch: int, state: StateFolder) -> Iterator[Part]:
    lineage = StateLog(state.folder).checked_version_reader(_version(old, batch, state))
    for segment_id in lineage.segments:
        name, end = segment_name(segment_id), lineage.segment_end(segment_id)
        # On the others a segment builds: what late attempts may still add there are versions
        # that the lineage has from elsewhere, and not its own next ones.
        is_last = segment_id == lineage.last_frame.address.segment_id
        is_final = not is_last and state.folder.size(name) == end
        yield Part(state.folder, name, end, is_final)
    # It leads to the same frames in a copy of them, so that the new query starts by it, too.
    directory = directory_to(lineage, frames_in_order(lineage, lineage.last_frame))
    for name in directory.files if directory is not None else ():
        yield Part(state.folder, name, state.folder.size(name), True)


def _spark_parts(old: Checkpoint, batch: int, first: int) -> Iterator[Part]:
    for log in (OFFSETS, COMMITS):
        folder = old.folder.folder(log)
        for name in folder.names():
            if name.isascii() and name.isdigit() and first <= int(name) <= batch:
                yield Part(folder, name, folder.size(name))
    for folder, names in source_files(old, batch):
        for name in names:
            yield Part(folder, name, folder.size(name))
    if (state := old.folder.folder(STATE)).exists():
        yield from (part for part in schema_parts(state) if _batch_of(part) <= batch)


def _batch_of(part: Part) -> int:
    """Return the batch that one of Spark's files of schemas is named after; 0 where none is.

    A run of the query begins one at its first batch. Of a run that began later a fork has nothing:
    Spark would take what that run declared for its own once it comes to a batch of that number.
    """
    *_, above, folder = part.source.path.split("/")
    if folder != VERSION_2 and above != SCHEMAS:
        return 0
    number = part.name.partition("_")[0]
    return int(number) if number.isascii() and number.isdigit() else 0


def schema_parts(folder: FolderTree, is_inside: bool = False) -> Iterator[Part]:
    """Yield the files that Spark itself keeps beside the logs: metadata and schemas."""
    if is_inside:
        names = {name for name in folder.names() if not name.startswith(".")}
        for name in sorted(names - {*folder.folders()}):
            yield Part(folder, name, folder.size(name))
    for name, subfolder in sorted(folder.folders().items()):
        yield from schema_parts(subfolder, is_inside or name in (METADATA_FOLDER, SCHEMAS))


# -- saying what can be -----------------------------------------------------------------------


def _what_can_be_forked(old: Checkpoint) -> str:
    """Return, for an error message, the earliest batch that can be forked by its headers."""
    batches = old.committed_batches()
    first = 0
    if batches and not _is_kept(old, batches[0]):
        # Batches are deleted oldest first, so those that are kept are the last ones.
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
