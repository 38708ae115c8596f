"""The index on disk: lookups of its entries, and the proof of an entry against the log."""

from __future__ import annotations

from collections.abc import Callable

from cec_store.errors import CecError, OutOfRange
from cec_store.format.frame import SEGMENT_HEADER_BYTES
from cec_store.indexes.entries import (
    NOTHING_REACHED,
    BadIndex,
    Coverage,
    FrameEntry,
    TimestampEntry,
    seq_key,
    timestamp_key,
)
from cec_store.indexes.lmdb_file import ABOVE_ALL_KEYS, LmdbFile
from cec_store.indexes.recent import RecentFrames
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Address


def is_trimmed(claim: FrameEntry | TimestampEntry, chain: QueueChain) -> bool:
    """Return True if the claimed frame has left the log."""
    return claim.segment_id < chain.segments[0]


def prove(claim: FrameEntry | TimestampEntry, chain: QueueChain) -> Frame | None:
    """The frame that the index claims; ``None`` if it is trimmed or beyond the chain's end.

    Raises:
        BadIndex: the log has another frame there, or none.
        OutOfRange: it has been trimmed since the chain looked.
    """
    if is_trimmed(claim, chain):
        return None
    address = Address(claim.segment_id, claim.byte)
    try:
        frame = chain.frame_at(address)
        end_byte = chain.segment_end(claim.segment_id) if claim.seq < chain.end.seq else None
    except OutOfRange:
        raise  # trimmed since the chain looked: the caller looks again
    except (CecError, OSError, ValueError) as error:
        raise BadIndex(f"frame {claim.seq} is not at {address}: {error}") from error
    header = frame.header
    if (header.seq, header.header_crc) != (claim.seq, claim.header_crc):
        raise BadIndex(f"another frame than {claim.seq} is at {address}")
    if isinstance(claim, TimestampEntry) and header.max_timestamp_us != claim.upto_us:
        raise BadIndex(f"frame {claim.seq} does not reach {claim.upto_us}")
    if end_byte is None:
        return None
    if frame.next_address.byte > end_byte:
        raise BadIndex(f"frame {claim.seq} at {address} is not part of the log")
    return frame


