"""A queue as its writer and its consumers use it: append, sync, roll, trim, acknowledge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from weakref import finalize

import pyarrow as pa

from cec_store.errors import CecError, NotAQueue, QueueLocked, ReadOnly, SchemaMismatch
from cec_store.format.arrow_values import readable
from cec_store.format.retention import FOREVER, Retention
from cec_store.format.schema import RecordSchema
from cec_store.ledger.commit_chain import CommitChain, chain_at, ledger_at, log_id_at
from cec_store.ledger.commit_writer import CommitWriter, open_by_commits
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import TrimBounds, retention_of, trimmed, with_retention
from cec_store.log.chain import QueueChain
from cec_store.log.creating import check_free, create
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.log.notes import refuse_if_held
from cec_store.log.options import QueueOptions
from cec_store.log.pipeline.pipeline import Pipeline
from cec_store.log.positions import check_queue
from cec_store.log.reopening import RecoveryReport, check_schema, reopen
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.queues.consumable_queue import ConsumableQueue
from cec_store.queues.retention import read_retention, warn_of_other_retention, write_retention
from cec_store.queues.trimming import Retaining, trim
from cec_store.queues.user_rows import records_of, refuse_other_times
from cec_store.storage.folder import Folder, Lock
from cec_store.storage.forking import OwnProcess
from cec_store.storage.names import WRITER_LOCK
from cec_store.storage.stores.folders import local_of, store_of
from cec_store.values import Position

MODES = ("r", "a", "x")


def now_us() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def check_mode(mode: str) -> None:
    """Raise ``ValueError`` for a mode in which no queue is opened."""
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: 'r' reads, 'a' appends, 'x' makes a new queue")


class AppendableQueue(ConsumableQueue):
    """A queue without index, replay and rebuild, which :class:`.output_queue.OutputQueue` adds.

    Opened to append (``a``, ``x``) or to read (``r``). Any thread may append, as the pipeline has
    its own locks. Fields are set at opening and at close only, so there is no lock here; opened to
    read, one thread at a time may ask for the ends, which read on in one chain.
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
        """See :func:`cec_store.open_queue`.

        ``ledger`` is that of :func:`.ledger_at`, and ``chain`` the queue for reading, if known.
        """
        check_mode(mode)
        super().__init__(folder, clock_us)
        self.mode = mode
        self.options = options or QueueOptions()
        self.report = RecoveryReport()
        """Report of the opening for append."""
        self._process = OwnProcess()
        self._pipeline: Pipeline | None = None
        if mode == "r":
            self._chain = chain or chain_at(folder, ledger)
            self.schema = self._chain.schema()
            check_schema(folder, schema, self.schema)
            return
        writer, lock = self._open_writer(
            schema, takeover, retention or FOREVER, ledger or ledger_at(folder)
        )
        self.schema = writer.schema
        self._retaining = Retaining(folder, writer.newest_segment)
        self._writer = writer
        pipeline = Pipeline(writer, self.options, lock)
        # Whatever interrupts the opening or forgets the queue: what nobody refers to is closed.
        finalize(self, pipeline.stop).atexit = False
        pipeline.start()
        self._pipeline = pipeline
        if retention is not None:
            warn_of_other_retention(folder.path, self.retention, retention)

    def _open_writer(
        self,
        schema: RecordSchema | None,
        takeover: bool,
        retention: Retention,
        ledger: ReferenceLog | None,
    ) -> tuple[LogWriter | CommitWriter, Lock | None]:
        store = store_of(self.folder)
        is_by_commits = ledger is not None and ledger.has_one_writer
        if store is not None and (is_by_commits or not self.folder.appends):
            return self._open_commits(ledger or ReferenceLog(store), schema, retention), None
        exists = newest_epoch(self.folder) is not None
        if not exists and schema is None:
            raise NotAQueue(f"{self.folder.path}: no queue here; give a schema to make one")
        if exists and self.mode == "x":
            raise FileExistsError(f"{self.folder.path}: there is a queue already")
        if not exists:
            self._check_free()
        if (local := local_of(self.folder)) is not None:
            local.check_mount()
        self.folder.make()
        lock = None
        try:
            lock = self.folder.lock(WRITER_LOCK)
        except QueueLocked:
            if not takeover:
                raise
            # Whoever makes it has no epoch yet, so it cannot be fenced.
            if newest_epoch(self.folder) is None:
                raise QueueLocked(
                    f"{self.folder.path}: another process is making this queue; nothing is in it "
                    "yet, so if that process hangs, end it and open again"
                ) from None
        clock_and_entropy = ClockAndEntropy(self._clock_us)
        try:
            # Looked for again: somebody may have made it before this one had the lock.
            exists = newest_epoch(self.folder) is not None
            if exists and self.mode == "x":
                raise FileExistsError(f"{self.folder.path}: there is a queue already")
            if not takeover:
                refuse_if_held(self.folder)
            if not exists and schema is not None:
                return create(self.folder, schema, clock_and_entropy, retention), lock
            writer, self.report = reopen(self.folder, schema, clock_and_entropy)
            return writer, lock
        except BaseException:
            if lock is not None:
                lock.close()
            raise

    def _open_commits(
        self, ledger: ReferenceLog, schema: RecordSchema | None, retention: Retention
    ) -> CommitWriter:
        """Return the writer of a queue by commits, made or taken over."""
        writer, self.report = open_by_commits(
            self.folder, ledger, schema, ClockAndEntropy(self._clock_us), retention,
            must_be_new=self.mode == "x",
        )  # fmt: skip
        return writer

    def _check_free(self) -> None:
        """Refuse a folder where no queue can be made, before anything is changed."""
        try:
            check_free(self.folder)
        except CecError:
            # This may be half of what somebody writes who makes it just now, and has the lock. Who
            # gets the lock looks again.
            if not self.folder.exists() or WRITER_LOCK not in self.folder.names():
                raise

    # -- writing ------------------------------------------------------------------------------

    def append(
        self,
        batch: pa.RecordBatch | pa.Table,
        timestamps: pa.Array | None = None,
        *,
        sync: bool = False,
    ) -> int:
        """Append a batch of data, or a table, atomically, and return its frame's number.

        It is one frame, or where it is more than a frame may hold several that count as one; then
        the number is that of the last. It is *acknowledged* once :meth:`await_durable` of that
        number returns. ``timestamps`` (Arrow timestamps or int64 microseconds, one a row) default
        to the queue's timestamp column, from which they may not differ, and without one to the time
        of this call. A batch without rows writes nothing. Rows are written from the caller's own
        buffers by another thread: until they are acknowledged, what those hold may not change, as
        NumPy arrays under an Arrow table could.

        Raises:
            SchemaMismatch: columns or timestamps of another type, or a value that no reader would
                take, such as a decimal of too many digits; nothing is written.
            FrameTooLarge: a single row is more than a frame may hold; nothing is written.
            OutOfRange: the numbers of frames or records, below 2^63, are used up.
            Fenced: another writer has taken over; said by every later call too.
            ReadOnly, Poisoned: this queue cannot be appended to, or not any more.
        """
        pipeline = self._writing()
        if self.schema.inputs:
            raise SchemaMismatch(
                f"{self.folder.path}: an operator writes this queue; run it by a Runner"
            )
        parts = records_of(self.schema, batch, timestamps, self._clock_us, self.folder.path)
        seq = self._submit(parts, FrameMarks()) if parts else pipeline.end.seq - 1
        if sync:
            self.await_durable(seq)
        return seq

    def append_records(self, records: pa.RecordBatch, marks: FrameMarks | None = None) -> int:
        """Append records of any kind, in the record schema, as one atomic frame."""
        return self.append_step([records], marks or FrameMarks())

    def append_step(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        """Append a step, one part at least, each part as a frame; all of them count, or none.

        ``marks`` are those of its end. Parts are asked for while earlier ones are being written.
        Returns the number of the last frame. A step that is left in the middle, by an error of
        ``parts`` too, ends this writer: the next opening finds nothing of it.
        """
        return self._submit(map(self._fitting, parts), marks)

    def _submit(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        pipeline = self._writing()
        seq = pipeline.submit(parts, marks)
        self._retaining.after(pipeline.writer.newest_segment, self._trim)
        return seq

    def _fitting(self, records: pa.RecordBatch) -> pa.RecordBatch:
        if records.schema != self.schema.arrow:
            raise SchemaMismatch(f"records of\n{records.schema}\nnot\n{self.schema.arrow}")
        refuse_other_times(self.schema, records)
        return readable(records)

    def sync(self) -> None:
        """Return once everything appended is on disk.

        Raises:
            DurabilityLost, DiskFull, Fenced: it cannot be acknowledged; open the queue again.
        """
        self.await_durable(self._writing().end.seq - 1)

    def await_durable(self, seq: int, timeout_s: float | None = None) -> None:
        """Return once frame ``seq`` and all before it are on disk; raises as :meth:`sync` does."""
        if seq >= 0:
            self._writing().await_durable(seq, timeout_s)

    def roll(self) -> None:
        """Complete the segment and start a new one; everything before is then on disk."""
        pipeline = self._writing()
        pipeline.call(pipeline.roll)
        self._retaining.after(pipeline.writer.newest_segment, self._trim)

    def trim(
        self,
        before: Position | int | None = None,
        *,
        keep: timedelta | int | str | Retention | None = None,
    ) -> int:
        """Remove whole segments that nobody needs: of records below ``before``, or what is beyond
        ``keep``, a time since they were written or a number of bytes.

        What a rebuild at the end needs stays, and what a consumer has not acknowledged as saved.
        Without ``before`` and ``keep`` the queue's retention decides. Returns the oldest offset
        that is left.

        Raises:
            OutOfRange: ``before`` is above the end.
            QueueReplaced: it is a position of another queue, or another queue stands here now.
            ValueError: no such time or size.
            CorruptLog, UnsupportedVersion: a consumer's file does not say what it needs, or the
                queue's setting cannot be read.
        """
        if isinstance(before, Position):
            here = log_id_at(self.folder).hex()
            check_queue(before.queue, self.folder.path, here)
        offset = before.offset if isinstance(before, Position) else before
        below = None if offset is None else {0: offset}
        return self._trim(TrimBounds(below, None if keep is None else Retention.of(keep)))

    def _trim(self, bounds: TrimBounds) -> int:
        pipeline, writer = self._writing(), self._writer
        if isinstance(writer, CommitWriter):
            self.check_writer()
            chain = self._commits()
            return trimmed(chain.ledger, chain.state, bounds, self._clock_us).commit.starts[0]
        self.check_writer()  # before the queue that is there now is asked what may go
        return trim(
            self.folder,
            bounds,
            lambda first: pipeline.call(lambda: writer.trim(first)),
            self._clock_us(),
        ).first_offset

    @property
    def retention(self) -> Retention:
        """Return what is removed without being asked, whenever a segment is full.

        Raises:
            CorruptLog, UnsupportedVersion: the setting cannot be read.
        """
        chain = self.chain()
        if isinstance(chain, CommitChain):
            return retention_of(chain.state, self.folder.path)
        return read_retention(self.folder)

    def set_retention(self, retention: Retention | str | timedelta | int) -> None:
        """Change what is removed without being asked: ``"forever"``, ``"consumers"``, a time as
        ``"7d"``, or a size as ``"10GiB"``. See :func:`cec_store.set_retention`.

        Raises:
            ReadOnly: opened for reading.
            ValueError: none of these.
        """
        self._writing()
        kept = Retention.of(retention)
        if isinstance(self._writer, CommitWriter):
            chain = self._commits()
            with_retention(chain.ledger, chain.state, kept, self._clock_us())
        else:
            write_retention(self.folder, kept, self._clock_us())

    def _commits(self) -> CommitChain:
        """Return a reader of its own of a queue by commits."""
        chain = self.chain()
        assert isinstance(chain, CommitChain)
        return chain

    # -- state --------------------------------------------------------------------------------

    def chain(self) -> QueueChain:
        """A reader of its own over all that is durable now."""
        if self.mode == "r" and isinstance(self._chain, CommitChain):
            return self._chain.another()
        return super().chain()

    def check_writer(self) -> None:
        """Look whether the queue is still this one's to write.

        Raises:
            Fenced: another writer has taken over.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        pipeline = self._writing()
        pipeline.call(pipeline.writer.check)

    @property
    def durable_offset(self) -> int:
        """Every record below this offset is on disk."""
        if self._pipeline is None:
            return self._chain.refresh().offset
        return self._pipeline.durable.offset

    @property
    def end_offset(self) -> int:
        """The next record's offset; below :attr:`durable_offset` nothing can be lost."""
        return self.durable_offset if self._pipeline is None else self._pipeline.end.offset

    def require_schema(self, schema: RecordSchema) -> RecordSchema:
        """The queue's schema, which must be this one.

        Raises:
            SchemaMismatch: it is not.
        """
        check_schema(self.folder, schema, self.schema)
        return self.schema

    def _writing(self) -> Pipeline:
        self._process.check(self.folder.path)
        if self._pipeline is None:
            raise ReadOnly(f"{self.folder.path}: opened for reading; open with mode='a' to append")
        return self._pipeline

    def close(self) -> None:
        """Make everything durable and let go of the queue.

        Interrupted, it goes on in the background; a second call waits for that. In a child of
        ``fork()`` it does nothing, since the queue is the parent's.

        Raises:
            DurabilityLost, DiskFull, Fenced: the last appends could not be made durable.
        """
        if self._pipeline is not None:
            self._pipeline.close()

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
