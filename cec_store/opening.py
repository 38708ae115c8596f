"""The doors: a queue or a log of a state store to append to or to read, by its path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, overload

import pyarrow as pa

from cec_store.errors import ReadOnly
from cec_store.format.retention import Retention
from cec_store.format.schema import STATE_SCHEMA, RecordKind, RecordSchema
from cec_store.ledger.commit_chain import ledger_at
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.options import QueueOptions
from cec_store.log.reopening import check_schema
from cec_store.log.selection import OUTPUT_KINDS, Moment, Selection
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.following import Following
from cec_store.partitioned.making import refuse_what_is_there
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.partitioned.reading import queue_in
from cec_store.partitioned.whole_queue import read_whole
from cec_store.queues.appendable_queue import check_mode, now_us
from cec_store.queues.output_queue import OutputQueue
from cec_store.state_logs.segments import is_state_log
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import folder_at, store_of
from cec_store.storage.stores.store import Store


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
    partitions: None = ...,
    storage_options: Mapping[str, Any] | None = ...,
) -> OutputQueue: ...


@overload
def open_queue(
    path: AnyPath,
    mode: Literal["a", "x"],
    *,
    schema: pa.Schema | RecordSchema | None = ...,
    timestamp_column: str | None = ...,
    clock_us: Callable[[], int] = ...,
    retention: Retention | str | timedelta | int | None = ...,
    partitions: int,
    key_columns: Sequence[str] = ...,
    storage_options: Mapping[str, Any] | None = ...,
) -> PartitionedQueue: ...


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
    partitions: int | None = ...,
    key_columns: Sequence[str] = ...,
    storage_options: Mapping[str, Any] | None = ...,
) -> OutputQueue | PartitionedQueue | StateLog: ...


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
    partitions: int | None = None,
    key_columns: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> OutputQueue | PartitionedQueue | StateLog:
    """Open an output queue, or (mode ``r`` only) the log of a Spark state store.

    ``mode`` is ``"r"`` to read (beside a live writer too), ``"a"`` to append, making the queue if
    there is none, or ``"x"`` to make a new one. A new queue needs ``schema``: the user's columns,
    or a :class:`RecordSchema` for an operator's output. ``timestamp_column`` names the one of a
    record's timestamp, which is else the time of the append. ``takeover`` fences a writer that
    hangs: it can acknowledge nothing more. ``retention`` says what a new queue deletes by itself:
    ``"forever"`` nothing (the default), ``"consumers"`` what all have acknowledged as saved, a time
    as ``"7d"`` what is older, a size as ``"10GiB"`` what is beyond it. A queue that is there keeps
    its own; :func:`set_retention` changes it.

    With ``partitions`` a queue is of so many (:class:`PartitionedQueue`): tables are appended to
    them by ``key_columns``, as Spark's own partitioning would have it, each in all of its
    partitions or in none, by any number of writers at the same time.

    A state store's ``state/<operator>/<partition>[/<store>]`` opens as a :class:`StateLog`.
    ``path`` may be a URL, as for :func:`read_queue`; opening to append takes over there.

    Raises:
        NotAQueue: nothing here (mode ``r``), or something else, such as a queue of another kind.
        FileExistsError: mode ``x``, and there is a queue.
        QueueLocked: somebody else appends.
        ReadOnly: a state log, which Spark alone writes, or in a store a copy of a queue of local
            files.
        SchemaMismatch: not the queue's columns, keys or number of partitions.
        NoExclusiveCreate: several writers would overwrite each other in a store of this kind.
        ValueError: no such mode; many partitions, and no ``partitions`` to append;
            ``key_columns`` of one; or columns that are named without a schema, or beside those of a
            `RecordSchema`.
        CorruptLog, UnsupportedVersion: refused; nothing was changed.

    Examples:
        >>> with open_queue("visits", "a", schema=pa.schema([("page", pa.string())])) as queue:
        ...     _ = queue.append(pa.table({"page": ["a", "b"]}), sync=True)
        >>> with open_queue("visits") as queue:
        ...     queue.replay().read_all().to_pylist()
        [{'page': 'a'}, {'page': 'b'}]
    """
    check_mode(mode)
    schema = _described(schema, timestamp_column, key_columns)
    kept = None if retention is None else Retention.of(retention)
    folder = folder_at(path, storage_options)
    store, ledger = _layout(folder, mode, partitions, key_columns)
    if store is not None and options is not None:
        raise ValueError("options are of queues without partitions")
    if store is not None:
        return PartitionedQueue(
            store, mode, schema,
            partitions=partitions, clock_us=clock_us, retention=kept, ledger=ledger,
        )  # fmt: skip
    if ledger is None and is_state_log(folder):
        return _state_log(folder, mode, schema)
    return OutputQueue(
        folder, mode, schema, options,
        takeover=takeover, clock_us=clock_us, retention=kept, ledger=ledger,
    )  # fmt: skip


def _described(
    schema: pa.Schema | RecordSchema | None,
    timestamp_column: str | None,
    key_columns: Sequence[str],
) -> RecordSchema | None:
    """Return the schema with these columns; raise ValueError where nothing would go by them."""
    keys, names = tuple(key_columns), "timestamp_column and key_columns"
    if isinstance(schema, pa.Schema):
        return RecordSchema(schema, timestamp_column=timestamp_column, key_columns=keys)
    if schema is None:
        if timestamp_column is not None or keys:
            raise ValueError(f"{names} describe a schema: give it, too")
    elif timestamp_column not in (None, schema.timestamp_column) or keys not in (
        (),
        schema.key_columns,
    ):
        raise ValueError(f"{names} are not those of the RecordSchema: say them there")
    return schema


def _state_log(folder: Folder, mode: str, schema: RecordSchema | None) -> StateLog:
    if mode != "r":
        raise ReadOnly(
            f"{folder.path}: the log of a Spark state store, which Spark alone writes; "
            "open with mode='r'"
        )
    check_schema(folder, schema, STATE_SCHEMA)
    return StateLog(folder)


def _layout(
    folder: Folder, mode: str, partitions: int | None, key_columns: Sequence[str]
) -> tuple[Store | None, ReferenceLog | None]:
    """Return the store of a queue of many partitions, made or to be made, and the commits there.

    There is no store for another queue.

    Raises:
        NotAQueue, CorruptLog: as :func:`refuse_what_is_there`.
        ValueError: key columns of another queue.
    """
    ledger, store = ledger_at(folder), store_of(folder)
    if ledger is not None and (partitions is not None or not ledger.has_one_writer):
        return ledger.store, ledger
    if ledger is None and store is not None and partitions is not None:
        if mode != "r":
            refuse_what_is_there(folder, store)
        return store, None
    if key_columns:
        raise ValueError("key_columns are of a queue of many partitions: say partitions, too")
    return None, ledger


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

    ``path`` may be a URL, and ``storage_options`` what its fsspec file system takes, as in pandas.

    Raises:
        NotAQueue: there is none.
        SchemaMismatch: there is no such column.
        ValueError: a position in a queue of many partitions.
        OutOfRange: a position that is trimmed or does not exist yet.
        QueueReplaced: a position of another queue, which stood here before.
        CorruptLog: damage; from the reader, once everything before it has been returned.

    Examples:
        >>> read_queue("queues/trades", since=datetime(2026, 1, 1, 12, 1)).read_all().to_pylist()
        [{'item': 'b', 'price': 7}, {'item': 'a', 'price': 20}]
    """
    selection = Selection(
        since, until, kinds, include_metadata, from_moment=from_moment, columns=columns
    )
    return read_whole(queue_at(path, storage_options), selection)


