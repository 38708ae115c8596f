"""The door: a queue together with its index, its replay and its eventual checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import PurePath
from threading import Lock
from typing import Literal, overload

import pyarrow as pa

from cec_store.chain import Chain
from cec_store.errors import ReadOnly
from cec_store.files import Folder, LocalFolder
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.pipeline import QueueOptions
from cec_store.queue import MODES, Queue, now_us
from cec_store.rebuild import EventualCheckpoint, extent, rebuild
from cec_store.records import RecordKind, RecordSchema
from cec_store.recovery import check_schema
from cec_store.replay import OUTPUT_KINDS, Moment, Replay, Seek, offset_at
from cec_store.state_log import StateLog
from cec_store.state_segments import STATE_SCHEMA, is_state_log
from cec_store.units import Extent, Position


class OutputQueue(Queue):
    """An output queue with everything that can be asked of it. See :func:`open_queue`."""

    def __init__(
        self,
        folder: Folder,
        mode: str,
        schema: RecordSchema | None = None,
        options: QueueOptions | None = None,
        *,
        takeover: bool = False,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        super().__init__(folder, mode, schema, options, takeover=takeover, clock_us=clock_us)
        self._index: TimestampIndex | None = None
        self._index_lock = Lock()

    def replay(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        follow: bool = False,
        kinds: Collection[RecordKind] = OUTPUT_KINDS,
        include_metadata: bool = False,
        include_state: bool = False,
    ) -> Replay:
        """Arrow batches from a moment or position on, up to (not including) another.

        ``since`` and ``until`` are a datetime (UTC if it has no zone), epoch microseconds, or a
        :class:`Position`. A moment means the earliest record at or after it; the default is
        everything that is left. With ``follow`` the replay waits for more at the end; stop it by
        ``stop()``. ``include_metadata`` adds the columns ``_timestamp``, ``_kind``, ``_offset``;
        ``include_state`` those that an operator's queue has of ``_key`` and ``_state``.
        Only durable records are returned.

        Raises:
            OutOfRange: a position that is trimmed or does not exist yet.
            CorruptLog: damage on the way; everything before it has been returned.
        """
        chain = self.chain()
        return Replay(
            chain,
            self._seek(chain),
            since,
            until,
            follow=follow,
            kinds=kinds,
            include_metadata=include_metadata,
            include_state=include_state,
        )

    def position_at(self, moment: datetime | int) -> Position:
        """The position of the earliest record at or after the moment; the end if there is none."""
        chain = self.chain()
        return Position(offset_at(chain, self._seek(chain), moment))

    def rebuild(self, at: int | None = None) -> EventualCheckpoint:
        """The eventual checkpoint at the end of frame ``at`` (a number that append returned).

        By default that of the newest durable frame. See :func:`cec_store.rebuild.rebuild`.
        """
        return rebuild(self.chain(), at)

    def extent(self, at: int | None = None) -> Extent:
        """What such a rebuild would read; looks at headers only."""
        return extent(self.chain(), at)

    def reindex(self) -> int:
        """Make the index anew from the log; returns the number of frames in it.

        Raises:
            ReadOnly: the queue is open for reading, or no index can be written here.
        """
        self._writing()
        return self._timestamp_index().rebuild(self.chain())

    def close(self) -> None:
        """Make everything durable, leave the index for the next to open, and let go.

        Raises:
            DurabilityLost, DiskFull, Fenced: the last appends could not be made durable.
        """
        try:
            super().close()
        finally:
            with self._index_lock:
                if self._index is not None:
                    self._index.close()

    def _timestamp_index(self) -> TimestampIndex:
        # Made when first asked for: who only appends does not pay for it.
        with self._index_lock:
            if self._index is None:
                self._index = TimestampIndex(self.chain(), writable=self.mode != "r")
            return self._index

    def _seek(self, chain: Chain) -> Seek:
        return self._timestamp_index().seek(chain)


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
