"""End of the newest segment for readers, while its writer is at work on it."""

from __future__ import annotations

from cec_store.format.durable_end import DurableEnd
from cec_store.format.ends import EndFacts, LogKind, judge
from cec_store.format.frame import NONE, SEGMENT_HEADER_BYTES, FrameHeader, FrameType
from cec_store.log.forward_scan import ForwardScan
from cec_store.log.frames import Frame, LogEnd
from cec_store.log.known_end import prove_noted
from cec_store.log.segment import SegmentReader
from cec_store.values import Address

_ATTEMPTS = 4
"""Number of times in a row that a place must be found bad before it counts as damage."""


class VisibleEnd:
    """Follows the newest segment; :attr:`end` covers vouched frames only."""

    def __init__(
        self, reader: SegmentReader, schema_frame: FrameHeader, noted: DurableEnd | None = None
    ) -> None:
        """Begins where the durable end was ``noted``, without reading what stands before it.

        Raises:
            CorruptLog: the log ends below.
        """
        self._scan = ForwardScan(reader, noted)
        self._segment_id = reader.header.segment_id
        self._noted = noted
        self._claimed_beyond = 0
        self._looked_beyond = (-1, -1)
        """The place of the bad byte and the size of the segment when that was found."""
        self._unvouched: list[Frame] = []
        """Whole BATCH frames behind :attr:`end`, which nothing says are on disk yet."""
        self._first_byte = SEGMENT_HEADER_BYTES + schema_frame.frame_bytes
        seq, offset = schema_frame.seq, schema_frame.first_offset
        byte = self._first_byte
        last = Address(schema_frame.prev_segment, schema_frame.prev_byte)
        if noted is not None:
            seq, offset, byte = noted.seq, noted.offset, prove_noted(noted, reader)
            last = Address(noted.last_segment, noted.last_byte)
        self.end = LogEnd(
            seq=seq,
            offset=offset,
            address=Address(self._segment_id, byte),
            last=None if last.segment_id == NONE else last,
        )

    @property
    def written_offset(self) -> int:
        """Offset behind the last whole step, vouched for or not."""
        whole = (f.header for f in reversed(self._unvouched) if not f.header.continues)
        newest = next(whole, None)
        return self.end.offset if newest is None else newest.end_offset

    @property
    def has_records(self) -> bool:
        """True if there is a whole BATCH frame in the segment, vouched for or not."""
        return bool(self._unvouched) or self.end.address.byte > self._first_byte

    def advance(self, noted: DurableEnd | None = None) -> LogEnd:
        """Read on from where the last look ended; ``noted`` was read before.

        Raises:
            CorruptLog: damage where the log was acknowledged.
            UnsupportedVersion: a sound frame of a later format.
        """
        if noted is not None:
            self._noted = noted
        self._read_on()
        attempts = 1
        while self._is_damage():
            if attempts == _ATTEMPTS:
                if self._noted is not None and not self._scan.bad.newer:
                    prove_noted(self._noted, self._scan.reader)
                raise self._scan.bad.refusal(self._scan.reader.path)
            # The writer may have been in the middle of this very frame, or may have gone on since:
            # only a place that stays bad is damage.
            before = self._scan.bad.byte
            self._read_on()
            attempts = attempts + 1 if self._scan.bad.byte == before else 1
        self._take_vouched()
        return self.end

    def _read_on(self) -> None:
        self._scan.reader.reload()
        for byte, header in self._scan.read_on():
            if header.type == FrameType.BATCH:
                self._unvouched.append(Frame(Address(self._segment_id, byte), header))

    def _is_damage(self) -> bool:
        scan, byte = self._scan, self._scan.bad.byte
        # What is there is searched once, however often somebody looks: a segment only grows.
        looked = (byte, scan.reader.size())
        if looked != self._looked_beyond:
            self._claimed_beyond, self._looked_beyond = scan.claimed_beyond(), looked
        # Where the file ends is not asked: its writer may be at work on it.
        facts = EndFacts(byte, byte, self._claimed(), is_newer=scan.bad.newer)
        verdict, _ = judge(LogKind.QUEUE, facts)
        if verdict.is_refused:
            return True
        return self._noted is not None and self._noted.salt != scan.reader.header.salt

    def _claimed(self) -> int:
        noted = self._noted.byte if self._noted is not None else 0
        return max(self._scan.claimed, self._claimed_beyond, noted)

    def _take_vouched(self) -> None:
        claimed = self._claimed()
        vouched = [f for f in self._unvouched if f.next_address.byte <= claimed]
        while vouched and vouched[-1].header.continues:
            vouched.pop()  # its step is not vouched for to the end
        if vouched:
            del self._unvouched[: len(vouched)]
            last = vouched[-1]
            header = last.header
            self.end = LogEnd(header.seq + 1, header.end_offset, last.next_address, last.address)