def follow(
    path: AnyPath | FolderTree,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    last: int | None = None,
    resume: str | None = None,
    kinds: Collection[RecordKind] = OUTPUT_KINDS,
    include_metadata: bool = False,
    from_moment: Moment | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Following:
    """Return all rows of a queue of any kind in the order of its commits, and those to come.

    Iterate it by ``for``, which waits for what comes next, or by ``async for``. It begins with the
    oldest row; with ``last``, with so many rows before the end (0: with what comes next); with
    ``resume``, where the :attr:`Following.cursor` of another one had come to. Other arguments are
    those of :func:`read_queue`.

    Raises:
        NotAQueue: there is none.
        SchemaMismatch: there is no such column.
        ValueError: a position in a queue of many partitions, or a negative ``last``.
        QueueReplaced: a cursor or position of another queue, or of an older copy.
        CorruptLog, UnsupportedVersion: it cannot be read.

    Examples:
        >>> with follow("queues/trades", last=1) as following:
        ...     next(following).to_pylist()
        [{'item': 'a', 'price': 20}]
    """
    selection = Selection(
        since, until, kinds, include_metadata, from_moment=from_moment, columns=columns
    )
    return Following(queue_at(path, storage_options), selection, last=last, resume=resume)


def queue_at(
    path: AnyPath | FolderTree, storage_options: Mapping[str, Any] | None = None
) -> PlainQueue | ReferenceQueue:
    """A queue of any kind, to read by partition.

    Raises:
        NotAQueue: there is none.
        CorruptLog, UnsupportedVersion: it cannot be read.
    """
    return queue_in(folder_at(path, storage_options))
