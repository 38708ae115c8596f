"""Largest timestamp so far → the first frame that reached it. docs/timestamp-index.md.

Derived from the log, which never calls it, and brought up to date by :meth:`TimestampIndex.follow`.
What LMDB answers is proven against the log before it is returned. An index that
fails a proof is dropped, and lookups scan frame headers instead, with the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar

from cec_store.errors import CecError, ReadOnly
from cec_store.indexes.entries import BadIndex, FrameEntry, UnwritableIndex
from cec_store.indexes.files import IndexFiles, index_folder
from cec_store.indexes.recent import RecentFrames
from cec_store.indexes.stored import StoredIndex, is_trimmed, prove
from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame

_NO_PLACE = (
    "the queue is not in a folder of a local file system (by the list of mounts), and its index is "
    "in memory alone"
)
_FRAMES_PER_WRITE = 1 << 16
_FRAMES_PER_PUBLISHING = 1 << 10
_Found = TypeVar("_Found")


class TimestampIndex:
    """Finds frames by timestamp, offset and number; answers and errors are those of a chain.

    Safe for threads, each with a chain of its own: ``_lock`` guards every field. A writable index
    must not be used in a child after a fork.
    """

    def __init__(self, chain: QueueChain, writable: bool = False) -> None:
        """The index of the chain's queue; one in memory where none on disk can be believed.

        ``writable`` is for who may append to the queue: :meth:`follow` then keeps it on disk.
        Otherwise nothing on disk is ever changed, unless the queue is in a store: then it is a
        cache of this user's. Raises nothing on the index's own account.
        """
        self._lock = RLock()
        self._chain = chain
        self._log_id = chain.log_id
        self._is_cache = not chain.folder.appends
        self._writable = writable or self._is_cache
        self._may_write = False
        """True if it can be written, unless the last attempt failed."""
        self._stored: StoredIndex | None = None
        self._recent = RecentFrames()
        self._published_seq = 0
        self.dropped = 0
        """Number of times that stored rows failed a proof."""
        self.problem = ""
        """Reason that it was dropped last, is behind, or cannot be written; empty if all is well.
        """
        self._files: IndexFiles | None = None
        folder = index_folder(chain.folder, self._log_id)
        if folder is None:
            self.problem = _NO_PLACE
            self._writable = False
            return
        self._may_write = self._writable
        self._files = IndexFiles(folder, self._log_id)
        self._load(self._files)

    def _load(self, files: IndexFiles) -> None:
        file = None
        try:
            file = files.open_published()
            self._stored, self._recent = StoredIndex.reconcile(file, self._chain)
            self._published_seq = self._recent.next_seq or 0
        except BadIndex as error:
            self.problem = str(error)
            if file is not None:
                file.close()

    @property
    def stored_frames(self) -> int:
        """Number of frames that the index on disk covers, as far as it is in use."""
        with self._lock:
            return self._stored.frames if self._stored else 0

    # -- lookups ------------------------------------------------------------------------------

    def find_timestamp(self, timestamp_us: int, chain: QueueChain | None = None) -> Frame | None:
        """The first frame that can hold a record at or after the moment; ``None`` at the end.

        Raises:
            CorruptLog: the log is damaged where the search has to look.
        """
        if self._is_cache:
            self.follow(chain)
        return self._find(timestamp_us, chain, self._search_timestamp, QueueChain.find_timestamp)

    def find_offset(self, offset: int, chain: QueueChain | None = None) -> Frame | None:
        """The frame that holds record ``offset``; ``None`` at the end.

        Raises:
            OutOfRange: trimmed, or beyond the end.
        """
        return self._find(offset, chain, self._search_offset, QueueChain.find_offset)

    def find_seq(self, seq: int, chain: QueueChain | None = None) -> Frame:
        """The frame of this number.

        Raises:
            OutOfRange: trimmed, or not there yet.
        """
        return self._find(seq, chain, self._search_seq, QueueChain.find_seq)

    def lookup(self, chain: QueueChain) -> IndexLookup:
        """The lookups over one chain, which a writable index follows first."""
        if not self._is_cache:  # which waits until a moment is asked for: to follow takes requests
            self.follow(chain)
        return IndexLookup(self, chain)

    def _find(
        self,
        value: int,
        chain: QueueChain | None,
        search: Callable[[int, QueueChain], _Found],
        scan: Callable[[QueueChain, int], _Found],
    ) -> _Found:
        with self._lock:
            chain = chain or self._chain
            for _ in range(2):
                try:
                    return search(value, chain)
                except BadIndex as error:
                    self._drop(str(error))
                    self.follow(chain)
            return scan(chain, value)

    def _search_timestamp(self, timestamp_us: int, chain: QueueChain) -> Frame | None:
        if self._stored and timestamp_us <= self._stored.reached_us:
            claim = self._stored.timestamp_entry(timestamp_us)
        else:
            self._let_go_of_trimmed(chain)
            recent = self._recent.timestamp_entry(timestamp_us)
            if recent is None:
                for frame in chain.frames(self._recent.next_address):
                    self._recent.add(frame)
                    if frame.header.max_timestamp_us >= timestamp_us:
                        return frame
                return None
            claim = recent
        if is_trimmed(claim, chain):
            # The entry also covered later frames with smaller timestamps; one may be the answer.
            return chain.find_timestamp(timestamp_us)
        return prove(claim, chain)

    def _search_offset(self, offset: int, chain: QueueChain) -> Frame | None:
        if offset >= chain.end.offset:
            return chain.find_offset(offset)
        entry = self._recent.entry_of_offset(offset)
        if entry is None and self._stored:
            entry = self._stored.entry_of_offset(offset)
        frame = prove(entry, chain) if entry else None
        if frame is None or offset >= frame.header.end_offset:
            return chain.find_offset(offset)  # behind all that is known here
        if offset < frame.header.first_offset:
            raise BadIndex(f"frame {frame.header.seq} does not hold offset {offset}")
        return frame

    def _search_seq(self, seq: int, chain: QueueChain) -> Frame:
        entry: FrameEntry | None = self._recent.frame_entry(seq)
        if entry is None and self._stored:
            entry = self._stored.frame_entry(seq)
        return (prove(entry, chain) if entry else None) or chain.find_seq(seq)

    # -- following ----------------------------------------------------------------------------

    def follow(self, chain: QueueChain | None = None) -> None:
        """Bring a writable index up to the chain's end; a read-only one does nothing.

        Damage in the log ends the index there (:attr:`problem` says so): it is raised by the
        lookups that have to go beyond.
        """
        with self._lock:
            self._chain = chain = chain or self._chain
            for _ in range(2):
                if not self._writable:
                    return
                try:
                    self._append(chain)
                    self._trim(chain)
                    self._publish_if_due()
                    return
                except UnwritableIndex as error:
                    self._writable, self.problem = False, str(error)
                except BadIndex as error:
                    self._drop(str(error))
            self._writable = False

    def rebuild(self, chain: QueueChain | None = None) -> int:
        """Make the index anew from the log and publish it; returns the number of frames in it.

        Raises:
            ReadOnly: none can be written here.
        """
        with self._lock:
            if self._files is None:
                raise ReadOnly(f"{self._chain.folder.path}: cannot write an index: {_NO_PLACE}")
            self._drop("")
            self.dropped -= 1
            # The disk that was full may have room by now.
            self._writable = self._may_write
            self.follow(chain)
            if not self._writable:
                path = self._chain.folder.path
                raise ReadOnly(f"{path}: cannot write an index: {self.problem or 'open to read'}")
            self._publish()
            return self.stored_frames

    def close(self) -> None:
        """Leave the index on disk for the next one to open. Lookups still work, by scanning."""
        with self._lock:
            stored, self._stored = self._stored, None
            self._recent, self._writable, self._may_write = RecentFrames(), False, False
            if stored is not None:
                stored.file.close()
                if stored.file.writable and self._files:
                    self._files.publish_closed(stored.file.name)

    def _append(self, chain: QueueChain) -> None:
        self._let_go_of_trimmed(chain)
        self.problem = ""
        try:
            for frame in chain.frames(self._recent.next_address):
                self._recent.add(frame)
                if len(self._recent) >= _FRAMES_PER_WRITE:
                    self._flush()
        except (CecError, OSError) as error:
            self.problem = f"the index ends where the log cannot be read: {error}"
        self._flush()

    def _flush(self) -> None:
        if len(self._recent):
            self._recent = self._own().append(self._recent)

    def _trim(self, chain: QueueChain) -> None:
        """Drop the entries of trimmed frames; call it when no frame is in memory only."""
        if self._stored is None or not self._stored.needs_trim(chain):
            return
        stored = self._own()
        # If the log is damaged, trimmed rows stay, and lookups that meet one scan the log instead.
        with suppress(CecError, OSError):
            stored.trim(chain)
        self._recent = self._recent.after(stored.reached_us)

    def _let_go_of_trimmed(self, chain: QueueChain) -> None:
        here = self._recent.next_address
        if self._stored is not None:
            self._stored.needs_trim(chain)
        elif here is not None and here.segment_id < chain.segments[0]:
            self._recent = RecentFrames()
        else:
            self._recent.forget(chain.segments[0])

    def _own(self) -> StoredIndex:
        """The file that this process writes to, made from the published one when first needed."""
        if self._stored is None or not self._stored.file.writable:
            assert self._files is not None
            before = self._stored
            file = self._files.start(before.file if before else None)
            self._stored = StoredIndex(file, self._log_id, before.coverage if before else None)
            if before is not None:
                before.file.close()
        return self._stored

    def _publish_if_due(self) -> None:
        fresh = (self._recent.next_seq or 0) - self._published_seq
        if fresh >= _FRAMES_PER_PUBLISHING and self._stored and 4 * fresh >= self._stored.frames:
            self._publish()

    def _publish(self) -> None:
        if self._stored and self._stored.file.writable and self._files:
            self._files.publish_copy(self._stored.file)
            self._published_seq = self._recent.next_seq or 0

    def _drop(self, reason: str) -> None:
        stored, self._stored = self._stored, None
        self._recent = RecentFrames()
        self._published_seq = 0
        self.problem = reason
        self.dropped += 1
        if stored is not None:
            stored.file.close()
            if stored.file.writable and self._files:
                self._files.discard(stored.file.name)


@dataclass(frozen=True)
class IndexLookup:
    """The index's lookups over one chain."""

    index: TimestampIndex
    chain: QueueChain

    def find_timestamp(self, timestamp_us: int) -> Frame | None:
        return self.index.find_timestamp(timestamp_us, self.chain)

    def find_offset(self, offset: int) -> Frame | None:
        return self.index.find_offset(offset, self.chain)