class StoredIndex:
    """An open file of the index. Every method raises :class:`BadIndex` where a row is not sound."""

    def __init__(self, file: LmdbFile, log_id: bytes, coverage: Coverage | None) -> None:
        self.file = file
        self._log_id = log_id
        self.coverage = coverage
        """Frames that it covers; ``None`` before the first."""

    @classmethod
    def reconcile(cls, file: LmdbFile, chain: QueueChain) -> tuple[StoredIndex, RecentFrames]:
        """Take a file that was published, if what it covers is in the log to its last frame.

        Returns it, and an empty run that begins with the first frame that it does not cover.
        """
        log_id = chain.log_id
        coverage = Coverage.decode(file.coverage(), log_id)
        try:
            # A writer may have published more than this chain has seen.
            current = chain if coverage.last.seq < chain.end.seq else chain_at(chain.folder)
        except (CecError, OSError) as error:
            raise BadIndex(f"the log cannot be read: {error}") from error
        try:
            last = prove(coverage.last, current)
        except OutOfRange:
            last = None
        if last is None:
            raise BadIndex("the index covers what is not in the log")
        recent = RecentFrames(coverage.last.seq + 1, last.next_address, coverage.reached_us)
        return cls(file, log_id, coverage), recent

    @property
    def reached_us(self) -> int:
        """Largest timestamp of all that is covered; below every timestamp if nothing is."""
        return self.coverage.reached_us if self.coverage else NOTHING_REACHED

    @property
    def frames(self) -> int:
        """Number of frames that are covered; 0 if the first row cannot tell."""
        try:
            first = self._first()
        except BadIndex:
            return 0
        return self.coverage.last.seq + 1 - first.seq if self.coverage and first else 0

    def _first(self) -> FrameEntry | None:
        row = self.file.first_frame()
        return FrameEntry.decode(row, self._log_id) if row else None

    def timestamp_entry(self, timestamp_us: int) -> TimestampEntry:
        """The first frame at or above a timestamp that is not above :attr:`reached_us`."""
        row = self.file.timestamp(timestamp_key(timestamp_us))
        if row is None:
            raise BadIndex(f"no row for {timestamp_us} below {self.reached_us}")
        entry = TimestampEntry.decode(row, self._log_id)
        if not entry.from_us <= max(timestamp_us, MIN_TIMESTAMP_US) <= entry.upto_us:
            raise BadIndex(f"the row for {timestamp_us} is missing")
        return entry

    def frame_entry(self, seq: int) -> FrameEntry | None:
        """Return the entry of frame ``seq``; ``None`` if that is not covered."""
        if self.coverage is None or not 0 <= seq <= self.coverage.last.seq:
            return None
        with self.file.frames() as get:
            return self._frame_entry(seq, get)

    def _frame_entry(self, seq: int, get: Callable[[bytes], bytes | None]) -> FrameEntry | None:
        key = seq_key(seq)
        value = get(key)
        return None if value is None else FrameEntry.decode((key, value), self._log_id)

    def entry_of_offset(self, offset: int) -> FrameEntry | None:
        """The last covered frame that begins at or before the offset: they rise with ``seq``."""
        entry = self._first()
        if self.coverage is None or entry is None or offset < entry.first_offset:
            return None
        low, high = entry.seq, self.coverage.last.seq
        with self.file.frames() as get:
            while low < high:
                middle = (low + high + 1) // 2
                probe = self._frame_entry(middle, get)
                if probe is None:
                    raise BadIndex(f"frame {middle} is missing")
                if probe.first_offset <= offset:
                    low, entry = middle, probe
                else:
                    high = middle - 1
        return entry

    def append(self, recent: RecentFrames) -> RecentFrames:
        """Store these frames, in one transaction; returns an empty run that begins after them."""
        coverage = recent.coverage()
        rows = recent.rows(self._log_id)
        self.file.append(*rows, coverage.encode(self._log_id))
        self.coverage = coverage
        return recent.after(coverage.reached_us)

    def needs_trim(self, chain: QueueChain) -> bool:
        """Return True if trimmed frames are covered.

        Raises:
            BadIndex: all of them are trimmed, so there is nothing to go on from.
        """
        if self.coverage is None:
            return False
        if is_trimmed(self.coverage.last, chain):
            raise BadIndex("all that the index covers is trimmed")
        first = self._first()
        return first is not None and is_trimmed(first, chain)

    def trim(self, chain: QueueChain) -> None:
        """Remove the entries of trimmed frames, and add those of frames that only they preceded.

        A frame has a timestamp entry if it raises the largest timestamp so far: without the
        trimmed ones, frames before the first entry that is kept may do so.

        Raises:
            CecError: the log is damaged where it has to be read again.
        """
        assert self.coverage is not None
        coverage, kept = self.coverage, self._first_kept(chain)
        hidden, first_seq = RecentFrames(), coverage.last.seq + 1
        for frame in chain.frames(Address(chain.segments[0], SEGMENT_HEADER_BYTES)):
            first_seq = min(first_seq, frame.header.seq)
            if frame.header.seq >= (kept.seq if kept else coverage.last.seq + 1):
                break
            hidden.add(frame)
        rows = hidden.rows(self._log_id)[1]
        if kept is not None:
            rows.append(kept._replace(from_us=hidden.reached_us + 1).encode(self._log_id))
        else:
            coverage = coverage._replace(reached_us=hidden.reached_us)
        limit = timestamp_key(kept.upto_us) if kept else ABOVE_ALL_KEYS
        self.file.trim(seq_key(first_seq), limit, rows, coverage.encode(self._log_id))
        self.coverage = coverage

    def _first_kept(self, chain: QueueChain) -> TimestampEntry | None:
        """The first frame to raise the maximum that is still there."""
        next_us = MIN_TIMESTAMP_US
        while next_us <= MAX_TIMESTAMP_US:
            row = self.file.timestamp(timestamp_key(next_us))
            if row is None:
                break
            entry = TimestampEntry.decode(row, self._log_id)
            if not is_trimmed(entry, chain):
                return entry
            next_us = entry.upto_us + 1
        return None
