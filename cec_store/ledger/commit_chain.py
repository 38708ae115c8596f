"""The log of a queue of one writer whose frames stand in its commits. docs/format.md §13."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy

import numpy as np

from cec_store.errors import CorruptLog, NotAQueue, OutOfRange
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.frame import SEGMENT_HEADER_BYTES, FrameHeader, FrameType
from cec_store.format.schema import RecordSchema
from cec_store.ledger.commit_reader import CommitReader, InlineCommits
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.chain import Chain, QueueChain
from cec_store.log.epochs import read_manifest
from cec_store.log.frames import LogEnd
from cec_store.log.segment import SegmentReader, SegmentReaders
from cec_store.storage.folder import Folder
from cec_store.storage.stores.folders import store_of
from cec_store.values import Address


class CommitChain(QueueChain):
    """A reader of the whole queue; each commit with frames is a segment under its number."""

    def __init__(self, folder: Folder, ledger: ReferenceLog) -> None:
        """Raises :class:`NotAQueue`, :class:`CorruptLog` or :class:`UnsupportedVersion`."""
        self.folder = folder
        self.ledger = ledger
        self._readers = SegmentReaders()
        state = ledger.open()
        self._schema = ledger.schema(state)
        self._take(state)

    def _take(self, state: QueueState) -> None:
        before = dict(vars(self))
        commits = InlineCommits.of(state, self.ledger.store.url)
        self._state, self._commits = state, commits
        self._segments: Sequence[int] = commits.numbers.tolist() or [state.number]
        for number in [n for n in self._readers if n < self._segments[0]]:
            del self._readers[number]
        try:
            self._end = self._end_of(state)
        except BaseException:
            vars(self).update(before)  # the next look finds it again
            raise

    def _end_of(self, state: QueueState) -> LogEnd:
        offset = state.commit.ends[0]
        if not len(self._commits.numbers):
            return LogEnd(0, offset, Address(state.number, SEGMENT_HEADER_BYTES), None)
        reader = self._commit_reader(self._segments[-1])
        frames = list(reader.proven_frames())
        byte, last = frames[-1]
        if last.end_offset != offset or last.continues:
            what = f"the newest frame ends at record {last.end_offset}, the commit at {offset}"
            raise CorruptLog(reader.path, byte, what)
        end = Address(reader.segment_id, reader.rows_at.end)
        return LogEnd(last.seq + 1, offset, end, Address(reader.segment_id, byte))

    @property
    def state(self) -> QueueState:
        """Return the ledger's state at the last look."""
        return self._state

    @property
    def end(self) -> LogEnd:
        """End of the readable log at the last look."""
        return self._end

    @property
    def queue_id(self) -> str:
        return self._state.log_id.hex()

    def refresh(self, *, proving: bool = False) -> LogEnd:
        """Look again how far the log reaches: one request where nothing is new, or two to prove it.

        Raises:
            CorruptLog: a commit is missing or damaged.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        state = self.ledger.refresh(self._state, proving=proving)
        if state is not self._state:
            self._take(state)
        return self._end

    def another(self) -> CommitChain:
        """Return a reader of its own: two requests, and one for each commit since."""
        chain = copy(self)
        chain._readers = SegmentReaders()
        chain.refresh(proving=True)
        return chain

    def add(self, commit_after: Callable[[QueueState], ReferenceObject | None]) -> LogEnd:
        """Add a commit to the ledger, as :meth:`.ReferenceLog.add` does, and go to its end."""
        self._take(self.ledger.add(self._state, commit_after))
        return self._end

    def schema(self) -> RecordSchema:
        """Return the queue's record schema."""
        return self._schema

    def first_seq(self) -> int:
        """The number of the oldest frame; of an empty queue that of the next one."""
        return self._schema_frame(self._segments[0]).seq

    # -- segments -----------------------------------------------------------------------------

    @property
    def segments(self) -> Sequence[int]:
        """Numbers of the commits with frames; where there are none, that of the newest commit."""
        return self._segments

    def reader(self, segment_id: int) -> SegmentReader:
        """Raises :class:`OutOfRange` for rows that are trimmed."""
        return self._commit_reader(segment_id)

    def _commit_reader(self, segment_id: int) -> CommitReader:
        if segment_id not in self._readers:
            rows = self._commits.row(self._index_of(segment_id))
            self._readers[segment_id] = CommitReader(
                self.ledger.store.url,
                self.ledger.read,
                self._state.log_id,
                rows,
                self._schema,
                self._is_trimmed,
            )
        reader = self._readers.switch_to(segment_id)
        assert isinstance(reader, CommitReader)
        return reader

    def _is_trimmed(self, number: int) -> bool:
        state = self.ledger.refresh(self._state)
        return number not in InlineCommits.of(state, self.ledger.store.url).numbers

    def _index_of(self, segment_id: int) -> int:
        numbers = self._commits.numbers
        index = int(np.searchsorted(numbers, segment_id))
        if index == len(numbers) or numbers[index] != segment_id:
            raise OutOfRange(
                f"{self.folder.path}: the rows of commit {segment_id} are trimmed, and with them "
                f"what a reader still wants; the oldest are those of commit {self._segments[0]}"
            )
        return index

    def segment_end(self, segment_id: int) -> int:
        """Return the byte behind the commit's last frame."""
        return self._commit_reader(segment_id).rows_at.end

    def _segments_from(self, segment_id: int) -> Iterable[int]:
        if not len(self._commits.numbers):
            return ()
        return self._segments[self._index_of(segment_id) :]

    def _schema_frame(self, segment_id: int) -> FrameHeader:
        """Return where the stream stands before a commit's frames: there is no SCHEMA frame."""
        if not len(self._commits.numbers):
            return FrameHeader(type=FrameType.SCHEMA, first_offset=self._end.offset)
        reader = self._commit_reader(segment_id)
        first = reader.first_frame()
        if first.first_offset != reader.rows_at.first_offset:
            what = f"record {first.first_offset}, the commit says {reader.rows_at.first_offset}"
            raise CorruptLog(reader.path, reader.rows_at.byte, what)
        return FrameHeader(
            type=FrameType.SCHEMA, seq=first.seq, first_offset=first.first_offset,
            prev_segment=first.prev_segment, prev_byte=first.prev_byte,
        )  # fmt: skip

    def first_offset(self, segment_id: int | None = None) -> int:
        """Offset of the first record of a commit; of the oldest by default. No request."""
        if not len(self._commits.numbers):
            return self._state.commit.starts[0]
        index = self._index_of(self._segments[0] if segment_id is None else segment_id)
        first: int = self._commits.rows.column("first_offset")[index].as_py()
        return first


