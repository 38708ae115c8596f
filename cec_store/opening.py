"""The doors: a queue or a log of a state store to append to or to read, by its path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import PurePath
from typing import Literal, overload

import pyarrow as pa

from cec_store.errors import ReadOnly
from cec_store.format.schema import KIND, TIMESTAMP, TIMESTAMP_TYPE, RecordKind, RecordSchema
from cec_store.log.options import QueueOptions
from cec_store.log.reopening import check_schema
from cec_store.log.replay import OFFSET, OUTPUT_KINDS, Moment, Replay
from cec_store.partitioned.partitions import Partitions
from cec_store.partitioned.reading import PARTITION, with_partition
from cec_store.queues.output_queue import OutputQueue
from cec_store.queues.queue import MODES, now_us
from cec_store.state_logs.segments import STATE_SCHEMA, is_state_log
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.local import LocalFolder
from cec_store.values import Position


@overload
def open_queue(
    path: str | PurePath | Folder,
    mode: Literal["a", "x"],
    *,
    schema: pa.Schema | RecordSchema | None = ...,
    timestamp_column: str | None = ...,
    options: QueueOptions | None = ...,
    takeover: bool = ...,
    clock_us: Callable[[], int] = ...,
) -> OutputQueue: ...


@overload
def open_queue(
    path: str | PurePath | Folder,
    mode: str = ...,
    *,
    schema: pa.Schema | RecordSchema | None = ...,
    timestamp_column: str | None = ...,
    options: QueueOptions | None = ...,
    takeover: bool = ...,
    clock_us: Callable[[], int] = ...,
) -> OutputQueue | StateLog: ...


def open_queue(
    path: str | PurePath | Folder,
    mode: str = "r",
    *,
    schema: pa.Schema | RecordSchema | None = None,
    timestamp_column: str | None = None,
    options: QueueOptions | None = None,
    takeover: bool = False,
    clock_us: Callable[[], int] = now_us,
) -> OutputQueue | StateLog:
    """Open an output queue, or (mode ``r`` only) the log of a Spark state store.

    ``mode`` is ``"r"`` to read (beside a live writer too), ``"a"`` to append, making the queue if
    there is none, or ``"x"`` to make a new one. A new queue needs ``schema``: the user's columns,
    or a :class:`RecordSchema` for an operator's output. ``timestamp_column`` names the column that
    a record's timestamp is taken from; without one it is the time of the append.
    ``takeover`` fences a writer that hangs: it can acknowledge nothing more.

    A directory ``state/<operator>/<partition>[/<store>]`` of a checkpoint, written by the state
    store provider of this package, opens as a :class:`StateLog`.

    Raises:
        NotAQueue: nothing here (mode ``r``), or something else.
        FileExistsError: mode ``x``, and there is a queue.
        QueueLocked: somebody else appends.
        ReadOnly: a state log, which Spark alone writes.
        SchemaMismatch: not the queue's columns.
        CorruptLog, UnsupportedVersion: refused; nothing was changed.
    """
    folder = LocalFolder(path) if isinstance(path, (str, PurePath)) else path
    if isinstance(schema, pa.Schema):
        schema = RecordSchema(schema, timestamp_column=timestamp_column)
    if is_state_log(folder):
        if mode in MODES and mode != "r":
            raise ReadOnly(
                f"{folder.path}: the log of a Spark state store, which Spark alone writes; "
                "open with mode='r'"
            )
        if mode == "r":
            if schema is not None:
                check_schema(folder, schema, STATE_SCHEMA)
            return StateLog(folder)
    return OutputQueue(folder, mode, schema, options, takeover=takeover, clock_us=clock_us)


def read_queue(
    path: str | PurePath | FolderTree,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    kinds: Collection[RecordKind] = OUTPUT_KINDS,
    include_metadata: bool = False,
) -> pa.RecordBatchReader:
    """The rows of a queue from a moment on, up to (not including) another.

    Of a queue of many partitions, one partition after the other, each from its earliest record at
    or after ``since``, as far as the queue reached when this was called. Moments are as for
    :meth:`OutputQueue.replay`; a :class:`Position` is one of a queue without partitions.
    ``include_metadata`` adds ``_timestamp``, ``_kind``, ``_offset`` and ``_partition``.

    Raises:
        NotAQueue: there is none.
        ValueError: a position in a queue of many partitions.
        OutOfRange: a position that is trimmed or does not exist yet.
        CorruptLog: damage; from the reader, once everything before it has been returned.
    """
    queue = Partitions(LocalFolder(path) if isinstance(path, (str, PurePath)) else path)
    ends = queue.ends()
    if queue.is_partitioned and (isinstance(since, Position) or isinstance(until, Position)):
        raise ValueError(f"{queue.folder.path} has partitions: give moments, not positions")
    replays = {number: _replay(queue, number, end, since, until, kinds, include_metadata)
               for number, end in ends.items()}  # fmt: skip
    fields = list(queue.schema.data)
    if include_metadata:
        fields += [
            pa.field(TIMESTAMP, TIMESTAMP_TYPE),
            pa.field(KIND, pa.uint8()),
            pa.field(OFFSET, pa.int64()),
            pa.field(PARTITION, pa.int32()),
        ]
    schema = pa.schema(fields)
    return pa.RecordBatchReader.from_batches(schema, _batches(replays, schema))


def _replay(
    queue: Partitions,
    number: int,
    end: int,
    since: Moment | None,
    until: Moment | None,
    kinds: Collection[RecordKind],
    include_metadata: bool,
) -> Replay:
    def offset(moment: Moment) -> int:
        if isinstance(moment, Position):
            return moment.offset
        return min(end, queue.queue(number).position_at(moment).offset)

    start = queue.first(number) if since is None else offset(since)
    stop = end if until is None else offset(until)
    return queue.replay(
        number, start, max(start, stop), kinds=kinds, include_metadata=include_metadata
    )


def _batches(replays: dict[int, Replay], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, replay in replays.items():
        for batch in replay:
            if PARTITION in schema.names:
                batch = with_partition(batch, number)
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
