"""A queue with its reading side: the timestamp index, replay, and the eventual checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import date
from threading import Lock

from cec_store.checkpoints.rebuild import EventualCheckpoint, extent, rebuild
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.chain import QueueChain
from cec_store.log.options import QueueOptions
from cec_store.log.replay import Replay, offset_at
from cec_store.log.selection import OUTPUT_KINDS, Moment, Selection
from cec_store.queues.appendable_queue import AppendableQueue, now_us
from cec_store.storage.folder import Folder
from cec_store.storage.forking import OwnProcess, forked
from cec_store.values import Extent, Position


class OutputQueue(AppendableQueue):
    """An output queue. See :func:`open_queue`. ``_index_lock`` guards ``_index``.

    Examples:
        >>> with open_queue("queues/trades", "a") as queue:
        ...     number = queue.append(pa.table({"item": ["c"], "price": [5]}))
        ...     queue.await_durable(number)
        ...     queue.durable_offset
        4
    """

    def __init__(
        self,
        folder: Folder,
        mode: str,
        schema: RecordSchema | None = None,
        options: QueueOptions | None = None,
        *,
        takeover: bool = False,
        clock_us: Callable[[], int] = now_us,
        retention: Retention | None = None,
        ledger: ReferenceLog | None = None,
        chain: QueueChain | None = None,
    ) -> None:
        self._index: TimestampIndex | None = None
        self._index_lock = Lock()
        super().__init__(
            folder, mode, schema, options,
            takeover=takeover, clock_us=clock_us, retention=retention, ledger=ledger,
            chain=chain,
        )  # fmt: skip

    def replay(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        follow: bool = False,
        kinds: Collection[RecordKind] = OUTPUT_KINDS,
        include_metadata: bool = False,
        include_state: bool = False,
        from_moment: Moment | None = None,
        columns: Sequence[str] | None = None,
    ) -> Replay:
        """Arrow batches of the records with since ≤ timestamp < until, in the order of the log.

        Moments are a datetime (UTC if it has no zone), a date, epoch microseconds, or a text such
        as ``"-1h"`` or ``"2026-01-31"``; timestamps may go backward, and the whole log is searched
        by the headers of its frames. A :class:`Position` as ``since`` or ``until`` is where to
        begin or end, whatever the timestamps. The default is everything that is left.
        ``from_moment`` begins with the first record at or after it and leaves out nothing behind
        that, unless ``since`` or ``until`` do; a position will do too.
        With ``follow`` the replay waits for more at the end, for any moment may still come; stop
        it by ``stop()``, or give a position as ``until``.
        ``columns`` returns only these of the user's, in this order; where a queue is compressed by
        columns (:class:`cec_store.QueueOptions`) the others are not even decompressed.
        ``include_metadata`` adds the columns ``_timestamp``, ``_kind``, ``_offset``;
        ``include_state`` those that an operator's queue has of ``_key`` and ``_state``.
        Only durable records are returned.

        Raises:
            OutOfRange: a position that is trimmed or does not exist yet.
            QueueReplaced: a position of another queue, which stood here before.
            SchemaMismatch: there is no such column.
            CorruptLog: damage on the way; everything before it has been returned.
        """
        selection = Selection(
            since, until, kinds, include_metadata, include_state, follow, from_moment,
            columns=columns,
        )  # fmt: skip
        return self.select(selection)

    def select(self, selection: Selection) -> Replay:
        """Return a replay of a selection, as :meth:`replay` does of its arguments."""
        chain = self.chain()
        return Replay(chain, self._timestamp_index().lookup(chain), selection)

    def position_at(self, moment: date | int | str) -> Position:
        """The position of the earliest record at or after the moment; the end if there is none."""
        chain = self.chain()
        offset = offset_at(chain, self._timestamp_index().lookup(chain), moment)
        return Position(offset, queue=chain.queue_id)

    def rebuild(self, at: int | None = None) -> EventualCheckpoint:
        """The eventual checkpoint at the end of frame ``at`` (a number that append returned).

        By default that of the newest durable frame. See :mod:`cec_store.checkpoints.rebuild`.
        """
        return rebuild(self.chain(), at)

    def extent(self, at: int | None = None) -> Extent:
        """Return what such a rebuild would read; looks at headers only."""
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
        if self._process.is_other():
            return
        try:
            super().close()
        finally:
            with self._index_lock:
                if self._index is not None:
                    self._index.close()

    def _timestamp_index(self) -> TimestampIndex:
        if self._process.is_other():
            # The parent's, of which another thread may have held the lock.
            if self.mode != "r":
                raise forked(self.folder.path)
            self._process, self._index_lock, self._index = OwnProcess(), Lock(), None
        # Made when first asked for, so that a writer that only appends keeps no index.
        with self._index_lock:
            if self._index is None:
                self._index = TimestampIndex(self.chain(), writable=self.mode != "r")
            return self._index
