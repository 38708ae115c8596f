"""The doors: a queue or a log of a state store to append to or to read, by its path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, overload

import pyarrow as pa

from cec_store.errors import ReadOnly
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.options import QueueOptions
from cec_store.log.reopening import check_schema
from cec_store.log.selection import (
    METADATA_COLUMNS,
    OUTPUT_KINDS,
    PARTITION_COLUMN,
    Moment,
    Selection,
)
from cec_store.partitioned.partitions import Partitions, is_partitioned, refuse_part_of_another
from cec_store.partitioned.reference_queue import (
    PartitionedWriter,
    ReferenceQueue,
    is_by_reference,
)
from cec_store.queues.appendable_queue import MODES, now_us
from cec_store.queues.output_queue import OutputQueue
from cec_store.queues.retention import settings_folder, write_retention
from cec_store.state_logs.segments import STATE_SCHEMA, is_state_log
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.local import folder_at
from cec_store.storage.names import COMMITS_FOLDER
from cec_store.storage.paths import PATH_TYPES, AnyPath
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.local_store import LocalStore
from cec_store.values import Position


@overload
def open_queue(
    path: AnyPath | Folder,
    mode: Literal["a", "x"],
    *,
    schema: pa.Schema | RecordSchema | None = ...,
    timestamp_column: str | None = ...,
    options: QueueOptions | None = ...,
    takeover: bool = ...,
    clock_us: Callable[[], int] = ...,
    retention: Retention | str | timedelta | int | None = ...,
) -> OutputQueue: ...


@overload
def open_queue(
    path: AnyPath | Folder,
    mode: str = ...,
    *,
    schema: pa.Schema | RecordSchema | None = ...,
    timestamp_column: str | None = ...,
    options: QueueOptions | None = ...,
    takeover: bool = ...,
    clock_us: Callable[[], int] = ...,
    retention: Retention | str | timedelta | int | None = ...,
) -> OutputQueue | StateLog: ...


def open_queue(
    path: AnyPath | Folder,
    mode: str = "r",
    *,
    schema: pa.Schema | RecordSchema | None = None,
    timestamp_column: str | None = None,
    options: QueueOptions | None = None,
    takeover: bool = False,
    clock_us: Callable[[], int] = now_us,
    retention: Retention | str | timedelta | int | None = None,
) -> OutputQueue | StateLog:
    """Open an output queue, or (mode ``r`` only) the log of a Spark state store.

    ``mode`` is ``"r"`` to read (beside a live writer too), ``"a"`` to append, making the queue if
    there is none, or ``"x"`` to make a new one. A new queue needs ``schema``: the user's columns,
    or a :class:`RecordSchema` for an operator's output. ``timestamp_column`` names the column that
    a record's timestamp is taken from; without one it is the time of the append.
    ``takeover`` fences a writer that hangs: it can acknowledge nothing more.
    ``retention`` says what a new queue deletes by itself: ``"forever"`` nothing (the default),
    ``"consumers"`` what all of them have acknowledged as saved, a time as ``"7d"`` what was written
    longer ago, a size as ``"10GiB"`` what is beyond it. A queue that is there keeps its own;
    :func:`set_retention` changes it.

    A directory ``state/<operator>/<partition>[/<store>]`` of a checkpoint, written by the state
    store provider of this package, opens as a :class:`StateLog`.

    Raises:
        NotAQueue: nothing here (mode ``r``), or something else.
        FileExistsError: mode ``x``, and there is a queue.
        QueueLocked: somebody else appends.
        ReadOnly: a state log, which Spark alone writes, or a part of a queue of many partitions.
        SchemaMismatch: not the queue's columns.
        CorruptLog, UnsupportedVersion: refused; nothing was changed.
    """
    folder = folder_at(path)
    if isinstance(schema, pa.Schema):
        schema = RecordSchema(schema, timestamp_column=timestamp_column)
    if is_state_log(folder) and mode in MODES:
        if mode != "r":
            raise ReadOnly(
                f"{folder.path}: the log of a Spark state store, which Spark alone writes; "
                "open with mode='r'"
            )
        check_schema(folder, schema, STATE_SCHEMA)
        return StateLog(folder)
    if mode != "r":
        refuse_part_of_another(folder)
    return OutputQueue(
        folder, mode, schema, options, takeover=takeover, clock_us=clock_us,
        retention=None if retention is None else Retention.of(retention),
    )  # fmt: skip


def open_partitions(
    path: AnyPath,
    *,
    schema: pa.Schema | RecordSchema | None = None,
    partitions: int = 1,
    key_columns: Sequence[str] = (),
    timestamp_column: str | None = None,
    retention: Retention | str | timedelta | int | None = None,
    clock_us: Callable[[], int] = now_us,
    storage_options: Mapping[str, Any] | None = None,
) -> PartitionedWriter:
    """Append to a queue of many partitions, making it if there is none.

    Rows go to partitions by ``key_columns``, as Spark's own partitioning would have them; each
    append is in all partitions or in none. Any number of writers may append at the same time.
    ``path`` and ``storage_options`` are as for :func:`read_queue`; the rest as for
    :func:`open_queue`. Of a queue that is there, columns and keys are checked where they are given,
    and ``partitions`` and ``retention`` are its own.

    Raises:
        NotAQueue: there is none, and no ``schema`` to make one.
        SchemaMismatch: not the queue's columns or keys.
        NoExclusiveCreate: several writers would overwrite each other in a store of this kind.
        CorruptLog, UnsupportedVersion: refused; nothing was changed.
    """
    if isinstance(schema, pa.Schema):
        schema = RecordSchema(
            schema, timestamp_column=timestamp_column, key_columns=tuple(key_columns)
        )
    settings = {} if retention is None else {"retention": str(Retention.of(retention))}
    return PartitionedWriter(
        store_at(path, storage_options), schema, partitions=partitions, clock_us=clock_us,
        settings=settings,
    )  # fmt: skip


def set_retention(path: AnyPath | FolderTree, wanted: Retention | str | timedelta | int) -> None:
    """Change what a queue, of many partitions or of none, deletes by itself.

    It counts from the next segment that its writer completes; the writer may be open meanwhile.
    With a time or a size no consumer is waited for: one that comes too late is refused
    (:class:`OutOfRange`). A segment goes as a whole, and never one that a rebuild needs.

    Raises:
        NotAQueue: there is none.
        ValueError: neither ``"forever"`` nor ``"consumers"``, a time or a size.
    """
    folder = folder_at(path)
    outer = folder.folder(COMMITS_FOLDER) if is_partitioned(folder) else settings_folder(folder)
    write_retention(outer, Retention.of(wanted), now_us())


def read_queue(
    path: AnyPath | FolderTree,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    kinds: Collection[RecordKind] = OUTPUT_KINDS,
    include_metadata: bool = False,
    from_moment: Moment | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """The rows of a queue with since ≤ timestamp < until, in the order in which they stand there.

    Of a queue of many partitions, one partition after the other, as far as the queue reached when
    this was called. ``from_moment`` begins each partition with its first record at or after it, and
    leaves out nothing behind that, unless ``since`` or ``until`` do. Moments are as for
    :meth:`OutputQueue.replay`; a :class:`Position` is one of a queue without partitions.
    ``include_metadata`` adds ``_timestamp``, ``_kind``, ``_offset`` and ``_partition``; ``columns``
    returns only these of the user's, in this order.

    ``path`` may be a URL (``s3://``, ``gs://``, ``abfs://``, ``webhdfs://``), and
    ``storage_options`` what its fsspec file system takes, as in pandas.

    Raises:
        NotAQueue: there is none.
        SchemaMismatch: there is no such column.
        ValueError: a position in a queue of many partitions.
        OutOfRange: a position that is trimmed or does not exist yet.
        CorruptLog: damage; from the reader, once everything before it has been returned.
    """
    queue = _partitions_at(path, storage_options)
    ends = queue.ends()
    wanted = Selection(
        since, until, kinds, include_metadata, from_moment=from_moment, columns=columns
    )
    if queue.is_partitioned and wanted.positions():
        raise ValueError(f"{queue.path} has partitions: give moments, not positions")
    parts = [(n, _within(queue, n, end, wanted)) for n, end in ends.items()]
    # Of many partitions each is opened when it is its turn.
    found = (queue.replay(n, part) for n, part in parts)
    replays = found if queue.is_partitioned else [*found]
    metadata = (*METADATA_COLUMNS, PARTITION_COLUMN) if include_metadata else ()
    names = wanted.of_columns(queue.schema.data, queue.path)
    schema = pa.schema([*(queue.schema.data.field(name) for name in names), *metadata])

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(queue):
            for replay in replays:
                for batch in replay:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _partitions_at(
    path: AnyPath | FolderTree, storage_options: Mapping[str, Any] | None
) -> Partitions | ReferenceQueue:
    """A queue of any kind, to read."""
    if not isinstance(path, PATH_TYPES):
        return Partitions(path)
    store = store_at(path, storage_options)
    if isinstance(store, LocalStore) and not is_by_reference(store):
        return Partitions(folder_at(store.url))
    return ReferenceQueue(store)


def _within(
    queue: Partitions | ReferenceQueue, number: int, end: int, wanted: Selection
) -> Selection:
    """What is wanted of one partition, as far as the queue reached: ``end``."""
    if wanted.since is None and wanted.from_moment is None:
        # What is trimmed before its turn comes is missed then, not passed over.
        wanted = replace(wanted, since=Position(queue.first(number)))
    return replace(wanted, end_offset=end)
