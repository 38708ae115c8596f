"""A segment that is sound throughout, read once and without a step of Python for each check.

:mod:`cec_store.inspector.damage.segment_scan` reads any other, frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import CorruptLog, StorageError
from cec_store.format.checksum import crc32c
from cec_store.format.columns import Ints
from cec_store.format.frame import (
    CONTINUES,
    COUNTED,
    FRAME_HEADER_BYTES,
    HEADER,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    are_sound,
    body_bytes_max,
)
from cec_store.inspector.damage.segment_scan import ScannedFrame, SegmentScan
from cec_store.log.frames import Frame
from cec_store.storage.folder import Folder
from cec_store.values import Address

_SIZES = Struct("<I4xI4xII")  # record_count, body_bytes, body_crc, header_crc
_SIZES_AT = 104
_WINDOW_BYTES = 1 << 20
_INSIDE = np.arange(FRAME_HEADER_BYTES)


class SoundFrames:
    """All frames of a segment, headers and bodies proven by their checksums."""

    def __init__(self, scan: SegmentScan, starts: Ints, headers: NDArray[np.void]) -> None:
        self.scan = scan
        self.starts = starts
        """The byte at which each begins."""
        self.headers = headers
        """Frame headers as an array of :data:`HEADER`."""

    def __len__(self) -> int:
        return len(self.starts)

    def found(self, number: int) -> ScannedFrame:
        """Return the frame in this row of the headers."""
        header = FrameHeader._make(self.headers[number].item())
        return ScannedFrame(self.scan.segment_id, int(self.starts[number]), header)

    def column(self, name: str) -> Ints:
        """A field of all headers; wide ones are below 2^63, or stand for none."""
        return self.headers[name].astype(np.int64)

    def has_batches(self) -> bool:
        """Return True if the segment has a BATCH frame."""
        return bool((self.headers["type"] == FrameType.BATCH.value).any())

    @property
    def continues(self) -> NDArray[np.bool_]:
        """One flag for each frame: True if its step continues in the next frame."""
        continues: NDArray[np.bool_] = (self.headers["flags"] & CONTINUES) != 0
        return continues

    def counts_from(self, seq: int) -> bool:
        """Return True if the frames are numbered without a gap, beginning with this number."""
        is_batch = self.headers["type"] == FrameType.BATCH.value
        due = seq + np.cumsum(is_batch) - is_batch
        return bool((self.headers["seq"].astype(np.int64) == due).all())

    def versions_rise(self) -> bool:
        """Return True if each commit of a state log makes a later version than the one before."""
        is_batch = self.headers["type"] == FrameType.BATCH.value
        versions = self.headers["input_upto"][is_batch].astype(np.int64)
        counted = (self.headers["flags"][is_batch] & COUNTED) != 0
        # All frames of a commit have its version; a later version follows its last frame.
        return bool(((versions[1:] > versions[:-1]) | ~counted[:-1]).all()) and bool(
            (versions[1:] >= versions[:-1]).all()
        )

    def running_crc(self, frames: int) -> int:
        """Running CRC behind so many frames."""
        crcs = np.ascontiguousarray(self.headers["header_crc"][:frames])
        return crc32c(crcs.tobytes(), self.scan.first_running_crc())


_KEPT = ("input_upto", "first_offset", "record_count", "extent_records", "open_windows", "flags")


class Batches(Sequence[Frame]):
    """The BATCH frames among them. Of each only a few numbers stay: a log may have millions."""

    def __init__(self, frames: SoundFrames) -> None:
        """``frames`` holds one at least."""
        (rows,) = np.nonzero(frames.headers["type"] == FrameType.BATCH.value)
        self.starts = frames.starts[rows]
        self._columns = {name: frames.headers[name][rows] for name in _KEPT}
        self._scan = frames.scan
        self._ends = [_frame_of(frames.found(int(row))) for row in (rows[0], rows[-1])]

    def column(self, name: str) -> Ints:
        """Return a field of all BATCH headers, of those that are kept."""
        return self._columns[name].astype(np.int64)

    @property
    def is_counted(self) -> NDArray[np.bool_]:
        """One flag for each frame: True if it ends a commit."""
        counted: NDArray[np.bool_] = (self._columns["flags"] & COUNTED) != 0
        return counted

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, number: int) -> Frame: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Frame]: ...
    def __getitem__(self, number: int | slice) -> Frame | Sequence[Frame]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        if number % len(self) in (0, len(self) - 1):
            return self._ends[number % len(self) != 0]
        byte, scan = int(self.starts[number]), self._scan
        try:
            return _frame_of(ScannedFrame(scan.segment_id, byte, scan.header_at(byte)))
        except BadHeader as error:
            raise CorruptLog(scan.path, byte, f"it was sound a moment ago: {error}") from None
        finally:
            scan.reload()

    def __iter__(self) -> Iterator[Frame]:
        return (self[at] for at in range(len(self)))


def _frame_of(scanned: ScannedFrame) -> Frame:
    return Frame(Address(scanned.segment_id, scanned.byte), scanned.header)


class RunningCrcs:
    """Running CRC by the byte at which a frame ends, counted when asked for."""

    def __init__(self, frames: SoundFrames) -> None:
        self._places = frames.starts
        self._crcs = np.ascontiguousarray(frames.headers["header_crc"])
        self._first = frames.scan.first_running_crc()

    def __getitem__(self, byte: int) -> int:
        count = int(np.searchsorted(self._places, byte))
        return crc32c(self._crcs[:count].tobytes(), self._first)


def read_whole(
    folder: Folder, scan: SegmentScan, stop: int, progress: Callable[[int], None]
) -> SoundFrames | None:
    """Every frame in ``[SEGMENT_HEADER_BYTES, stop)``; ``None`` unless each is whole and sound."""
    if scan.header is None:
        return None
    starts: list[NDArray[np.int64]] = []
    headers: list[NDArray[np.void]] = []
    byte, window = SEGMENT_HEADER_BYTES, _WINDOW_BYTES
    while byte < stop:
        try:
            data = folder.read(scan.name, byte, min(window, stop - byte))
        except (StorageError, FileNotFoundError):
            return None
        begins, end, needed = _sound_in(data)
        is_cut = len(data) < min(window, stop - byte) or byte + end + needed > stop
        if begins is None or is_cut:
            return None
        window = max(_WINDOW_BYTES, needed)
        if begins:
            at = np.array(begins)
            starts.append(byte + at)
            raw = np.frombuffer(data, np.uint8)[at[:, None] + _INSIDE]
            headers.append(raw.view(HEADER)[:, 0])
        byte += end
        progress(byte)
    if not starts:
        return None
    whole = SoundFrames(scan, np.concatenate(starts), np.concatenate(headers))
    return whole if _is_plain(whole) else None


def _sound_in(data: bytes) -> tuple[list[int] | None, int, int]:
    """Return where frames begin in ``data``, where the last one ends, and the size of the next one.

    The first is ``None`` where a frame is not what its checksums say.
    """
    buffer, at, size = pa.py_buffer(data), 0, len(data)
    starts: list[int] = []
    while at + FRAME_HEADER_BYTES <= size:
        record_count, body_bytes, body_crc, header_crc = _SIZES.unpack_from(data, at + _SIZES_AT)
        body = at + FRAME_HEADER_BYTES
        end = body + body_bytes
        is_too_large = body_bytes > body_bytes_max(record_count)
        if is_too_large or crc32c(data[at : body - 4]) != header_crc:
            return None, 0, 0
        if end > size:
            return starts, at, end - at
        if (crc32c(buffer.slice(body, body_bytes)) if body_bytes else 0) != body_crc:
            return None, 0, 0
        starts.append(at)
        at = end
    return starts, at, FRAME_HEADER_BYTES if at < size else 0


def _is_plain(whole: SoundFrames) -> bool:
    """Return True if all headers are sound and of this segment: its SCHEMA, and then records."""
    headers, scan = whole.headers, whole.scan
    assert scan.header is not None
    kinds = headers["type"]
    return bool(
        are_sound(headers).all()
        and (headers["salt"] == np.uint64(scan.header.salt)).all()
        and kinds[0] == FrameType.SCHEMA.value
        and (kinds[1:] == FrameType.BATCH.value).all()
    )
