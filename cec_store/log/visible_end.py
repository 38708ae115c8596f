"""How far the newest segment reaches for readers, while its writer is at work on it."""

from __future__ import annotations

from cec_store.format.frame import NONE, SEGMENT_HEADER_BYTES, FrameHeader, FrameType
from cec_store.log.frames import Frame, LogEnd
from cec_store.log.segment import Bad, BadFrame, SegmentReader, refusal
from cec_store.values import Address

_LOOKS = 4


class VisibleEnd:
    """Follows the newest segment; :attr:`end` covers vouched frames only."""

    def __init__(self, reader: SegmentReader, schema_frame: FrameHeader) -> None:
        self._reader = reader
        self._segment_id = reader.header.segment_id
        self._scanned = SEGMENT_HEADER_BYTES
        self._due = schema_frame.seq
        self._claimed = 0
        self._waiting: list[Frame] = []
        previous = Address(schema_frame.prev_segment, schema_frame.prev_byte)
        self.end = LogEnd(
            seq=schema_frame.seq,
            offset=schema_frame.first_offset,
            address=Address(self._segment_id, SEGMENT_HEADER_BYTES + schema_frame.frame_bytes),
            last=None if schema_frame.prev_segment == NONE else previous,
        )

    @property
    def written_offset(self) -> int:
        """Where the whole frames end, vouched for or not."""
        return self._waiting[-1].header.end_offset if self._waiting else self.end.offset

    def advance(self) -> LogEnd:
        """Read on from where the last look ended.

        Raises:
            CorruptLog: damage where the log was acknowledged.
            UnsupportedVersion: a sound frame of a later format.
        """
        bad = self._scan()
        looks = 1
        while self._is_damage(bad):
            if looks == _LOOKS:
                raise refusal(self._reader, bad)
            # The writer may have been in the middle of this very frame, or may have gone on since:
            # only a place that stays bad is damage.
            reached = self._scanned
            bad = self._scan()
            looks = looks + 1 if self._scanned == reached else 1
        self._take_vouched()
        return self.end

    def _scan(self) -> Bad:
        self._reader.reload()
        try:
            for byte, header in self._reader.frames(start=self._scanned, due=self._due):
                self._claimed = max(self._claimed, header.durable_upto)
                if header.type == FrameType.BATCH:
                    self._waiting.append(Frame(Address(self._segment_id, byte), header))
                self._scanned = byte + header.frame_bytes
                self._due = header.seq + (header.type == FrameType.BATCH)
        except BadFrame as error:
            return error.bad
        raise AssertionError("a scan without a stop ends at a bad frame")

    def _is_damage(self, bad: Bad) -> bool:
        if bad.newer or self._claimed > bad.byte:
            return True
        if bad.byte >= self._reader.size():
            return False
        beyond = self._reader.headers_beyond(bad.byte)
        return any(header.durable_upto > bad.byte for header in beyond)

    def _take_vouched(self) -> None:
        vouched = [f for f in self._waiting if f.next_address.byte <= self._claimed]
        if vouched:
            del self._waiting[: len(vouched)]
            last = vouched[-1]
            header = last.header
            self.end = LogEnd(header.seq + 1, header.end_offset, last.next_address, last.address)
