"""A queue of many partitions, as its users have it: appended to, replayed, kept small.

docs/format.md §11. Several may be open for appending at the same time, in any processes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta

import pyarrow as pa

from cec_store.errors import ReadOnly, SchemaMismatch
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import (
    TrimBounds,
    retention_of,
    with_retention,
)
from cec_store.ledger.registrations import (
    PartitionedConsumerState,
    consumer_states,
)
from cec_store.log.selection import OUTPUT_KINDS, Moment, Selection
from cec_store.partitioned.by_reference.partitioned_consumer import (
    PartitionedConsumer,
    Places,
    drop_consumer,
)
from cec_store.partitioned.by_reference.reference_queue import (
    ReferenceQueue,
    make,
    open_or_make,
    refuse_one_writer,
    require_as_stored,
)
from cec_store.partitioned.by_reference.reference_writer import ReferenceWriter
from cec_store.partitioned.by_reference.upkeep import Upkeep
from cec_store.storage.names import checked_transaction
from cec_store.storage.stores.store import Store


class PartitionedQueue:
    """A queue of many partitions. See :func:`cec_store.open_queue`. For one thread.

    Examples:
        >>> schema = pa.schema([("item", pa.string())])
        >>> with open_queue("items", "a", schema=schema, partitions=2) as queue:
        ...     _ = queue.append(pa.table({"item": ["a", "b", "a"]}))
        ...     sum(queue.ends().values())
        3
    """

    def __init__(
        self,
        store: Store,
        mode: str,
        schema: RecordSchema | None = None,
        *,
        partitions: int | None = None,
        clock_us: Callable[[], int],
        retention: Retention | None = None,
        ledger: ReferenceLog | None = None,
    ) -> None:
        self._store = store
        self.mode = mode
        self._clock_us = clock_us
        self._reference_log = ledger or ReferenceLog(store)
        self._state = self._opened(schema, partitions, retention)
        self.schema = self._reference_log.schema(self._state)
        if schema is not None:
            require_as_stored(self.schema, schema, store.url)
        if mode != "r":
            self._reference_log.prove_creates()
        self._writer = ReferenceWriter(self._reference_log, self.schema, clock_us)
        self._upkeep = Upkeep(self._reference_log, self.schema, clock_us)

    def _opened(
        self, schema: RecordSchema | None, partitions: int | None, retention: Retention | None
    ) -> QueueState:
        log, now_us = self._reference_log, self._clock_us()
        count = 1 if partitions is None else partitions
        if self.mode == "r" or schema is None:
            state = log.open()
        elif self.mode == "x":
            if log.is_there():
                refuse_one_writer(log.open(), self.path)
            return make(log, schema, count, retention, now_us)
        else:
            state = open_or_make(log, schema, count, retention, now_us)
        if self.mode != "r":
            refuse_one_writer(state, self.path)
        if partitions is None and self.mode != "r":
            count = len(state.commit.ends)
            raise ValueError(f"{self.path}: a queue of many partitions: say partitions={count}")
        if partitions is not None and partitions != len(state.commit.ends):
            raise SchemaMismatch(
                f"{self.path}: the queue has {len(state.commit.ends)} partitions, not {partitions}"
            )
        return state

    @property
    def path(self) -> str:
        """Its path or URL."""
        return self._store.url

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self._state.commit.ends)

    @property
    def commit_number(self) -> int:
        """Number of the newest commit that this object has seen."""
        return self._state.number

    def starts(self) -> dict[int, int]:
        """Oldest offset that is left of each partition."""
        return dict(enumerate(self._state.commit.starts))

    def ends(self) -> dict[int, int]:
        """Next offset of each partition, as of the last commit, append or refresh."""
        return dict(enumerate(self._state.commit.ends))

    def refresh(self) -> None:
        """Look how far it reaches now: one request where nothing is new."""
        self._state = self._reference_log.refresh(self._state)

    # -- reading ------------------------------------------------------------------------------

    def replay(
        self,
        partition: int,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        follow: bool = False,
        kinds: Collection[RecordKind] = OUTPUT_KINDS,
        include_metadata: bool = False,
        from_moment: Moment | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches of one partition; as :meth:`cec_store.OutputQueue.replay`.

        ``include_metadata`` adds ``_partition`` too. :func:`cec_store.read_queue` reads all.

        Raises:
            OutOfRange: there is no such partition, or a position that is trimmed or not there yet.
            SchemaMismatch: there is no such column.
            CorruptLog: damage on the way; everything before it has been returned.
        """
        selection = Selection(
            since, until, kinds, include_metadata, False, follow, from_moment, columns=columns
        )
        return ReferenceQueue(self._store).replay(partition, selection)

    # -- appending ----------------------------------------------------------------------------

    def append(
        self,
        rows: pa.RecordBatch | pa.Table,
        *,
        txn_app_id: str | None = None,
        txn_version: int | None = None,
    ) -> int:
        """Append rows, all of them or none, and return their commit's number: they are durable.

        Rows go to partitions by the queue's key columns, as Spark's partitioning has it; without
        keys each append goes to one partition, one after the other.
        With ``txn_app_id``, a name of 1 to 100 of ``A-Z a-z 0-9 . _ -``, and ``txn_version``, a
        whole number that rises, a version is appended once, however often it is tried: one that the
        queue has, or that is below, is passed over with a warning.

        Raises:
            ReadOnly: opened for reading.
            SchemaMismatch: columns of another type.
            FrameTooLarge: a single row is more than a frame may hold.
            ValueError: no such name or version.
            StoreUnreachable: the store does not say whether the rows are there. With a version
                append them again; else this queue appends no more (:class:`Poisoned`).
            StorageError: they are not there.
        """
        self._writing()
        if (txn_app_id is None) is not (txn_version is None):
            raise ValueError("txn_app_id and txn_version go together")
        transaction = None
        if txn_app_id is not None:
            transaction = checked_transaction(txn_app_id, txn_version)
        before = self._state
        self._state = self._writer.append(before, rows, transaction)
        number = self._state.number
        self._state = self._upkeep.now_and_then(before, self._state)
        return number

    def _writing(self) -> None:
        if self.mode == "r":
            raise ReadOnly(f"{self.path}: the queue is open for reading; open it with mode='a'")

    # -- keeping it small ---------------------------------------------------------------------

    def merge(self) -> int:
        """Put small neighbours together; returns how many segments have gone into others.

        An append does this by itself now and then. What was taken away a day ago is deleted.

        Raises:
            ReadOnly: opened for reading.
            CorruptLog: one of them is damaged; it stays, and the others are merged.
        """
        self._writing()
        self._state, count = self._upkeep.merge(self._state)
        return count

    def trim(
        self,
        *,
        before: Mapping[int, int] | None = None,
        keep: Retention | str | timedelta | int | None = None,
    ) -> dict[int, int]:
        """Delete whole segments, and return the oldest offset of each partition after it.

        ``before``: by partition, only records below this offset. ``keep``: only what was written
        longer ago (``"7d"``), or is more than so many bytes of a partition (``"10GiB"``). Neither:
        what the retention says, as an append does now and then. What a consumer needs stays, but
        where the retention is a time or a size and nothing else is asked for. Objects are deleted a
        day later, for those who read them now.

        Raises:
            ReadOnly: opened for reading.
            OutOfRange: an offset above the end.
            CorruptLog, UnsupportedVersion: what a consumer needs cannot be read.
        """
        self._writing()
        bounds = TrimBounds(before, None if keep is None else Retention.of(keep))
        self._state = self._upkeep.trim(self._state, bounds)
        return self.starts()

    def clean(self) -> list[str]:
        """Delete objects that writers which died have left, and those removed more than a day ago.

        Lists all folders of data: for once a day, not for each batch. Returns their names.

        Raises:
            ReadOnly: opened for reading.
        """
        self._writing()
        self._state, names = self._upkeep.clean(self._state)
        return names

    @property
    def retention(self) -> Retention:
        """Rule by which the queue deletes rows by itself.

        Raises:
            UnsupportedVersion: a later release has set it.
        """
        return retention_of(self._state, self._store.url)

    def set_retention(self, retention: Retention | str | timedelta | int) -> None:
        """Change what is deleted without being asked. See :func:`cec_store.set_retention`.

        Raises:
            ReadOnly: opened for reading.
            ValueError: neither ``"forever"`` nor ``"consumers"``, a time or a size.
        """
        self._writing()
        kept = Retention.of(retention)
        log, now_us = self._reference_log, self._clock_us()
        self._state = with_retention(log, self._state, kept, now_us)

    # -- consumers ----------------------------------------------------------------------------

    def consumer(self, name: str, *, start: Places | None = None) -> PartitionedConsumer:
        """Act as the consumer of this name, for which the queue keeps what it needs.

        As :meth:`cec_store.OutputQueue.consumer`; ``start`` is by partition, and whoever acts under
        the name already is fenced: it acknowledges nothing more.

        Raises:
            OutOfRange: there is no such partition, or ``start`` is trimmed or not there yet.
            QueueReplaced: a position of another queue.
            ValueError: not a name.
        """
        return PartitionedConsumer(self._reference_log, name, start, self._clock_us)

    def consumers(self) -> list[PartitionedConsumerState]:
        """All registered consumers by name, with their lag.

        Raises:
            CorruptLog, UnsupportedVersion: what one of them has acknowledged cannot be read.
        """
        self.refresh()
        return consumer_states(self._store, self._state)

    def drop_consumer(self, name: str) -> None:
        """Forget a consumer, damaged or not. Raises ``ValueError`` where there is none."""
        drop_consumer(self._reference_log, name, self._clock_us)

    def close(self) -> None:
        """Let go; what was appended is durable already."""

    def __enter__(self) -> PartitionedQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
