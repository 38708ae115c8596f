"""Reading one segment that may be damaged: every frame that is intact, and the gaps between them.

Readers (:mod:`cec_store.log`) refuse a damaged segment at its first bad byte. An inspection goes
on at the next frame header that verifies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from cec_store.errors import CecError, StorageError
from cec_store.format.bodies import decode_body
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    SegmentHeader,
    decode_segment_header,
    extend_running_crc,
)
from cec_store.format.scan import Bad
from cec_store.log.segment_file import SegmentFile
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_name

_WINDOW_BYTES = 1 << 20


@dataclass(frozen=True)
class ScannedFrame:
    """A frame whose header verifies."""

    segment_id: int
    byte: int
    header: FrameHeader

    @property
    def end_byte(self) -> int:
        """Position of the first byte behind the frame."""
        return self.byte + self.header.frame_bytes


@dataclass(frozen=True)
class Gap:
    """Bytes that are no frame of this segment."""

    segment_id: int
    byte: int
    end_byte: int
    reason: str
    newer: bool = False
    """A sound frame of a later format."""

    @property
    def bytes(self) -> int:
        return self.end_byte - self.byte

    @property
    def what(self) -> str:
        """Description for people, such as "12 bytes are no frame: …"."""
        return f"{self.bytes} bytes are no frame: {self.reason}"


class SegmentScan(SegmentFile):
    """One segment as it was when this was made: what a live writer adds is not looked at."""

    def __init__(self, folder: Folder, segment_id: int) -> None:
        """Raises ``FileNotFoundError``; damage is in :attr:`problem`."""
        name = segment_name(segment_id)
        super().__init__(f"{folder.path}/{name}", name, segment_id)
        self._folder = folder
        self.bytes = folder.size(self.name)
        self.header: SegmentHeader | None = None
        self.problem: BadHeader | None = None
        """Reason that there is no header."""
        data = self._read(0, SEGMENT_HEADER_BYTES)
        try:
            self.header = decode_segment_header(data)
        except BadHeader as error:
            self.problem = error
        self.salt = None if self.header is None else self.header.salt
        """Salt of the header; where the header is damaged, that of the first sound frame."""
        self.header_crc = int.from_bytes(data[SEGMENT_HEADER_BYTES - 4 :], "little")

    @classmethod
    def if_there(cls, folder: Folder, segment_id: int) -> SegmentScan | None:
        """The segment; ``None`` where it is missing or its disk cannot be read.

        Raises:
            Unreadable, CredentialsRefused: this user may not read it.
            StoreUnreachable: its store does not answer.
        """
        try:
            return cls(folder, segment_id)
        except (PermissionError, ConnectionError):  # rights, credentials, a store without answer
            raise
        except (FileNotFoundError, CecError):
            return None

    def _read(self, byte: int, size: int) -> bytes:
        size = min(size, self.bytes - byte)
        if size <= 0:
            return b""
        try:
            return self._folder.read(self.name, byte, size)
        except (PermissionError, ConnectionError):  # rights, credentials, a store without answer
            raise
        except (StorageError, FileNotFoundError):
            return b""  # an unreadable disk block, or trimmed by now: as if cut

    def _prove_last_byte(self, byte: int, header: FrameHeader) -> None:
        """Ask nothing: a file that ends before its segment does has a gap there."""

    def body_problem(self, frame: ScannedFrame) -> str:
        """Return why a body is not sound; empty if it is."""
        try:
            self.body_at(frame.byte, frame.header)
        except BadHeader as error:
            return str(error)
        return ""

    def frames(self, stop: int, start: int = SEGMENT_HEADER_BYTES) -> Iterator[ScannedFrame | Gap]:
        """Everything in ``[start, stop)``, a frame's beginning; bodies are not looked at."""
        byte: int | None = start
        while byte is not None:
            bad: Bad | None = None
            for item in self.whole_frames(byte, stop):
                if isinstance(item, Bad):
                    bad = item
                else:
                    yield ScannedFrame(self.segment_id, *item)
            if bad is None:
                return
            byte = self._next_intact(bad.byte + 1, stop)
            end_byte = stop if byte is None else byte
            yield Gap(self.segment_id, bad.byte, end_byte, bad.reason, bad.newer)

    def _next_intact(self, byte: int, stop: int) -> int | None:
        """Return the byte of the next frame of this segment that ends before ``stop``."""
        while byte + FRAME_HEADER_BYTES <= min(stop, self.bytes):
            size = min(_WINDOW_BYTES, stop - byte)
            for at, header in self.intact_in(byte, size):
                if at + header.frame_bytes <= stop:
                    return at
            byte += size - FRAME_HEADER_BYTES + 1
        return None

    def records(self, frame: ScannedFrame) -> pa.RecordBatch:
        """The frame's records.

        Raises:
            BadHeader: damaged, or not what the header says.
        """
        header = frame.header
        body = self.body_at(frame.byte, header)
        schema = self.schema(header)
        return decode_body(body, header.codec, header.raw_bytes, schema, header.record_count)

    def first_running_crc(self) -> int:
        """Running CRC of the segment header alone."""
        return extend_running_crc(0, self.header_crc)