def ledger_at(folder: Folder) -> ReferenceLog | None:
    """Return the commits of the queue in a folder, the first of them read; ``None`` without any.

    Raises:
        CorruptLog, UnsupportedVersion: the commit that makes the queue cannot be read.
    """
    store = store_of(folder)
    ledger = None if store is None else ReferenceLog(store)
    return ledger if ledger is not None and ledger.is_there() else None


def chain_at(folder: Folder, ledger: ReferenceLog | None = None) -> QueueChain:
    """Return a reader of a queue of one writer, in whichever layout it is.

    ``ledger`` is what :func:`ledger_at` has returned, where that was asked for already.

    Raises:
        NotAQueue: there is none.
        CorruptLog, UnsupportedVersion: it cannot be read.
    """
    ledger = ledger or ledger_at(folder)
    if ledger is not None and ledger.has_one_writer:
        return CommitChain(folder, ledger)
    try:
        return Chain(folder)
    except NotAQueue:
        store = store_of(folder)
        lost = None if store is None else ReferenceLog(store)
        if lost is not None and lost.newest_number() is not None:
            return CommitChain(folder, lost)  # which says that the commit that makes it is lost
        raise


def log_id_at(folder: Folder) -> bytes:
    """Return the id of a queue of one writer, 16 bytes; raises as :func:`chain_at`."""
    ledger = ledger_at(folder)
    if ledger is not None and ledger.has_one_writer:
        assert ledger.first is not None, "that it has one writer is what commit 0 says"
        return ledger.first.log_id
    return read_manifest(folder).log_id
